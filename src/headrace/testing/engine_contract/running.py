"""What an engine must do where waves run by themselves, in processes of this machine, as tests.

That they overlap, and that what is cancelled dies. One that comes back while a task of it still
runs would break the order of its lanes. Handlers leave marks in a folder.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from headrace.ports import Engine
from headrace.testing.engine_contract.begun import (
    HANG_S,
    Handler,
    NewEngine,
    answer,
    eventually,
    results,
    take,
    wave,
)
from headrace.use_cases import SliceContext, UseCase


def _sleep_in_c(_table: pa.Table, _context: SliceContext) -> None:
    ctypes.CDLL(None).sleep(int(HANG_S))


def _sleep_in_c_with_the_lock(_table: pa.Table, _context: SliceContext) -> None:
    ctypes.PyDLL(None).sleep(int(HANG_S))


def _swallow_everything(_table: pa.Table, _context: SliceContext) -> None:
    while True:
        try:
            time.sleep(HANG_S)
        except BaseException:  # noqa: S112  (that is what it is here for)
            continue


def _deaf_to_signals(_table: pa.Table, _context: SliceContext) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(HANG_S)


class TestRunning:
    """The laws of waves that run at the same time."""

    @pytest.fixture
    def gate(self, tmp_path: Path) -> Iterator[Path]:
        """Waiting handlers go on when this file is there; at the latest when the test is over."""
        path = tmp_path / "gate"
        yield path
        path.touch()

    def test_a_straggler_does_not_hold_back_another_wave(
        self, engine: Engine[UseCase], gate: Path
    ) -> None:
        take(engine, _waiting_for(gate))
        engine.start(wave("slow"))
        take(engine, answer)
        engine.start(wave("w1"))
        assert [result.wave.id for result in results(engine, 1)] == ["w1"]
        gate.touch()
        assert [result.wave.id for result in results(engine, 1)] == ["slow"]

    def test_a_wave_has_begun_when_a_task_runs_and_not_while_it_queues(
        self, engine: Engine[UseCase], gate: Path
    ) -> None:
        take(engine, _waiting_for(gate))
        running = [f"w{number}" for number in range(engine.slots)]
        for name in running:
            engine.start(wave(name))
        assert eventually(lambda: len(_marks(gate)) == len(running))
        engine.start(wave("queued"))
        # An engine that has to ask may not know at once, and says so.
        assert eventually(lambda: all(engine.began(name) for name in running))
        assert not engine.began("queued")
        gate.touch()
        assert len(results(engine, len(running) + 1)) == len(running) + 1

    def test_a_queued_wave_can_be_cancelled_while_others_run(
        self, engine: Engine[UseCase], gate: Path
    ) -> None:
        take(engine, _waiting_for(gate))
        for number in range(engine.slots):
            engine.start(wave(f"w{number}"))
        assert eventually(lambda: len(_marks(gate)) == engine.slots)
        engine.start(wave("queued"))
        engine.cancel("queued")
        (result,) = results(engine, 1)
        assert result.wave.id == "queued"
        assert result.error is not None

    @pytest.mark.parametrize(
        "hang", [_sleep_in_c, _sleep_in_c_with_the_lock, _swallow_everything, _deaf_to_signals]
    )
    def test_a_cancelled_wave_comes_back_when_its_worker_is_dead(
        self, engine: Engine[UseCase], gate: Path, hang: Handler
    ) -> None:
        take(engine, _waiting_for(gate, hang))
        engine.start(wave("w1"))
        assert eventually(lambda: _marks(gate))
        engine.cancel("w1")
        (result,) = results(engine, 1)
        assert result.error is not None
        assert result.error.temporary
        assert not [pid for pid in _marks(gate) if _lives(pid)]
        assert engine.finished(0.1) == []

    def test_closing_ends_what_hangs(self, new_engine: NewEngine, gate: Path) -> None:
        engine = new_engine()
        take(engine, _waiting_for(gate, _swallow_everything))
        engine.start(wave("w1"))
        assert eventually(lambda: _marks(gate))
        engine.close()
        assert not [pid for pid in _marks(gate) if _lives(pid)]
        assert [result.wave.id for result in results(engine, 1)] == ["w1"]


def _waiting_for(gate: Path, hang: Handler | None = None) -> Handler:
    """A handler that marks its process beside the gate, then waits for it or hangs."""

    def handler(table: pa.Table, context: SliceContext) -> pa.Table:
        gate.with_name(f"gate.{os.getpid()}").touch()
        if hang is not None:
            hang(table, context)
        while not gate.exists():
            time.sleep(0.01)
        return answer(table, context)

    return handler


def _marks(gate: Path) -> list[int]:
    return [int(path.suffix[1:]) for path in gate.parent.glob("gate.*")]


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
