"""Healthy tenants beside slow, raising, poisoned and hanging ones: what do they notice?

100 tenants get 5 records a second each. 91 are healthy: half a millisecond of work a record. Five
take ten times as long, two raise at every record, every fifth record of one is poison, and one
hangs (for an hour) at every call. The handler's time limit is 5 s, a record is tried four times,
and bad records go to the dead letters.

Three runs: the nine do not exist; they are bad from their first record; they turn bad in the middle
of the run, when they have long been known as quick. Delays are taken by the same probe as in the
other benchmarks, over the whole run and over the part after everybody is warm.

Structured Streaming has nothing to compare with: one tenant that raises stops the query. A short
run shows it.

Healthy records must all be there (repeats are counted); of the bad ones each record must be done,
in the dead letters, or waiting behind an open failure.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cpu import line
from benchmarks.delays import COLUMNS, TABLE, Feed, Load, Seen, rows_of, table, verify, watched
from benchmarks.harness import Bench, broker, driver_of, session, topics, write
from benchmarks.streaming import Query, batch_of
from benchmarks.waves import told
from headrace.connectors.kafka import producer_config
from headrace.connectors.kafka.config import consumer_config
from headrace.connectors.kafka.consumers import PROFILES
from headrace.model.streams import StreamId
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

HEALTHY = 91
RATE_PER_S = 5.0
HEALTHY_S = 0.000_5
SLOW_S = 10 * HEALTHY_S
POISON_EVERY = 5
BAD = {"slow": 5, "raise": 2, "poison": 1, "hang": 1}
SETTINGS = {"retries": 3, "handler_timeout_s": 5.0}
THROUGHPUT_TARGET = 0.95
RATIO_TARGET = 1.3
WARM_UP_S = 20.0


def main(args: list[str]) -> None:
    """Run and write `results/bad_tenants.json`."""
    quick = "--quick" in args
    seconds, warm_s = (16.0, 6.0) if quick else (60.0, 15.0)
    runs: dict[str, Any] = {}
    with broker() as config, session() as spark:
        # Not measured: a broker and a JVM that have just started spend both cores on compiling.
        _run(spark, config, "warm-up", (WARM_UP_S, WARM_UP_S / 2, None))
        for kind, trouble_s in (("without", None), ("from-start", 0.0), ("turning", warm_s)):
            runs[kind] = _run(spark, config, kind, (seconds, warm_s, trouble_s))
            print(kind, runs[kind], flush=True)
        runs["structured_streaming"] = _theirs(spark, config)
        print("structured_streaming", runs["structured_streaming"], flush=True)
    compared = {kind: _compared(runs["without"], runs[kind]) for kind in ("from-start", "turning")}
    result = {"healthy": HEALTHY, "bad": BAD, "seconds": seconds, "warm_s": warm_s}
    name = "bad_tenants.quick" if quick else "bad_tenants"
    write(name, {**result, "runs": runs, "compared": compared})
    for kind, ratios in compared.items():
        print(
            f"{kind}: throughput {ratios['throughput_ratio']} (target {THROUGHPUT_TARGET}), p99 "
            f"{ratios['warm']} x when warm, {ratios['all']} x over all (target {RATIO_TARGET})"
        )
    for kind in ("without", *compared):
        print(f"{kind}: {line(runs[kind]['cpu_cores'])}")


def _compared(without: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, float]:
    return {
        "throughput_ratio": round(run["throughput"] / without["throughput"], 3),
        "warm": round(run["warm"]["p99_s"] / without["warm"]["p99_s"], 2),
        "all": round(run["all"]["p99_s"] / without["all"]["p99_s"], 2),
    }


# --- what is sent, and what is done with it --------------------------------------------------


class Sender:
    """Makes a topic's values: healthy ones, and from some second on what its name says."""

    def __init__(self, trouble_s: float) -> None:
        self.trouble_s = trouble_s

    def __call__(self, topic: str, number: int, at_s: float) -> bytes:
        """What record ``number`` of a topic is."""
        what = topic.split("-")[-2]
        if at_s < self.trouble_s or (what == "poison" and number % POISON_EVERY):
            what = "healthy"
        return json.dumps({"what": what, "number": number, "text": "x" * 200}).encode()


def work(raw: bytes) -> str:
    """What is done with each record, by every contender."""
    what: str = json.loads(raw)["what"]
    if what == "raise":
        raise ValueError("this tenant raises")
    if what == "hang":
        time.sleep(3600)
    time.sleep(SLOW_S if what == "slow" else HEALTHY_S)
    return what


def _kept(records: pa.Table, context: Any) -> pa.Table:
    for row, raw in enumerate(records["value"].to_pylist()):
        if work(raw) == "poison":
            raise context.bad_record(row, "poison")
    return rows_of(records, [1] * records.num_rows)


# --- ours ------------------------------------------------------------------------------------


