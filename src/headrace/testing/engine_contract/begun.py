"""What every suite begins with: use cases that an engine has taken, waves, and what comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.places import place_at
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Engine, WaveResult
from headrace.sinks import ParquetFiles
from headrace.use_cases import SliceContext, UseCase, use_case

#: None is of those that never come back
Handler = Callable[[pa.Table, SliceContext], pa.Table | None]
TOPIC = "{tenant}.visits"
#: far more than anything here takes, and less than a hanging handler would
DEADLINE_S = 120.0
#: how long a handler hangs
HANG_S = 600.0
#: makes an engine, each time on the same folder
NewEngine = Callable[[], Engine[UseCase]]
#: gives a handler that takes its worker with it
Deadly = Callable[[Engine[UseCase]], Handler]


@pytest.fixture
def engine(new_engine: NewEngine) -> Iterator[Engine[UseCase]]:
    """One that is closed after."""
    made = new_engine()
    yield made
    made.close()


@pytest.fixture
def deadly() -> Deadly:
    """A worker that is really killed; a fake may plan an accident instead."""

    def handler(_table: pa.Table, _context: SliceContext) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return lambda _engine: handler


def take(engine: Engine[UseCase], handler: Handler, order: str = "lane", **more: Any) -> UseCase:
    """Give the engine ``handler`` as use case ``quick``."""
    made = use_case(topic=TOPIC, sink=ParquetFiles("out"), name="quick", order=order)(handler)
    limits = {"handler_timeout_s": HANG_S, **more}
    engine.take(made, Deployment("quick", "m.py", "0" * 64, TOPIC, **limits))
    return made


def wave(name: str, *tenants: str) -> Wave:
    """A wave with one bin, of one slice with ten records, for each tenant."""
    slices = [
        Slice(
            LaneId("quick", tenant, f"{tenant}.visits[0]"),
            f"{tenant}.visits",
            place_at(0),
            place_at(10),
            1,
        )
        for tenant in tenants or (f"tenant-of-{name}",)
    ]
    return Wave(name, "quick", tuple(Bin((piece,), 1.0) for piece in slices), HANG_S)


def results(engine: Engine[UseCase], count: int) -> list[WaveResult]:
    """The next ``count`` waves that come back, and those that came with the last of them."""
    found: list[WaveResult] = []
    end_s = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end_s, f"{count - len(found)} of {count} waves did not come back"
        found += engine.finished(0.5)
    return found


def eventually(condition: Callable[[], object]) -> bool:
    """Whether ``condition`` comes true in time."""
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def hangs(_table: pa.Table, _context: SliceContext) -> None:
    """A handler that does not come back in time."""
    time.sleep(HANG_S)


def answer(table: pa.Table, _context: SliceContext) -> pa.Table:
    """A handler that gives back the offsets."""
    return table.select(["offset"])
