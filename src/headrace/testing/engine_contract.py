"""The laws of an engine, as two suites to run on own ones.

The driver hands waves away and waits for what comes back. A wave that never does holds its lanes
for ever; one that comes back while a task of it still runs breaks the order of its lanes. Those are
laws here. Derive a class whose name starts with ``Test`` and say how an engine is made::

    class TestMyEngine(RunningEngineContract):
        def new_engine(self, folder) -> Engine[UseCase]: ...

``EngineContract`` is for every engine, also one that runs waves only when it is asked for results.
``RunningEngineContract`` adds what holds where waves run by themselves, in processes of this
machine: that they overlap, and that what is cancelled dies. Handlers leave marks in a folder.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import ctypes
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Engine, WaveResult
from headrace.sinks import ParquetFiles
from headrace.use_cases import SliceContext, UseCase, use_case

#: None is of those that never come back
Handler = Callable[[pa.Table, SliceContext], pa.Table | None]
_TOPIC = "{tenant}.visits"
#: far more than anything here takes, and less than a hanging handler would
_DEADLINE_S = 60.0
_HANG_S = 600.0


class _Noted:
    """Notes that somebody pickles it."""

    def __init__(self, looks: list[int]) -> None:
        self._looks = looks

    def __reduce__(self) -> tuple[type[bool], tuple[int]]:
        self._looks.append(1)
        return bool, (1,)


def take(engine: Engine[UseCase], handler: Handler, order: str = "lane", **more: Any) -> UseCase:
    """Give the engine ``handler`` as use case ``quick``."""
    made = use_case(topic=_TOPIC, sink=ParquetFiles("out"), name="quick", order=order)(handler)
    limits = {"handler_timeout_s": _HANG_S, **more}
    engine.take(made, Deployment("quick", "m.py", "0" * 64, _TOPIC, **limits))
    return made


def wave(name: str, *tenants: str) -> Wave:
    """A wave with one bin, of one slice with ten records, for each tenant."""
    slices = [
        Slice(LaneId("quick", tenant, 0), f"{tenant}.visits", 0, 10, 1)
        for tenant in tenants or (f"tenant-of-{name}",)
    ]
    return Wave(name, "quick", tuple(Bin((piece,), 1.0) for piece in slices), _HANG_S)


def results(engine: Engine[UseCase], count: int) -> list[WaveResult]:
    """The next ``count`` waves that come back, and those that came with the last of them."""
    found: list[WaveResult] = []
    end_s = time.monotonic() + _DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end_s, f"{count - len(found)} of {count} waves did not come back"
        found += engine.finished(0.5)
    return found


def eventually(condition: Callable[[], object]) -> bool:
    """Whether ``condition`` comes true in time."""
    end_s = time.monotonic() + _DEADLINE_S
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def _hangs(_table: pa.Table, _context: SliceContext) -> None:
    time.sleep(_HANG_S)


def _answer(table: pa.Table, _context: SliceContext) -> pa.Table:
    return table.select(["offset"])


class EngineContract(ABC):
    """What every engine promises. ``new_engine`` gives one that can run two tasks at once."""

    @abstractmethod
    def new_engine(self, folder: Path) -> Engine[UseCase]:
        """An engine with a ``NumbersReader``, a warehouse in ``folder`` and nothing else to do."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine[UseCase]]:
        made = self.new_engine(tmp_path)
        yield made
        made.close()

    def deadly(self, engine: Engine[UseCase]) -> Handler:
        """A handler that takes its worker with it; a fake may plan an accident instead."""
        del engine

        def handler(_table: pa.Table, _context: SliceContext) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        return handler

    def test_a_wave_comes_back_once_with_a_receipt_for_each_slice(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, _answer)
        engine.start(wave("w1", "acme", "bolt"))
        (result,) = results(engine, 1)
        assert result.wave == wave("w1", "acme", "bolt")
        assert result.error is None
        reached = sorted(
            (receipt.slice.lane.tenant, receipt.reached) for receipt in result.receipts
        )
        assert reached == [("acme", 10), ("bolt", 10)]
        assert engine.finished(0.0) == []

    def test_it_says_how_many_executors_it_has_and_where_its_pages_are(
        self, engine: Engine[UseCase]
    ) -> None:
        assert engine.executors >= 1
        assert engine.ui_url == "" or engine.ui_url.startswith("http")

    def test_more_waves_than_slots_all_come_back_once(self, engine: Engine[UseCase]) -> None:
        take(engine, _answer)
        names = [f"w{number}" for number in range(4 * engine.slots)]
        for name in names:
            engine.start(wave(name))
        assert sorted(result.wave.id for result in results(engine, len(names))) == sorted(names)
        assert engine.finished(0.0) == []

    def test_there_is_always_a_slot_to_start_with(self, engine: Engine[UseCase]) -> None:
        assert engine.slots >= 1

    def test_nothing_comes_back_where_nothing_was_started(self, engine: Engine[UseCase]) -> None:
        assert engine.finished(0.0) == []

    def test_a_handler_that_raises_fails_its_slice_and_not_the_wave(
        self, engine: Engine[UseCase]
    ) -> None:
        def handler(table: pa.Table, context: SliceContext) -> pa.Table:
            if context.tenant == "acme":
                raise ValueError("not acme")
            return table.select(["offset"])

        take(engine, handler, retries=0)
        engine.start(wave("w1", "acme", "bolt"))
        (result,) = results(engine, 1)
        assert result.error is None
        failed = {receipt.slice.lane.tenant: receipt.error for receipt in result.receipts}
        assert failed["acme"] is not None
        assert failed["bolt"] is None

    def test_a_new_version_runs_from_the_next_wave_on(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        def version(number: int) -> Handler:
            marks = str(tmp_path)

            def handler(table: pa.Table, context: SliceContext) -> pa.Table:
                Path(marks, f"{context.tenant}.{number}").touch()
                return table.select(["offset"])

            return handler

        take(engine, version(1))
        engine.start(wave("w1", "acme"))
        take(engine, version(2))
        engine.start(wave("w2", "bolt"))
        results(engine, 2)
        assert (tmp_path / "acme.1").exists()
        assert (tmp_path / "bolt.2").exists()

    def test_a_wave_runs_as_the_version_with_its_terms(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        versions = []
        for number, order in enumerate(("lane", "stream", "lane")):
            marks = str(tmp_path / f"{number}")

            def handler(_table: pa.Table, context: SliceContext, marks: str = marks) -> None:
                Path(f"{marks}.{context.tenant}").touch()

            versions.append(take(engine, handler, order=order))
        for each, tenant in zip(versions, ("acme", "bolt", "cove"), strict=True):
            engine.start(replace(wave(tenant, tenant), terms=each.terms))
        results(engine, 3)
        assert sorted(path.name for path in tmp_path.glob("?.*")) == ["1.bolt", "2.acme", "2.cove"]

    def test_what_was_packed_is_taken_under_any_terms_without_a_look_at_it(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        looks: list[int] = []
        note, marks = _Noted(looks), str(tmp_path)

        def handler(_table: pa.Table, context: SliceContext) -> pa.Table:
            Path(marks, f"{context.tenant}.{bool(note)}").touch()
            return pa.table({})

        made = use_case(topic=_TOPIC, sink=ParquetFiles("out"), name="quick")(handler)
        code, deployment = engine.packed(made), Deployment("quick", "m.py", "0" * 64, _TOPIC)
        before = len(looks)
        stricter = replace(made, order=Order.STREAM)
        engine.take(made, deployment, code)
        engine.take(stricter, deployment)
        assert len(looks) == before
        for each, tenant in ((made, "acme"), (stricter, "bolt")):
            engine.start(replace(wave(tenant, tenant), terms=each.terms))
        assert [result.error for result in results(engine, 2)] == [None, None]
        assert {path.name.partition(".")[0] for path in tmp_path.glob("*.True")} == {"acme", "bolt"}

    def test_what_is_forgotten_is_let_go_and_nothing_else(self, engine: Engine[UseCase]) -> None:
        first, second = take(engine, _answer), take(engine, _answer, order="stream")
        engine.start(replace(wave("w1", "acme"), terms=first.terms))
        engine.forget("quick", first.terms)
        engine.forget("quick", first.terms)
        engine.forget("nobody", first.terms)
        engine.start(replace(wave("w2", "bolt"), terms=second.terms))
        engine.start(wave("w3", "cove"))
        assert all(result.error is None for result in results(engine, 3))
        with pytest.raises(KeyError):
            engine.start(replace(wave("w4", "dune"), terms=first.terms))
        assert engine.finished(0.0) == []

    def test_modules_are_those_of_what_runs_or_may_run(self, engine: Engine[UseCase]) -> None:
        def version(module: str, order: str) -> UseCase:
            made = use_case(topic=_TOPIC, sink=ParquetFiles("out"), name="quick", order=order)
            found = replace(made(_answer), module=module)
            engine.take(found, Deployment("quick", "m.py", "0" * 64, _TOPIC))
            return found

        assert engine.modules() == frozenset()
        first = version("v1.a", "lane")
        version("v2.a", "stream")
        assert engine.modules() == {"v1.a", "v2.a"}
        version("v3.a", "lane")
        assert engine.modules() == {"v2.a", "v3.a"}
        engine.start(replace(wave("w1", "acme"), terms=first.terms))
        version("v4.a", "lane")
        assert {"v2.a", "v4.a"} <= engine.modules()
        results(engine, 1)
        assert engine.modules() == {"v2.a", "v4.a"}
        for terms in (first.terms, replace(first.terms, order=Order.STREAM), None):
            engine.forget("quick", terms)
        assert engine.modules() == frozenset()

    def test_an_engine_survives_a_worker_that_dies(self, engine: Engine[UseCase]) -> None:
        take(engine, self.deadly(engine))
        engine.start(wave("w1"))
        (result,) = results(engine, 1)
        assert result.error is not None or all(receipt.error for receipt in result.receipts)
        take(engine, _answer)
        engine.start(wave("w2"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert [receipt.error for receipt in result.receipts] == [None]

    def test_to_cancel_what_is_over_or_was_never_there_is_nothing(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, _answer)
        engine.start(wave("w1"))
        results(engine, 1)
        engine.cancel("w1")
        engine.cancel("w2")
        engine.start(wave("w2"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert engine.finished(0.0) == []

    def test_a_wave_that_is_not_there_has_not_begun(self, engine: Engine[UseCase]) -> None:
        take(engine, _answer)
        engine.start(wave("w1"))
        results(engine, 1)
        assert not engine.began("w1")
        assert not engine.began("w2")

    def test_a_cancelled_wave_may_run_again_under_its_own_id(self, engine: Engine[UseCase]) -> None:
        take(engine, _hangs)
        engine.start(wave("w1"))
        engine.cancel("w1")
        (result,) = results(engine, 1)
        assert result.error is not None
        assert result.error.temporary
        assert result.receipts == ()
        take(engine, _answer)
        engine.start(wave("w1"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert [receipt.reached for receipt in result.receipts] == [10]

    def test_what_runs_comes_to_its_end_when_fewer_slots_are_wanted(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, _answer)
        names = [f"w{number}" for number in range(2 * engine.slots)]
        for name in names:
            engine.start(wave(name))
        engine.resize(1)
        found = results(engine, len(names))
        assert sorted(result.wave.id for result in found) == names
        assert all(result.error is None for result in found)
        assert engine.slots >= 1

    def test_closing_cancels_and_gives_back_what_runs(self, tmp_path: Path) -> None:
        engine = self.new_engine(tmp_path)
        take(engine, _hangs)
        names = [f"w{number}" for number in range(engine.slots + 1)]
        for name in names:
            engine.start(wave(name))
        engine.close()
        found = results(engine, len(names))
        assert sorted(result.wave.id for result in found) == names
        assert all(result.error is not None for result in found)


def _sleep_in_c(_table: pa.Table, _context: SliceContext) -> None:
    ctypes.CDLL(None).sleep(int(_HANG_S))


def _sleep_in_c_with_the_lock(_table: pa.Table, _context: SliceContext) -> None:
    ctypes.PyDLL(None).sleep(int(_HANG_S))


def _swallow_everything(_table: pa.Table, _context: SliceContext) -> None:
    while True:
        try:
            time.sleep(_HANG_S)
        except BaseException:  # noqa: S112  (that is what it is here for)
            continue


def _deaf_to_signals(_table: pa.Table, _context: SliceContext) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(_HANG_S)


class RunningEngineContract(EngineContract):
    """What also holds where waves run by themselves, in other processes of this machine."""

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
        take(engine, _answer)
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

    def test_closing_ends_what_hangs(self, tmp_path: Path, gate: Path) -> None:
        engine = self.new_engine(tmp_path)
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
        return _answer(table, context)

    return handler


def _marks(gate: Path) -> list[int]:
    return [int(path.suffix[1:]) for path in gate.parent.glob("gate.*")]


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
