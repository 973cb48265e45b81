"""A backlog of a million records over 200 topics, decoded to ten columns: JSON, or Avro.

Ours is the whole service: records are read, decoded by ``decode=``, handed to a handler as columns,
and positions are committed. Against Spark's own Kafka source with `from_json`, or with `from_avro`
behind the five bytes of framing, in three ways: Structured Streaming (`availableNow`, offsets in a
checkpoint) into the `noop` writer, which stays in the JVM; the same, gathered into two tasks, which
saves it 198; and a batch read into `noop`, which commits nothing. All refuse a record that does not
fit: `FAILFAST` there, ``decode=`` here.

Before anything is timed, all records are decoded once by ours and by Spark, and every row is
compared with what it was made from. In timed rounds records are counted: those committed, and
those that a query says it has read. Structured Streaming's seconds begin when its query is started;
what the batches took alone is kept beside them. Our driver runs already, as it does when a backlog
comes.

`--json` and `--avro` run one of the two.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql.avro.functions import from_avro

from benchmarks.contenders import Nowhere
from benchmarks.cpu import counted
from benchmarks.harness import (
    Bench,
    broker,
    driver_of,
    fill_with,
    ratio,
    session,
    topics,
    write,
)
from benchmarks.visits import (
    AVRO,
    COUNT,
    FRAME,
    SCHEMA,
    avro_values,
    expected,
    json_values,
    made_rows,
    registry,
)
from headrace.formats import Avro, Json
from headrace.ports import Format
from headrace.sinks import SqlTable
from headrace.use_cases import UseCase, use_case

LANES = 200
TARGET = 1.5
_SPARK_TYPES = {pa.string(): "string", pa.bool_(): "boolean", pa.float64(): "double"}
_SPARK_TYPES |= {pa.int64(): "bigint", pa.int32(): "int"}
_SPARK_SCHEMA = ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in SCHEMA)
_KAFKA_COLUMNS = ("topic", "partition", "offset", "timestamp", "key")
_OURS = "ours"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much, and how often."""

    records: int
    rounds: int
    warm_up_rounds: int


FULL, QUICK = Scale(1_000_000, 3, 1), Scale(100_000, 1, 0)


@dataclass(frozen=True, slots=True)
class Way:
    """A format: as it is sent, as we decode it, and as Spark does."""

    name: str
    kind: Format
    values: list[bytes]
    #: the value, as a struct
    column: Any
    config: dict[str, str]
    #: records of each topic
    each: int

    @property
    def tenants(self) -> list[str]:
        """One for each topic."""
        return [f"{self.name}{number}" for number in range(LANES)]

    @property
    def names(self) -> list[str]:
        """The topics."""
        return [f"{tenant}.visits" for tenant in self.tenants]

    @property
    def options(self) -> dict[str, str]:
        """Of Spark's source, for a stream and a batch alike."""
        return {
            "kafka.bootstrap.servers": self.config["bootstrap.servers"],
            "kafka.fetch.max.wait.ms": "5",
            "assign": json.dumps({name: [0] for name in self.names}),
            "startingOffsets": json.dumps({name: {"0": 0} for name in self.names}),
        }

    def decoded(self, frame: Any) -> Any:
        """Kafka's columns and the ten."""
        value = frame.select(*_KAFKA_COLUMNS, self.column.alias("visit"))
        return value.select(*_KAFKA_COLUMNS, "visit.*")

    def batch(self, spark: Any) -> Any:
        """All records, as a frame."""
        ends = json.dumps({name: {"0": self.each} for name in self.names})
        source = spark.read.format("kafka").options(**self.options)
        return self.decoded(source.option("endingOffsets", ends).load())

    def stream(self, spark: Any) -> Any:
        """All records, as a stream."""
        return self.decoded(spark.readStream.format("kafka").options(**self.options).load())


def main(args: list[str]) -> None:
    """Run and write `results/decoded_drain_json.json` and `results/decoded_drain_avro.json`."""
    scale = QUICK if "--quick" in args else FULL
    chosen = {"json", "avro"} & {option.removeprefix("--") for option in args} or {"json", "avro"}
    rows = made_rows()
    with broker() as config, session("spark-avro") as spark:
        each = scale.records // LANES
        from_json = functions.from_json(
            functions.col("value").cast("string"), _SPARK_SCHEMA, {"mode": "FAILFAST"}
        )
        bare = from_avro(functions.expr(f"substring(value, {len(FRAME) + 1})"), json.dumps(AVRO))
        for way in (
            Way("json", Json(SCHEMA), json_values(rows), from_json, config, each),
            Way("avro", Avro(AVRO), avro_values(rows), bare, config, each),
        ):
            if way.name in chosen:
                topics(config, way.names)
                fill_with(config, way.names, each, way.values)
                _verify(spark, way, scale)
                name = f"decoded_drain_{way.name}" + (".quick" if scale is QUICK else "")
                write(name, _measured(spark, way, scale))


