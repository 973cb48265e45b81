"""A handler that waits 20 ms for each record: an ``async def`` against a loop over the records.

One tenant with one partition and more waiting than the run can do, so that nothing but calls in
flight makes it quicker. The loop is what an ordinary handler does, one record after the other; the
``async def`` has 50 calls in flight. Both drivers start knowing nothing, and their rate counts from
the second half on.
Every record up to the last one that is there must be there once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Any

import pyarrow as pa

from benchmarks.delays import COLUMNS, TABLE, backlog, rows_of
from benchmarks.harness import broker, driver_of, rate_of_the_second_half, session, topics, write
from headrace import SliceContext
from headrace.sinks import SqlTable
from headrace.use_cases import UseCase, use_case

WAIT_S = 0.020
IN_FLIGHT = 50
TARGET = 30.0
_VALUE = b"x" * 200
_OUTPUT = pa.schema(
    [("topic", pa.string())] + [(name, pa.int64()) for name in ("at", "sent_ms", "score")]
)


def main(args: list[str]) -> None:
    """Run and write `results/async_handlers.json`."""
    quick = "--quick" in args
    seconds = 8.0 if quick else 30.0
    with broker() as config, session() as spark:
        rates = {
            "loop": _rate(spark, config, "loop", _kept()(_loop), seconds),
            "async": _rate(spark, config, "async", _kept(output=_OUTPUT)(_waits), seconds),
        }
    ratio = round(rates["async"] / rates["loop"], 1)
    result = {"wait_s": WAIT_S, "in_flight": IN_FLIGHT, "rate_per_s": rates, "ratio": ratio}
    write("async_handlers.quick" if quick else "async_handlers", result)
    print(f"{rates}: {ratio} times the rate (target {TARGET})")


def _loop(records: pa.Table, context: SliceContext) -> pa.Table:
    for _ in range(records.num_rows):
        time.sleep(WAIT_S)
    return rows_of(records, [1] * records.num_rows)


async def _waits(record: dict[str, Any], context: SliceContext) -> dict[str, Any]:
    await asyncio.sleep(WAIT_S)
    sent_ms = int(record["timestamp"].timestamp() * 1000)
    return {"topic": record["topic"], "at": record["offset"], "sent_ms": sent_ms, "score": 1}


def _kept(**said: Any) -> Any:
    return use_case(
        topic="{tenant}.visits", sink=SqlTable(TABLE, columns=COLUMNS), name="keep", **said
    )


def _rate(
    spark: Any, config: dict[str, str], tenant: str, use_case: UseCase, seconds: float
) -> float:
    """Records a second in the second half of so many seconds."""
    topics(config, (f"{tenant}.visits",))
    backlog(config, f"{tenant}.visits", int(seconds * IN_FLIGHT / WAIT_S * 1.2), _VALUE)
    with driver_of(spark, config, use_case, [tenant]) as bench:
        rate = rate_of_the_second_half(bench, seconds)
        with closing(sqlite3.connect(bench.path)) as rows:
            count, distinct, last = rows.execute(
                f"SELECT count(*), count(DISTINCT at), max(at) + 1 FROM {TABLE}"
            ).fetchone()
    assert count == distinct == last, (count, distinct, last)
    return rate
