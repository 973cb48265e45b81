"""Exactly-once from Kafka to Kafka against at-least-once, through the same driver, reader and sink.

Both copy the same records to a topic of their own, in turn, in one Spark session; the one by Kafka
transactions and waves that are written down, the other by an idempotent producer. Every message
carries the place of its record. After each round all committed messages are read: none may be
missing, and by transactions none may be there twice.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness import Bench, broker, driver_of, fill, ratio, session, topics, write
from headrace.connectors.kafka import create_topics
from headrace.connectors.kafka.config import consumer_config
from headrace.connectors.kafka.consumers import PROFILES
from headrace.sinks import KafkaTopic
from headrace.use_cases import UseCase, use_case

LANES = 100
EACH = 5_000
SIZE_BYTES = 300
ROUNDS = 7
WARM_UP_ROUNDS = 2
PARTITIONS = 4
TARGET = 0.8
GUARANTEES = ("at-least-once", "exactly-once")


def main(args: list[str]) -> None:
    """Run and write `results/kafka_transactions.json`."""
    quick = "--quick" in args
    lanes, records = (10, 300) if quick else (LANES, EACH)
    tenants = [f"k{number}" for number in range(lanes)]
    names = [f"{name}.visits" for name in tenants]
    took: dict[str, list[float]] = {name: [] for name in GUARANTEES}
    with broker() as config, session() as spark, ExitStack() as stack:
        topics(config, names)
        create_topics(config, dict.fromkeys(GUARANTEES, PARTITIONS))
        fill(config, names, records, SIZE_BYTES)
        benches = {
            name: stack.enter_context(driver_of(spark, config, _copying(name), tenants))
            for name in GUARANTEES
        }
        rounds = 1 if quick else ROUNDS
        for number in range(rounds + WARM_UP_ROUNDS):
            for name in GUARANTEES if number % 2 == 0 else reversed(GUARANTEES):
                seconds = _drive(benches[name], lanes * records)
                _verify(config, name, names, records, number + 1)
                if number >= WARM_UP_ROUNDS:
                    took[name].append(round(seconds, 3))
    figures = _figures(took, lanes * records)
    if not quick:
        write(
            "kafka_transactions",
            {"lanes": lanes, "records": lanes * records, "bytes_per_record": SIZE_BYTES, **figures},
        )
    speed = {
        name: round(statistics.median(lanes * records / s for s in took[name])) for name in took
    }
    print(f"records/s {speed}; ratio {figures['exactly_over_at_least']} (target {TARGET})")


def _figures(took: Mapping[str, list[float]], records: int) -> dict[str, Any]:
    least, exactly = (took[name] for name in GUARANTEES)
    return {
        "seconds": dict(took),
        "records_per_s": {n: [round(records / seconds) for seconds in took[n]] for n in took},
        "exactly_over_at_least": ratio(least, exactly),
    }


def _copying(guarantee: str) -> UseCase:
    def copies(table: pa.Table, _context: Any) -> pa.Table:
        places = pc.binary_join_element_wise(
            table["topic"].cast(pa.string()), table["offset"].cast(pa.string()), ":"
        )
        return pa.table({"key": places, "value": table["value"]})

    exactly = guarantee == "exactly-once"
    return use_case(
        topic="{tenant}.visits",
        sink=KafkaTopic(guarantee, transactional=exactly),
        guarantee=guarantee,
        name=guarantee,
    )(copies)


def _drive(bench: Bench, records: int) -> float:
    bench.rewind()
    return bench.until_done(records)


def _verify(
    config: Mapping[str, str], output: str, names: list[str], records: int, rounds: int
) -> None:
    consumer = Consumer({**consumer_config(config, PROFILES["large"]), "group.id": "verify"})
    consumer.assign([TopicPartition(output, number, 0) for number in range(PARTITIONS)])
    seen: Counter[bytes] = Counter()
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 0.2):
            if message.error() is None:
                seen[message.key()] += 1
            else:
                ended += 1
    consumer.close()
    wanted = {f"{name}:{offset}".encode() for name in names for offset in range(records)}
    assert set(seen) == wanted, "messages are missing, or foreign"
    fewest, most = min(seen.values()), max(seen.values())
    assert fewest >= rounds, "messages are lost"
    assert output != "exactly-once" or most == rounds, "messages are there twice"
