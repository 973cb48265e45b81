"""What it costs a driver with 1,000 tenants to tell how it fares.

Two drivers on fakes, one that tells and one that does not, take turns with the same load: 500
records a second over 1,000 streams, ten turns a second. Kafka and Spark are replaced by fakes that
do nearly nothing, so what is counted is the driver alone: CPU seconds of this process, its thread
that writes to the store included, for each second that passes in the fakes' time. The store is a
SQLite file, as in a driver on one machine.

Taken are the CPU share of a core and the share of what the driver uses. A core has as many seconds
as pass; so the first figure is the price, and the second compares it with the work beside it, which
would be several times as much with a real Kafka client and Spark's results to unpickle.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness import write
from headrace.cycle.driver import Driver, DriverParts
from headrace.model.receipts import Receipt, Writer, WrittenBy
from headrace.model.records import Deployment
from headrace.model.statistics import Point, Report
from headrace.model.streams import Slice, Tenant
from headrace.model.waves import Wave
from headrace.ports import Statistics, WaveResult
from headrace.process.memory import collect_apart
from headrace.sinks import ParquetFiles
from headrace.store import open_store
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryLog, Row
from headrace.use_cases import SliceContext, use_case

STREAMS = 1_000
RECORDS_PER_S = 500
TURN_S = 0.1
ROUNDS = 6
ROUND_S = 60.0
TARGET = 0.02


@dataclass
class Echo:
    """An engine that has done every wave as soon as it is asked."""

    clock: FakeClock
    slots: int = 4
    executors: int = 1
    ui_url: str = ""
    _waves: list[Wave] = field(default_factory=list)

    def start(self, wave: Wave) -> None:
        self._waves.append(wave)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        del timeout_s
        waves, self._waves = self._waves, []
        return [WaveResult(wave, tuple(map(self._done, wave.slices)), 0.02) for wave in waves]

    def _done(self, piece: Slice) -> Receipt:
        size, now_s = piece.size, self.clock.now_s()
        stamps = tuple(now_s - 0.1 for _ in range(min(32, size)))
        return Receipt(
            piece,
            piece.until_offset,
            committed=False,
            records=size,
            bytes=300 * size,
            seconds=0.0001 * size,
            timestamps_s=stamps,
            writers=(WrittenBy(Writer("value", "100001"), size),),
        )

    def took(self, *_: Any) -> None:
        """Anything else is nothing to it."""

    take = forget = cancel = resize = took

    def began(self, _wave_id: str) -> bool:
        return True

    def close(self) -> None: ...


class Counted:
    """Statistics that say how many reports were written."""

    def __init__(self, inner: Statistics) -> None:
        self._inner, self.reports, self.points = inner, 0, 0

    def publish(self, report: Report) -> None:
        self._inner.publish(report)
        self.reports += 1

    def keep(self, points: list[Point]) -> None:
        self._inner.keep(points)
        self.points += len(points)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass
class Contender:
    """A driver and what happens around it."""

    driver: Driver
    clock: FakeClock
    log: MemoryLog
    told: Counted | None
    sent: int = 0
    #: of this process, while it was turned
    cpu_s: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> float:
        """Let time pass; return the CPU seconds that took."""
        before_s = time.process_time()
        for _ in range(round(seconds / TURN_S)):
            self._send(round(RECORDS_PER_S * TURN_S))
            self.driver.turn()
            self.clock.move(TURN_S)
            self._written()
        return time.process_time() - before_s

    def _send(self, records: int) -> None:
        stamp = int(self.clock.now_s() * 1000)
        for _ in range(records):
            self.sent += 1
            tenant = self.sent * 7919 % STREAMS
            self.log.append(f"t{tenant:04}.visits", 0, [Row(b"x", timestamp_ms=stamp)])

    def _written(self) -> None:
        """Wait for the thread: here time passes quicker than for it, and it shall skip nothing."""
        publisher = self.driver.publisher
        while publisher is not None and publisher.is_busy:
            time.sleep(0.0005)


@contextmanager
def contender(folder: Path, *, tells: bool) -> Iterator[Contender]:
    """A driver of 1,000 tenants that has caught up."""
    store, clock, log = open_store(f"sqlite:///{folder}/store.db"), FakeClock(), MemoryLog()
    told = Counted(store.statistics) if tells else None
    parts: Any = (store, log, Echo(clock), MemoryDeadLetters(), clock, None, told)
    driver = Driver(DriverParts(*parts), "run")
    deployment = Deployment("pass", "m.py", "0" * 64, "{tenant}.visits")
    store.registry.deploy(deployment)
    for number in range(STREAMS):
        log.create_topic(f"t{number:04}.visits", 1)
        store.registry.add_tenant(Tenant(f"t{number:04}"))
    driver.take(_passing(), deployment)
    made = Contender(driver, clock, log, told)
    made.run(65.0)
    yield made
    driver.close()
    store.close()


def _passing() -> Any:
    def handler(table: pa.Table, _context: SliceContext) -> pa.Table:
        return table

    chosen: Any = {"sink": ParquetFiles("out"), "guarantee": "at-least-once"}
    return use_case(topic="{tenant}.visits", name="pass", **chosen)(handler)


def main(args: list[str]) -> None:
    """Run and write `results/statistics.json`."""
    rounds = 2 if "--quick" in args else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("silent", "telling")]
        for place in places:
            place.mkdir()
        with contender(places[0], tells=False) as silent, contender(places[1], tells=True) as tells:
            collect_apart()
            both = (silent, tells)
            for number in range(rounds):
                for side in both if number % 2 == 0 else both[::-1]:
                    side.cpu_s.append(side.run(ROUND_S))
                print(
                    f"{silent.cpu_s[-1]:.2f} s silent, {tells.cpu_s[-1]:.2f} s telling", flush=True
                )
            gc.unfreeze()  # what stays frozen is never freed, which libraries call a leak
            result = _result(silent, tells)
    if "--quick" not in args:
        write("statistics", result)
    cost = result["of_a_core"]
    print(f"telling takes {100 * cost:.2f} % of a core (target < {100 * TARGET:.0f} %)")
    print(f"and {100 * result['of_the_driver']:.1f} % of what a driver on fakes uses")


def _result(silent: Contender, tells: Contender) -> dict[str, Any]:
    assert tells.told is not None
    assert silent.driver.reporter.meters, "nothing ran"
    extra_s = [b - a for a, b in zip(silent.cpu_s, tells.cpu_s, strict=True)]
    return {
        "streams": STREAMS,
        "records_per_s": RECORDS_PER_S,
        "seconds_a_round": ROUND_S,
        "cpu_s_silent": [round(cpu_s, 3) for cpu_s in silent.cpu_s],
        "cpu_s_telling": [round(cpu_s, 3) for cpu_s in tells.cpu_s],
        "reports": tells.told.reports,
        "points": tells.told.points,
        "of_a_core": round(statistics.median(extra_s) / ROUND_S, 4),
        "of_the_driver": round(statistics.median(extra_s) / statistics.median(silent.cpu_s), 4),
        "target_of_a_core": TARGET,
    }
