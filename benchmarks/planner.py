"""One turn of the planner over 10,000 lanes of 1,000 streams: how long, and does memory grow?

Turns follow each other as in the cycle: what was planned is done, credits are brought on, new
records arrive. The time of `plan` alone is taken; every tenth plan is checked. The promise is 50 ms
at p99 in pure Python on one core, with nothing kept from turn to turn.

A plan makes some 20,000 objects, so Python's full garbage collections fall into it, and each walks
all that pyspark and the others imported. A long-lived process puts that aside once with
`process.calm_garbage_collection`; the shapes are measured so, and the first one also without, to
show what it costs. CPU time is given beside the time on the clock, which a busy machine stretches.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness import write
from headrace.connectors.kafka import OFFSETS
from headrace.model.plans import Cost, LaneView, Plan, Snapshot, StreamView
from headrace.model.streams import LaneId, StreamId
from headrace.planning import check, plan
from headrace.process.memory import calm_garbage_collection

STREAMS, LANES, USE_CASES = 1_000, 10, 3
TURNS = 200
SMALL_TURNS = 10_000
MOST_P99_MS = 50.0


@dataclass(frozen=True)
class Shape:
    """What a turn looks like."""

    slots: int = 8
    #: every so-manyth stream has work
    every: int = 1
    #: records each lane with work is behind when a turn begins
    lag: int = 100
    #: records the first stream's lanes are behind
    whale_lag: int = 0


SHAPES = {
    "all busy": Shape(),
    "all busy, 200 slots, deep backlog": Shape(slots=200, lag=100_000),
    "one whale": Shape(lag=5, whale_lag=10_000_000),
    "5% busy": Shape(every=20),
    "idle": Shape(lag=0),
}


def main(_args: list[str]) -> None:
    """Run and write `results/planner.json`."""
    result: dict[str, Any] = {"streams": STREAMS, "lanes": STREAMS * LANES, "turns": TURNS}
    result["shapes"] = {"all busy, heap not frozen": measure(SHAPES["all busy"])}
    calm_garbage_collection()
    result["shapes"] |= {name: measure(shape) for name, shape in SHAPES.items()}
    gc.unfreeze()
    for name, found in result["shapes"].items():
        print(
            f"{name:<34} p50 {found['p50_ms']:6.2f} ms   p99 {found['p99_ms']:6.2f} ms   "
            f"CPU p99 {found['cpu_p99_ms']:6.2f} ms   {found['slices']:>6} slices   "
            f"check {found['check_ms']:5.1f} ms"
        )
    result["growth_bytes"] = growth()
    result["small_turns"] = SMALL_TURNS
    print(f"memory after {SMALL_TURNS:,} small turns: {result['growth_bytes']:+,} bytes")
    worst_ms = max(result["shapes"][name]["p99_ms"] for name in SHAPES)
    result["within_promise"] = worst_ms < MOST_P99_MS
    print(f"worst p99 {worst_ms:.1f} ms, promised {MOST_P99_MS:.0f} ms")
    write("planner", result)


def measure(shape: Shape) -> dict[str, float]:
    """Times of `plan` over many turns, in milliseconds."""
    asked = arrived(first(shape, STREAMS), shape)
    times_ms, cpu_ms, checks_ms, slices = [], [], [], 0
    for turn in range(TURNS):
        began, began_cpu = time.perf_counter(), time.process_time()
        made = plan(asked, OFFSETS)
        cpu_ms.append((time.process_time() - began_cpu) * 1e3)
        times_ms.append((time.perf_counter() - began) * 1e3)
        slices = max(slices, sum(len(bin_.slices) for wave in made.waves for bin_ in wave.bins))
        if turn % 10 == 0:
            began = time.perf_counter()
            faults = check(asked, made, OFFSETS)
            checks_ms.append((time.perf_counter() - began) * 1e3)
            assert not faults, faults
        asked = arrived(done(asked, made, turn + 1), shape)
    return {
        "p50_ms": quantile(times_ms, 0.50),
        "p99_ms": quantile(times_ms, 0.99),
        "cpu_p99_ms": quantile(cpu_ms, 0.99),
        "check_ms": quantile(checks_ms, 0.50),
        "slices": slices,
    }


def growth() -> int:
    """Bytes that Python holds more after many small turns than before."""
    shape = Shape(slots=2, lag=50)
    asked = arrived(first(shape, streams=2), shape)
    for turn in range(100):
        asked = arrived(done(asked, plan(asked, OFFSETS), turn + 1), shape)
    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(SMALL_TURNS):
        plan(asked, OFFSETS)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def first(shape: Shape, streams: int) -> Snapshot:
    """Every lane at its end."""
    return Snapshot(
        "bench-0",
        tuple(
            StreamView(
                StreamId(f"use-case-{number % USE_CASES}", f"tenant-{number:05}"),
                f"tenant-{number:05}.visits",
                tuple(
                    LaneView(f"tenant-{number:05}.visits[{lane}]", 1_000, 1_000, 0)
                    for lane in range(LANES)
                ),
                weight=1.0 + number % 4,
                cost=Cost(seconds_per_record=(1 + number % 7) * 1e-5, spread=0.2, samples=50),
            )
            for number in range(streams)
        ),
        shape.slots,
    )


def arrived(asked: Snapshot, shape: Shape) -> Snapshot:
    """The same with new records: lanes with work are `lag` behind again."""
    return replace(
        asked,
        streams=tuple(
            replace(view, lanes=tuple(_behind(view.lanes, shape.whale_lag or shape.lag)))
            if number == 0
            else replace(view, lanes=tuple(_behind(view.lanes, shape.lag)))
            if number % shape.every == 0
            else view
            for number, view in enumerate(asked.streams)
        ),
    )


def done(asked: Snapshot, made: Plan, turn: int) -> Snapshot:
    """The next turn: all that was planned is done, and credits are brought on."""
    reached = {piece.lane: piece.until_offset for wave in made.waves for piece in wave.slices}
    credits_s = {credit.stream: credit.credit_s for credit in made.credits}
    return replace(
        asked,
        turn=f"bench-{turn}",
        streams=tuple(
            replace(
                view,
                credit_s=credits_s.get(view.id, view.credit_s),
                lanes=tuple(
                    replace(
                        lane,
                        position=reached.get(
                            LaneId(*view.id, lane.name),
                            lane.position,
                        ),
                    )
                    for lane in view.lanes
                ),
            )
            for view in asked.streams
        ),
    )


def quantile(values: list[float], part: float) -> float:
    """The smallest value that at least this part of all do not exceed."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)


def _behind(lanes: Sequence[LaneView], lag: int) -> list[LaneView]:
    ends = (max(lane.end, lane.position + lag) for lane in lanes)
    return [
        replace(lane, end=end, waits=end - lane.position)
        for lane, end in zip(lanes, ends, strict=True)
    ]


if __name__ == "__main__":
    main([])
