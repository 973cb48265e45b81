"""A handler with a fixed cost for each call, and a backlog: against the best fixed size of a slice.

A handler that asks a server once for each call costs the same for one record and for thousands.
What a slice costs then says little of its records, and who takes it for that makes slices smaller
and smaller. Here a call takes 2 s and 1 ms for each record, asleep, so that nothing else is
measured. One tenant has more waiting than the run can do; another one of the same use case gets 10
records a second and is handled at once. The driver starts knowing nothing; its rate counts from the
second minute on. The same handler is then given slices of each fixed size, by limits that allow no
other and budgets that are long enough, without the quick tenant. Its delay is taken by the same
probe as in the other benchmarks, with the backlog beside it and without.

Every record must be there, up to the last one that is.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from typing import Any

import pyarrow as pa

from benchmarks.delays import COLUMNS, TABLE, Feed, Load, Seen, backlog, rows_of, verify, watched
from benchmarks.harness import Bench, broker, driver_of, session, topics, write
from headrace.model.plans import Limits
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

CALL_S, RECORD_S = 2.0, 0.001
QUICK_PER_S = 10.0
SIZES = (1_000, 3_000, 10_000)
RATE_TARGET = 0.8
_VALUE = b"x" * 200


def main(args: list[str]) -> None:
    """Run and write `results/fixed_cost.json`."""
    quick = "--quick" in args
    warm_s, seconds, each_s = (20.0, 30.0, 8.0) if quick else (60.0, 120.0, 25.0)
    with broker() as config, session() as spark:
        runs = {
            "without": _ours(spark, config, "without", (warm_s / 2, seconds / 2), records=0),
            "with": _ours(spark, config, "with", (warm_s, seconds), records=120_000),
        }
        print(runs, flush=True)
        fixed = {size: _fixed(spark, config, size, each_s) for size in SIZES}
        print(fixed, flush=True)
    ratio = round(runs["with"]["rate_per_s"] / max(fixed.values()), 3)
    result = {"call_s": CALL_S, "record_s": RECORD_S, "runs": runs, "fixed_per_s": fixed}
    write("fixed_cost.quick" if quick else "fixed_cost", {**result, "rate_ratio": ratio})
    print(f"{ratio} of the rate of the best fixed size (target {RATE_TARGET})")


def _handle(records: pa.Table, context: Any) -> pa.Table:
    if "calls" in context.tenant:
        time.sleep(CALL_S + RECORD_S * records.num_rows)
    return rows_of(records, [1] * records.num_rows)


def _keep() -> Any:
    rows = SqlTable(TABLE, columns=COLUMNS)
    return use_case(topic="{tenant}.visits", sink=rows, name="keep")(_handle)


def _ours(
    spark: Any, config: dict[str, str], kind: str, times_s: tuple[float, float], records: int
) -> dict[str, Any]:
    warm_s, seconds = times_s
    calls, quick = f"{kind}-calls.visits", f"{kind}-quick.visits"
    topics(config, (calls, quick))
    backlog(config, calls, records, _VALUE)
    feed = Feed((quick,), QUICK_PER_S, value)
    load = Load(config, (feed,), seconds, frozenset({calls}))
    tenants = [name.removesuffix(".visits") for name in (calls, quick)]
    with driver_of(spark, config, _keep(), tenants) as bench:
        seen = watched(bench.path, load, lambda: bench.driver.turn)
    return {
        "quick": seen.delays(warm_s, seconds),
        "quick_at_first": seen.delays(0.0, warm_s),
        "rate_per_s": _rate(seen, warm_s, seconds) if records else None,
        "repeats": _verified(seen, calls),
    }


def value(_topic: str, _number: int, _at_s: float) -> bytes:
    """What the quick tenant sends."""
    return _VALUE


def _rate(seen: Seen, from_s: float, until_s: float) -> float:
    """Records a second of the backlog, from the first of its rows to the last in this time."""
    steps = [(at_s, rows) for at_s, rows in seen.pace if from_s <= at_s < until_s]
    risen = [step for before, step in pairwise(steps) if step[1] > before[1]]
    (first_s, first), (last_s, last) = risen[0], risen[-1]
    return round((last - first) / (last_s - first_s), 1)


def _verified(seen: Seen, calls: str) -> int:
    seen.sent[calls] = 0  # type: ignore[index]
    return verify(seen, unwatched={calls})


def _fixed(spark: Any, config: dict[str, str], size: int, seconds: float) -> float:
    """Records a second with slices of one size."""
    name = f"fixed-calls-{size}"
    topics(config, (f"{name}.visits",))
    backlog(config, f"{name}.visits", 4 * size + int(size * seconds / CALL_S), _VALUE)
    limits = Limits(bin_budget_s=1_000.0, slice_records=size, probe_records=size)
    with driver_of(spark, config, _keep(), [name], limits) as bench:
        return _measured(bench, size, seconds)


def _measured(bench: Bench, size: int, seconds: float) -> float:
    until_s = None
    while until_s is None or time.monotonic() < until_s:
        bench.driver.turn()
        if until_s is None and bench.counter.ended:
            until_s = time.monotonic() + seconds
    ended = [wave for wave in bench.counter.ended if wave.records == size]
    with closing(sqlite3.connect(bench.path)) as rows:
        distinct = rows.execute(f"SELECT count(DISTINCT at), max(at) + 1 FROM {TABLE}").fetchone()
    assert distinct[0] == distinct[1], distinct
    return round(size * (len(ended) - 1) / (ended[-1].at_s - ended[0].at_s), 1)
