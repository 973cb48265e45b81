"""What is fresh beside a rerun: does reading half a million records once more delay anybody?

50 tenants get 10 records a second each. One of them has half a million older records, long done,
and after a while these are read once more at a share of a fifth, beside its own fresh ones. Every
record becomes a row in SQLite, at least once; those read again are marked. Compared are the delays
of all fresh records, and of that tenant's, with the rerun and without.

Nobody else of the field can do this on a running job, so there is nothing to compare it with.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.delays import COLUMNS, TABLE, Feed, Load, Seen, backlog, verify, watched
from benchmarks.harness import Bench, broker, driver_of, session, topics, write
from headrace.connectors.kafka import KafkaLog
from headrace.cycle.reruns import begin, range_of
from headrace.model.streams import StreamId
from headrace.sinks import SqlTable
from headrace.use_cases import UseCase, use_case

TENANTS = 50
RATE_PER_S = 10.0
SHARE = 0.2
WARM_UP_S = 6.0
ROUNDS = 3
TARGET = 1.3
AGAIN = "again"
COLUMNS_OF_SEEN = ("topics", "offsets", "sent_s", "seen_s")
_VALUE = json.dumps({"page": "/products/shoes?id=17", "seconds": [3, 1, 4, 1, 5, 9]}).encode()


def main(args: list[str]) -> None:
    """Run and write `results/rerun.json`."""
    quick = "--quick" in args
    older, seconds, rounds = (50_000, 12.0, 1) if quick else (500_000, 40.0, ROUNDS)
    runs: dict[str, list[dict[str, Any]]] = {"alone": [], "beside": []}
    with broker() as config, session() as spark:
        for number in range(rounds + 1):
            for kind in ("alone", "beside") if number % 2 == 0 else ("beside", "alone"):
                run = _run(spark, config, f"{kind}{number}", older, seconds)
                print("warm-up" if number == 0 else kind, run, flush=True)
                if number:
                    runs[kind].append(run)
    ratios = {
        who: statistics.median(
            beside[who]["p99_s"] / alone[who]["p99_s"]
            for alone, beside in zip(runs["alone"], runs["beside"], strict=True)
        )
        for who in ("everybody", "its_tenant")
    }
    result = {"older": older, "tenants": TENANTS, "share": SHARE, "runs": runs, "ratios": ratios}
    write("rerun.quick" if quick else "rerun", result)
    print(", ".join(f"{who}: p99 {ratio:.2f} x" for who, ratio in ratios.items()), f"({TARGET})")


def _run(
    spark: Any, config: dict[str, str], prefix: str, older: int, seconds: float
) -> dict[str, Any]:
    tenants = [f"{prefix}-{number}" for number in range(TENANTS)]
    names = [f"{tenant}.visits" for tenant in tenants]
    topics(config, names)
    backlog(config, names[0], older, _VALUE)
    feeds = (Feed(tuple(names), RATE_PER_S, value), Feed((AGAIN,), 0.0, value))
    load = Load(config, feeds, seconds, frozenset({AGAIN}))
    beside = prefix.startswith("beside")
    kept = _kept(names[0], older)
    with driver_of(spark, config, kept, tenants) as bench:
        bench.store.progress.seek(StreamId("keep", tenants[0]), {f"{tenants[0]}.visits[0]": older})
        turn = _turning(bench, kept, tenants[0] if beside else None)
        seen = watched(bench.path, load, lambda: turn)
    verify(seen, load.unwatched)
    again = seen.totals.get(AGAIN)
    its = seen.topics == names[0]
    return {
        "everybody": seen.delays(WARM_UP_S, seconds),
        "its_tenant": _only(seen, its).delays(WARM_UP_S, seconds),
        "read_again": again.distinct if again else 0,
    }


def _kept(topic: str, older: int) -> UseCase:
    """Writes a row a record; of the older ones under another name, so that they are told apart."""

    def keep(records: pa.Table, _context: Any) -> pa.Table:
        offsets = records["offset"]
        shift = older if records["topic"][0].as_py() == topic else 0
        old = pc.less(offsets, shift)
        return pa.table(
            {
                "topic": pc.if_else(old, AGAIN, records["topic"]),
                "at": pc.if_else(old, offsets, pc.subtract(offsets, shift)),
                "sent_ms": pc.cast(records["timestamp"], pa.int64()),
                "score": pa.array([len(raw) for raw in records["value"].to_pylist()], pa.int64()),
            }
        )

    rows = SqlTable(TABLE, columns=COLUMNS)
    return use_case(topic="{tenant}.visits", sink=rows, guarantee="at-least-once", name="keep")(
        keep
    )


def _turning(bench: Bench, kept: UseCase, again: str | None) -> Callable[[], None]:
    """Turns the driver, and after a while begins the rerun."""
    due_s = time.monotonic() + WARM_UP_S
    left = [] if again is None else [StreamId("keep", again)]

    def turn() -> None:
        if left and time.monotonic() > due_s:
            _begin(bench, kept, left.pop())
        bench.driver.turn()

    return turn


def _begin(bench: Bench, kept: UseCase, stream: StreamId) -> None:
    with closing(KafkaLog(bench.connections.kafka)) as log:
        made = begin(bench.store, range_of(bench.store, log, stream, "earliest", None), SHARE)
    again = next(
        deployment
        for deployment in bench.store.registry.deployments()
        if deployment.use_case == made.use_case
    )
    renamed = replace(kept, name=made.use_case)
    bench.engine.take(renamed, again)
    bench.driver.take(renamed, again)


def _only(seen: Seen, chosen: np.ndarray) -> Seen:
    columns = {name: getattr(seen, name)[chosen] for name in COLUMNS_OF_SEEN}
    return replace(seen, **columns)


def value(_topic: str, _number: int, _at_s: float) -> bytes:
    """What is sent: the same every time."""
    return _VALUE
