"""The slice reader against the bare Kafka client, in turn, on the same topics.

The bare client is the floor: the loop anyone would write with ``confluent_kafka``, with the same
properties, that counts records and builds nothing. What the reader adds is telling slices apart,
exact ends and Arrow tables.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks import harness
from headrace.connectors.kafka import KafkaLog, KafkaReaderFactory, create_topics, producer_config
from headrace.connectors.kafka.config import consumer_config
from headrace.connectors.kafka.consumers import PROFILES
from headrace.connectors.kafka.offsets import span_of
from headrace.model.lane_names import number_of
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections

_TOPICS = 1000
_RECORDS = 10
_LARGE_LANES = 4
_LARGE_RECORDS = 150_000
_RECORD_BYTES = 300
_TIMES = 7


def main(args: list[str]) -> None:
    """Measure; an address of a broker may be given, else one is started."""
    with ExitStack() as stack:
        config = {"bootstrap.servers": args[0]} if args else stack.enter_context(harness.broker())
        _fill(config)
        small = [_slice(f"small-{number:04d}", 0, 0, _RECORDS) for number in range(_TOPICS)]
        middle = [_slice(piece.topic, 0, 2, 4) for piece in small]
        large = [_slice("large", partition, 0, _LARGE_RECORDS) for partition in range(_LARGE_LANES)]
        result = {
            "cpus": os.cpu_count(),
            # Other work on the machine slows both; above the number of cpus, take only the ratios.
            "load_average_1m": round(os.getloadavg()[0], 1),
            "all 10 of 1,000 topics": _compare(config, small, "small"),
            "2 in the middle of 1,000 topics": _compare(config, middle, "small"),
            "4 lanes of 150,000 x 300 B": _compare(config, large, "huge"),
            "end offsets of 1,000 lanes": _observe(config, small),
        }
    print(json.dumps(result, indent=2))
    if not args:
        harness.RESULTS.mkdir(exist_ok=True)
        (harness.RESULTS / "reader.json").write_text(json.dumps(result, indent=2) + "\n")


def _fill(config: dict[str, str]) -> None:
    names = {f"small-{number:04d}": 1 for number in range(_TOPICS)}
    new = create_topics(config, {**names, "large": _LARGE_LANES})
    producer = Producer(
        {**producer_config(config), "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    value = b"v" * (_RECORD_BYTES - 10)
    for name in new & set(names):
        for _ in range(_RECORDS):
            producer.produce(name, value, b"0123456789")
    if "large" in new:
        for number in range(_LARGE_LANES * _LARGE_RECORDS):
            producer.produce("large", value, b"0123456789", number % _LARGE_LANES)
            producer.poll(0)
    producer.flush()


def _compare(
    config: dict[str, str], slices: Sequence[Slice], profile: str
) -> dict[str, dict[str, float]]:
    records = sum(map(span_of, slices))
    reader = KafkaReaderFactory().open(Connections(config, ""))
    bare = Consumer({**consumer_config(config, PROFILES[profile]), "group.id": "benchmark"})

    def ours() -> None:
        got = 0
        for batch in reader.read(slices, 10_000):
            assert batch.error is None, batch.error
            got += batch.records.num_rows
        assert got == records, got

    times: dict[str, list[float]] = {"reader": [], "bare client": []}
    for _ in range(_TIMES):
        times["reader"].append(_timed(ours))
        times["bare client"].append(_timed(lambda: _bare(bare, slices)))
    reader.close()
    bare.close()
    return {
        who: {
            "seconds_median": round(statistics.median(seconds[1:]), 4),
            "seconds_worst": round(max(seconds[1:]), 4),
            "records_per_s": round(records / statistics.median(seconds[1:])),
        }
        for who, seconds in times.items()
    }


def _bare(consumer: Consumer, slices: Sequence[Slice]) -> None:
    consumer.assign(
        [
            TopicPartition(piece.topic, number_of(piece.lane.name), piece.from_offset)
            for piece in slices
        ]
    )
    missing = {
        (piece.topic, number_of(piece.lane.name)): piece.until_offset - 1 for piece in slices
    }
    while missing:
        for message in consumer.consume(10_000, 0.02):
            key = (message.topic(), message.partition())
            if message.error() is None and message.offset() >= missing.get(key, 1 << 62):
                del missing[key]
    consumer.unassign()


def _observe(config: dict[str, str], slices: Sequence[Slice]) -> dict[str, float]:
    log = KafkaLog(config)
    lanes = [piece.lane.name for piece in slices]
    times = [_timed(lambda: log.end_offsets(lanes)) for _ in range(_TIMES)]
    return {"seconds_median": round(statistics.median(times[1:]), 4)}


def _timed(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _slice(topic: str, partition: int, start: int, until: int) -> Slice:
    return Slice(LaneId("benchmark", topic, f"{topic}[{partition}]"), topic, start, until, epoch=1)