def _measured(spark: Any, way: Way, scale: Scale) -> dict[str, Any]:
    """Every contender in turn, round after round."""
    batches_s: list[float] = []
    with driver_of(spark, way.config, _passing(way), way.tenants, schemas=registry()) as bench:
        contenders: dict[str, Callable[[], float]] = {
            _OURS: lambda: _drive(bench, scale),
            "streaming": lambda: _streamed(way.stream(spark), scale, batches_s),
            "streaming_two_tasks": lambda: _streamed(way.stream(spark).coalesce(2), scale),
            "batch": lambda: _timed(way.batch(spark).write.format("noop").mode("overwrite").save),
        }
        took_s: dict[str, list[float]] = {name: [] for name in contenders}
        cpu_s: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(scale.warm_up_rounds + scale.rounds):
            for name, run in contenders.items():
                with counted(closely=False) as cpu:
                    took_s[name].append(round(run(), 3))
                cpu_s[name].append(round(sum(cpu.seconds.values()), 2))
                print(f"{name}: {took_s[name][-1]} s, CPU {cpu_s[name][-1]} s", flush=True)
    first = scale.warm_up_rounds
    took_s = {name: taken[first:] for name, taken in took_s.items()}
    cpu_s = {name: used[first:] for name, used in cpu_s.items()}
    speed = {name: ratio(taken, took_s[_OURS]) for name, taken in took_s.items() if name != _OURS}
    for name, taken in took_s.items():
        rate = scale.records / statistics.median(taken)
        per_us = statistics.median(cpu_s[name]) / scale.records * 1e6
        over = f", ours {speed[name]['median']:.2f} x" if name in speed else ""
        print(f"{way.name} {name}: {rate:,.0f}/s, CPU {per_us:.2f} us{over} {taken}", flush=True)
    return {
        "records": scale.records,
        "lanes": LANES,
        "fields": len(SCHEMA),
        "bytes_per_record": round(sum(map(len, way.values)) / len(way.values)),
        "took_s": took_s,
        "cpu_s": cpu_s,
        "streaming_batches_s": batches_s[first:],
        "speed_over": speed,
        "target_over_streaming": TARGET,
    }


# --- contenders ------------------------------------------------------------------------------


def _pass(visits: pa.Table, _context: Any) -> pa.Table:
    assert visits.column_names[-len(SCHEMA) :] == SCHEMA.names
    return visits


def _passing(way: Way) -> UseCase:
    made = use_case(topic="{tenant}.visits", decode=way.kind, sink=Nowhere(), name="pass")
    return made(_pass)


def _drive(bench: Bench, scale: Scale) -> float:
    bench.rewind()
    return bench.until_done(scale.records)


def _streamed(frame: Any, scale: Scale, batches_s: list[float] | None = None) -> float:
    """From the start of the query until all that there was is done, and its offsets are kept."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        began = time.perf_counter()
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", folder)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        took_s = time.perf_counter() - began
        progress = query.recentProgress
    assert sum(batch["numInputRows"] for batch in progress) == scale.records, progress
    if batches_s is not None:
        ms = sum(batch["durationMs"]["triggerExecution"] for batch in progress)
        batches_s.append(round(ms / 1000, 3))
    return took_s


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


# --- what they decode is what was sent -------------------------------------------------------


def _good_rows(visits: Any, each: int) -> int:
    """How many of these are what stands at their place, all ten fields of them."""
    lanes = np.array([int(name.split(".")[0][4:]) for name in visits["topic"].to_pylist()])
    places = (lanes * each + visits["offset"].to_numpy()) % COUNT
    wanted = expected().take(pa.array(places))
    given = pa.table([visits[name] for name in SCHEMA.names], SCHEMA.names).cast(SCHEMA)
    return given.num_rows if given.combine_chunks().equals(wanted.combine_chunks()) else 0


def _verify(spark: Any, way: Way, scale: Scale) -> None:
    """Refuse a contender whose rows are not what was sent."""
    each = way.each

    def check(visits: pa.Table, _context: Any) -> pa.Table:
        return pa.table({"records": [visits.num_rows], "good": [_good_rows(visits, each)]})

    def checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                good = _good_rows(batch, each)
                yield pa.RecordBatch.from_pydict({"records": [batch.num_rows], "good": [good]})

    rows = SqlTable("checked", columns={"records": "bigint", "good": "bigint"})
    made = use_case(topic="{tenant}.visits", decode=way.kind, sink=rows, name="check")(check)
    with ExitStack() as stack:
        given = driver_of(spark, way.config, made, way.tenants, schemas=registry())
        bench = stack.enter_context(given)
        bench.until_done(scale.records)
        store = sqlite3.connect(bench.path)
        stack.callback(store.close)
        ours = store.execute("SELECT sum(records), sum(good) FROM checked").fetchone()
    frame = way.batch(spark).mapInArrow(checked, "records bigint, good bigint")
    theirs = frame.agg(functions.sum("records"), functions.sum("good")).collect()[0]
    assert tuple(ours) == tuple(theirs) == (scale.records, scale.records), (ours, theirs)