def _run(
    spark: Any, config: dict[str, str], kind: str, times_s: tuple[float, float, float | None]
) -> dict[str, Any]:
    seconds, warm_s, trouble_s = times_s
    healthy = [f"{kind}-healthy-{number}" for number in range(HEALTHY)]
    bad = [f"{kind}-{what}-{number}" for what, count in BAD.items() for number in range(count)]
    tenants = healthy if trouble_s is None else [*healthy, *bad]
    names = tuple(f"{tenant}.visits" for tenant in tenants)
    topics(config, names)
    feed = Feed(names, RATE_PER_S, Sender(trouble_s or 0.0))
    load = Load(config, (feed,), seconds, frozenset(names[HEALTHY:]))
    rows = SqlTable(TABLE, columns=COLUMNS)
    made = use_case(topic="{tenant}.visits", sink=rows, bad_record="dead-letter", name="keep")
    with driver_of(spark, config, made(_kept), tenants, **SETTINGS) as bench:
        judged = _Judged(bench, tenants[HEALTHY:])
        seen = watched(bench.path, load, lambda: bench.driver.turn, judged.waiting)
        service = seen.service(seconds)
        figures = {
            "repeats": verify(seen, load.unwatched, holes=load.unwatched),
            "throughput": round(sum(service.values()) / len(service), 4),
            "least_service": round(min(service.values()), 3),
            "warm": seen.delays(warm_s, seconds),
            "all": seen.delays(0.0, seconds),
            "waves": told(bench.counter.ended),
            **seen.cpu.told(),
        }
        if trouble_s is not None:
            figures["bad"] = _accounted(bench, config, seen, tenants[HEALTHY:])
    return figures


class _Judged:
    """Waits until something was decided about every tenant that can not go on."""

    def __init__(self, bench: Bench, bad: list[str]) -> None:
        self._bench = bench
        self._hopeless = [StreamId("keep", name) for name in bad if _what(name) != "slow"]
        self._looked_s = float("-inf")
        self._waits = True

    def waiting(self, elapsed_s: float) -> bool:
        """Whether one of them has neither a dead letter nor an open failure yet."""
        if elapsed_s > self._looked_s + 0.5:
            self._looked_s = elapsed_s
            meters = self._bench.driver.reporter.meters
            stopped = {failure.slice.lane.stream for failure in self._bench.store.failures.every()}
            self._waits = any(
                stream not in stopped and not (stream in meters and meters[stream].dead_letters)
                for stream in self._hopeless
            )
        return self._waits


def _what(tenant: str) -> str:
    return tenant.split("-")[-2]


def _accounted(
    bench: Bench, config: Mapping[str, str], seen: Seen, bad: list[str]
) -> dict[str, Any]:
    """Every record of a bad tenant below its position is a row or a dead letter, or it is a bug."""
    told_of: dict[str, Any] = {}
    failures = bench.store.failures.every(only_open=True)
    for tenant in bad:
        stream, topic = StreamId("keep", tenant), f"{tenant}.visits"
        position = bench.store.progress.load_positions([stream])[0].next_offset
        total = seen.totals.get(topic)
        rows = total.distinct if total else 0
        letters = _letters(config, f"{topic}.dlq", position)
        stopped = [failure for failure in failures if failure.slice.lane.stream == stream]
        told_of[tenant] = {
            "sent": seen.sent[topic],
            "position": position,
            "rows": rows,
            "dead_letters": len(letters),
            "open_failure": stopped[0].error.code if stopped else None,
        }
        assert rows + len(letters) >= position, (tenant, told_of[tenant])
        if _what(tenant) in ("raise", "hang"):
            assert letters or stopped, (tenant, told_of[tenant])
    return told_of


def _letters(config: Mapping[str, str], topic: str, below: int) -> set[bytes]:
    """Values of the distinct dead letters of a topic that has one partition."""
    consumer = Consumer({**consumer_config(config, PROFILES["small"]), "group.id": "letters"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: set[bytes] = set()
        until_s = time.monotonic() + 5.0
        while time.monotonic() < until_s and len(values) < below:
            for message in consumer.consume(1000, 0.5):
                if message.error() is not None:
                    until_s = min(until_s, time.monotonic())
                else:
                    values.add(message.value())
        return values
    finally:
        consumer.close()


# --- Structured Streaming --------------------------------------------------------------------


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for raw in batch["value"].to_pylist():
            work(raw)
        yield batch_of(batch, [1] * batch.num_rows)


def _theirs(spark: Any, config: dict[str, str]) -> dict[str, Any]:
    """A record in every topic, then another, which is bad in one of them: who gets the second?"""
    healthy = [f"theirs-healthy-{number}.visits" for number in range(HEALTHY)]
    names = [*healthy, "theirs-raise-0.visits"]
    topics(config, names)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        table(folder) as path,
        closing(sqlite3.connect(path, timeout=30)) as rows,
        Query(config, "theirs-.*[.]visits", path).running(spark, _batches) as query,
    ):
        _one_each(config, names, trouble_s=1.0)
        query.processAllAvailable()
        first = rows.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]
        assert first == len(names), first
        _one_each(config, names, trouble_s=0.0)
        deadline_s = time.monotonic() + 120
        while query.isActive and time.monotonic() < deadline_s:
            time.sleep(0.1)
        stopped = not query.isActive
        second = rows.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0] - first
        why = str(query.exception())
    said = "ValueError: this tenant raises" in why
    assert stopped, "the query should have stopped"
    assert said, why
    return {"query": "stops", "second_records_of_healthy": len(healthy), "done_of_these": second}


def _one_each(config: Mapping[str, str], names: Sequence[str], trouble_s: float) -> None:
    value = Sender(trouble_s)
    producer = Producer(producer_config(config))
    for name in names:
        producer.produce(name, value=value(name, 0, 0.0), partition=0)
    left = producer.flush(30)
    assert left == 0, f"{left} records were not acknowledged"
