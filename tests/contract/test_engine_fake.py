"""The fake keeps the laws of an engine that hold without processes."""

import signal

import pytest

from headrace.ports import Connections
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_contract import *  # noqa: F403 - the suites
from headrace.testing.engine_contract.begun import take, wave
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.numbers_reader import NumbersReader


@pytest.fixture
def new_engine(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    open_store(url).close()
    connections = Connections({}, url, warehouse=str(tmp_path / "files"))
    return lambda: InProcessEngine(
        connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters()
    )


@pytest.fixture
def deadly():
    def planned(engine):
        engine.accidents = ["before"]
        return lambda table, _context: table.select(["offset"])

    return planned


class TestFake:
    def test_an_accident_happens_to_the_next_wave_that_is_not_cancelled(self, engine):
        take(engine, lambda table, _context: table.select(["offset"]))
        engine.accidents = ["before"]
        for name in ("w1", "w2", "w3"):
            engine.start(wave(name))
        engine.cancel("w1")
        lost = {result.wave.id: result.error is not None for result in engine.finished(0.0)}
        assert lost == {"w1": True, "w2": True, "w3": False}

    def test_what_is_paused_has_begun_and_what_queues_has_not(self, engine):
        take(engine, lambda table, _context: table.select(["offset"]))
        engine.paused = True
        engine.start(wave("w1"))
        assert engine.finished(0.0) == []
        assert engine.began("w1")
        engine.queued = True
        assert not engine.began("w1")

    def test_no_clock_of_the_machine_ends_a_call(self, engine):
        alarms = []

        def handler(table, _context):
            alarms.append(signal.getsignal(signal.SIGALRM))
            return table.select(["offset"])

        take(engine, handler)
        engine.start(wave("w1"))
        engine.finished(0.0)
        assert alarms == [signal.getsignal(signal.SIGALRM)]
