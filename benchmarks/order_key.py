"""One partition and a handler of 20 ms a record: order by key, and none, against order by lane.

One tenant with one partition, a thousand keys, and more waiting than the run can do. By lane it is
one slice after the other, however many slots are free; by key it has 16 buckets, and so it has
without an order, of places. All drivers have four slots and start knowing nothing, and their rate
counts from the second half on. Every record up to where its bucket is must be there once, and those
of a key in their order, where one is promised.

With `--executors` the slots are executors of a standalone cluster, each a JVM with a worker of its
own, instead of threads of one JVM; results are apart.

And what the possibility costs those who divide nothing is held against the code from before
(`plain_lane.py`).
"""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from contextlib import closing
from typing import Any

import pyarrow as pa

from benchmarks.delays import COLUMNS, TABLE, backlog, rows_of
from benchmarks.harness import (
    Bench,
    broker,
    driver_of,
    rate_of_the_second_half,
    session,
    session_on_executors,
    topics,
    write,
)
from benchmarks.plain_lane import against_before
from headrace import SliceContext
from headrace.model.places import number_at
from headrace.model.streams import Order
from headrace.sinks import SqlTable
from headrace.spark.key_hash import bucket_of_key
from headrace.use_cases import UseCase, use_case

WAIT_S = 0.020
SLOTS, BUCKETS, KEYS = 4, 16, 1_000
ORDERS = ("lane", "key", "none")
TARGET = 0.8 * SLOTS


def main(args: list[str]) -> None:
    """Run and write `results/order_key.json`, or `results/order_key_executors.json`."""
    quick, apart = "--quick" in args, "--executors" in args
    seconds = 16.0 if quick else 40.0
    with broker() as config:
        with session_on_executors(SLOTS) if apart else session(slots=SLOTS) as spark:
            rates = {order: _rate(spark, config, order, seconds) for order in ORDERS}
        # It has no slots to speak of, and is measured once.
        plain = None if apart else against_before(config, quick)
    ratio, of_none = (round(rates[order] / rates["lane"], 2) for order in ("key", "none"))
    result = {"wait_s": WAIT_S, "slots": SLOTS, "executors": SLOTS if apart else 0}
    result |= {"rate_per_s": rates, "ratio": ratio, "ratio_none": of_none, "plain_lane": plain}
    name = "order_key_executors" if apart else "order_key"
    write(f"{name}.quick" if quick else name, result)
    print(f"{rates}: {ratio} and {of_none} times the rate (target {TARGET:g})")
    if plain is not None:
        print(f"order lane, dividing nothing: {plain['speed_over_before']} x the speed from before")


def _handled(records: pa.Table, context: SliceContext) -> pa.Table:
    for _ in range(records.num_rows):
        time.sleep(WAIT_S)
    return rows_of(records, [1] * records.num_rows)


def _use_case(order: str) -> UseCase:
    sink = SqlTable(TABLE, columns=COLUMNS)
    more: dict[str, Any] = {} if order == "lane" else {"buckets": BUCKETS}
    return use_case(topic="{tenant}.visits", sink=sink, name="keep", order=order, **more)(_handled)


def _rate(spark: Any, config: dict[str, str], tenant: str, seconds: float) -> float:
    """Records a second in the second half of so many seconds."""
    topics(config, (f"{tenant}.visits",))
    records = int(seconds / WAIT_S * SLOTS * 1.5)
    backlog(config, f"{tenant}.visits", records, b"x" * 200, _key)
    made = _use_case(tenant)
    chosen: dict[str, Any] = {"order": Order(made.order), "buckets": made.divides_by}
    with driver_of(spark, config, made, [tenant], **chosen) as bench:
        rate = rate_of_the_second_half(bench, seconds)
        _check(bench, made)
    return rate


def _key(number: int) -> bytes:
    return b"user-%d" % (number * 7919 % KEYS)


def _check(bench: Bench, made: UseCase) -> None:
    """None lost, none twice, and none of a key before an older one, where that is promised."""
    positions = bench.store.progress.load_positions()
    done = [number_at(position.next_offset) for position in positions]
    with closing(sqlite3.connect(bench.path)) as rows:
        seen = [at for (at,) in rows.execute(f"SELECT at FROM {TABLE} ORDER BY rowid")]
    of_keys = defaultdict(list)
    for at in seen:
        of_keys[_key(at)].append(at)
    assert len(set(seen)) == len(seen), "some are there twice"
    are_ordered = all(found == sorted(found) for found in of_keys.values())
    assert are_ordered or made.order is Order.NONE, "a key is out of order"
    least = min(done)
    assert set(range(least)) <= set(seen), "some are lost"
    assert len(done) == made.divides_by
    print(f"  {len(seen)} records; buckets stand between {least} and {max(done)}", flush=True)
    numbers = {bucket_of_key(key, made.divides_by) for key in of_keys}
    assert numbers == set(range(made.divides_by)), "keys are not in all buckets"
