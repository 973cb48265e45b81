"""A backlog of a million records over 200 topics, all the way into committed positions.

Against Spark's own Kafka source into its `noop` writer (a batch read of all offsets, nothing
committed), and against the bare Kafka client in one process, which only counts: the physical floor.
The bare client has the same fetch settings as our reader, without which it is half as fast. Two
rounds warm everybody up: the JVM, and what we learn of the streams' costs.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from benchmarks.contenders import passing
from benchmarks.harness import Bench, broker, driver_of, fill, ratio, session, topics, write
from headrace.connectors.kafka.config import consumer_config
from headrace.connectors.kafka.consumers import PROFILES

LANES = 200
RECORDS = 1_000_000
SIZE_BYTES = 300
ROUNDS = 5
WARM_UP_ROUNDS = 2
SPARK_TARGET = 3.0
BARE_TARGET = 0.4


def main(_args: list[str]) -> None:
    """Run and write `results/drain.json`."""
    tenants = [f"d{number}" for number in range(LANES)]
    names = [f"{name}.visits" for name in tenants]
    ours_s: list[float] = []
    spark_s: list[float] = []
    bare_s: list[float] = []
    with broker() as config, session() as spark:
        topics(config, names)
        fill(config, names, RECORDS // LANES, SIZE_BYTES)
        with driver_of(spark, config, passing(), tenants) as bench:
            for number in range(ROUNDS + WARM_UP_ROUNDS):
                took = [
                    _drive(bench),
                    _read(spark, config, names),
                    _bare(config, names),
                ]
                if number >= WARM_UP_ROUNDS:
                    for kept, seconds in zip((ours_s, spark_s, bare_s), took, strict=True):
                        kept.append(round(seconds, 3))
    result = {
        "records": RECORDS,
        "bytes_per_record": SIZE_BYTES,
        "lanes": LANES,
        "ours_s": ours_s,
        "spark_s": spark_s,
        "bare_s": bare_s,
        "speed_over_spark": ratio(spark_s, ours_s),
        "speed_over_bare": ratio(bare_s, ours_s),
    }
    write("drain", result)
    print(
        f"speed {result['speed_over_spark']['median']:.2f} x Spark's source "
        f"(target {SPARK_TARGET}), {result['speed_over_bare']['median']:.2f} x the bare client "
        f"(target {BARE_TARGET}); ours {ours_s} s, Spark {spark_s} s, bare {bare_s} s"
    )


def _drive(bench: Bench) -> float:
    bench.rewind()
    return bench.until_done(RECORDS)


def _read(spark: Any, config: dict[str, str], names: list[str]) -> float:
    records = RECORDS // LANES
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", config["bootstrap.servers"])
        .option("kafka.fetch.max.wait.ms", "5")
        .option("assign", json.dumps({name: [0] for name in names}))
        .option("startingOffsets", json.dumps({name: {"0": 0} for name in names}))
        .option("endingOffsets", json.dumps({name: {"0": records} for name in names}))
        .load()
    )
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _bare(config: dict[str, str], names: list[str]) -> float:
    consumer = Consumer({**consumer_config(config, PROFILES["huge"]), "group.id": uuid.uuid4().hex})
    began = time.perf_counter()
    consumer.assign([TopicPartition(name, 0, 0) for name in names])
    seen = 0
    while seen < RECORDS:
        messages = consumer.consume(10_000, 0.1)
        seen += sum(1 for message in messages if message.error() is None)
    took = time.perf_counter() - began
    consumer.close()
    return took
