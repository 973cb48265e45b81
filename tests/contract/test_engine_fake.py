"""The fake keeps the laws of an engine that hold without processes."""

import signal

from headrace.ports import Connections
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_contract import EngineContract, take, wave
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.numbers_reader import NumbersReader


class TestInProcessEngine(EngineContract):
    def new_engine(self, folder):
        url = f"sqlite:///{folder / 'store.db'}"
        open_store(url).close()
        connections = Connections({}, url, warehouse=str(folder / "files"))
        return InProcessEngine(
            connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters()
        )

    def deadly(self, engine):
        engine.accidents = ["before"]
        return lambda table, _context: table.select(["offset"])

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
