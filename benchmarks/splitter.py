"""A shared topic divided among tenants: what one customer's storm costs the others, and the cost.

*The storm.* All customers write into one topic of four partitions, under keys of their visitors,
so that each is in all partitions. One of them sends 60,000 records at once; the others go on with
a few a second each. A handler takes half a millisecond a record, and writes a row into SQLite,
exactly once. It reads the shared topic itself, or what the splitter makes of it, each with and
without the storm. The delay of a quiet customer's record goes from when it was sent to when a
probe in a process of its own sees its row. The storm goes through the splitter, too: what that
spares the others is what their handler takes longer than it. With `--light` the handler takes
some 40 microseconds, as it does.

*The cost.* The same records of a hundred tenants go from one topic into a hundred: by the splitter,
and by a plain use case whose rows name their topics, both exactly once, in turn, in one session. A
plain copy passes on what a record has, asks nobody who is a tenant, and says no places. After each
round all committed messages are read: in each topic the tenant's records, each once a round.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.cpu import counted, line
from benchmarks.delays import COLUMNS, Load, Seen, watched
from benchmarks.harness import Bench, broker, driver_of, ratio, session, write
from headrace.connectors.kafka import create_topics
from headrace.connectors.kafka.clients import put
from headrace.connectors.kafka.config import consumer_config, producer_config
from headrace.connectors.kafka.consumers import PROFILES
from headrace.sinks import KafkaTopic, SqlTable
from headrace.splitting import ByHeader, ByKey, split
from headrace.use_cases import SliceContext, UseCase, use_case

PARTITIONS = 4
#: of the cost
TENANTS, RECORDS, SIZE_BYTES = 100, 200_000, 300
ROUNDS, WARM_UP_ROUNDS = 5, 2
TARGET = 0.8
#: how often the handler of the storm does its work with a record
_TIMES, _LIGHT_TIMES = 70, 5


@dataclass(frozen=True, slots=True)
class Scale:
    """How long, and how much."""

    quiet: int
    rate_per_s: float
    storm: int
    seconds: float
    storm_at_s: float
    #: how often the handler does its work with a record
    times: int = _TIMES


FULL = Scale(40, 5.0, 60_000, 30.0, 6.0)
QUICK = Scale(10, 5.0, 20_000, 10.0, 3.0)


def main(args: list[str]) -> None:
    """Run and write `results/splitter_storm.json` and `_cost.json`; `--storm`, `--cost`: one."""
    quick, suffix = "--quick" in args, ".quick" if "--quick" in args else ""
    with broker() as config, session() as spark:
        if "--cost" not in args:
            scale, light = QUICK if quick else FULL, "--light" in args
            scale = replace(scale, times=_LIGHT_TIMES) if light else scale
            name = f"splitter_storm{'_light' if light else ''}{suffix}"
            write(name, _storms(spark, config, scale))
        if "--storm" not in args:
            cost = _cost(spark, config, quick=quick)
            write(f"splitter_cost{suffix}", cost)
            print(f"records/s {cost['median_records_per_s']}; {cost['ratio']} (target {TARGET})")
            print(f"CPU us a record {cost['median_cpu_us_per_record']}")


# --- the storm -------------------------------------------------------------------------------


def _storms(spark: Any, config: Mapping[str, str], scale: Scale) -> dict[str, Any]:
    _storm(spark, config, "warm", QUICK, behind=True, storm=True)
    runs = {}
    for storm in (False, True):
        for behind in (False, True):
            name = f"{'behind' if behind else 'shared'}{'_storm' if storm else ''}"
            mark = f"{behind:d}{storm:d}"
            runs[name] = _storm(spark, config, mark, scale, behind=behind, storm=storm)
            print(name, runs[name], flush=True)
            print(f"  {line(runs[name]['cpu_cores'])}", flush=True)
    return {"scale": asdict(scale), "runs": runs}


def _storm(
    spark: Any, config: Mapping[str, str], mark: str, scale: Scale, *, behind: bool, storm: bool
) -> dict[str, Any]:
    names = [f"c{number}-{mark}" for number in range(scale.quiet)]
    whale, operator = f"whale-{mark}", f"shared-{mark}"
    outputs = [f"{name}.visits" for name in (whale, *names)] if behind else []
    create_topics(config, {f"{operator}.all": PARTITIONS, **dict.fromkeys(outputs, PARTITIONS)})
    source = "{tenant}.visits" if behind else "{tenant}.all"
    sink = SqlTable("results", columns=COLUMNS)
    keep = use_case(topic=source, sink=sink, guarantee="exactly-once", name="keep")
    made = keep(partial(_kept, scale.times))
    pair = split(
        topic="{tenant}.all", operator=operator, to="{tenant}.visits", tenant=ByHeader("customer")
    )
    beside: Sequence[UseCase] = pair if behind else ()
    tenants = [operator, whale, *names] if behind else [operator]
    context = multiprocessing.get_context("spawn")
    topic, size = f"{operator}.all", scale.storm if storm else 0
    senders = [
        context.Process(target=_send, args=(dict(config), topic, names, scale), daemon=True),
        context.Process(target=_flood, args=(dict(config), topic, whale, size, scale), daemon=True),
    ]
    records = round(scale.seconds * scale.rate_per_s) * len(names)
    with driver_of(spark, config, made, tenants, beside=beside) as bench:

        def start() -> Callable[[], object]:
            for sender in senders:
                sender.start()
            return bench.driver.turn

        def more(_elapsed_s: float) -> bool:
            return _done(bench, made.name) < records + size

        load = Load(config, (), 0.0, frozenset({whale}))
        seen = watched(bench.path, load, start, more)
    for sender in senders:
        sender.join(30)
    _all_there(seen, {**dict.fromkeys(names, records // len(names)), whale: size})
    return {"rows": records + size, **seen.delays(-math.inf, math.inf), **seen.cpu.told()}


def _kept(times: int, records: pa.Table, _context: SliceContext) -> pa.Table:
    visits = [json.loads(value) for value in records["value"].to_pylist()]
    scores = [_work(visit, times) for visit in visits]
    return pa.table(
        {
            "topic": [visit["customer"] for visit in visits],
            "at": [visit["number"] for visit in visits],
            "sent_ms": pc.cast(records["timestamp"], pa.int64()),
            "score": pa.array(scores, pa.int64()),
        }
    )


def _work(visit: Mapping[str, Any], times: int) -> int:
    return sum(len(json.dumps(json.loads(json.dumps(visit)))) for _ in range(times))


def _send(config: Mapping[str, str], topic: str, names: list[str], scale: Scale) -> None:
    """Send what quiet customers send, each record when it is due."""
    producer, began_s = _producer(config), time.time()
    for number in range(round(scale.seconds * scale.rate_per_s)):
        due_s = began_s + number / scale.rate_per_s
        while (left_s := due_s - time.time()) > 0:
            producer.poll(min(left_s, 0.05))
        for name in names:
            _produce(producer, topic, name, number, due_s)
    assert producer.flush(60) == 0


def _flood(config: Mapping[str, str], topic: str, whale: str, records: int, scale: Scale) -> None:
    """Send the storm when it comes, as fast as it goes."""
    producer = _producer(config)
    time.sleep(scale.storm_at_s)
    for number in range(records):
        _produce(producer, topic, whale, number, time.time())
    assert producer.flush(60) == 0


def _producer(config: Mapping[str, str]) -> Producer:
    more = {"linger.ms": 2, "queue.buffering.max.messages": 1_000_000}
    return Producer({**producer_config(config), **more})


def _produce(producer: Producer, topic: str, name: str, number: int, at_s: float) -> None:
    visit = {"customer": name, "number": number, "page": "/products/shoes?id=17", "seconds": [3, 1]}
    headers = [("customer", name.encode())]
    key = f"{name}-{number % 97}".encode()
    told = {"headers": headers, "timestamp": int(at_s * 1000)}
    put(producer, lambda: False, topic, json.dumps(visit), key, **told)


def _done(bench: Bench, name: str) -> int:
    meters = bench.driver.reporter.meters.items()
    return sum(meter.records_total for stream, meter in meters if stream.use_case == name)


def _all_there(seen: Seen, wanted: Mapping[str, int]) -> None:
    """Each record of each customer has one row."""
    found = {name: (total.rows, total.distinct) for name, total in seen.totals.items()}
    assert found == {name: (rows, rows) for name, rows in wanted.items() if rows}, found


# --- the cost --------------------------------------------------------------------------------


def _cost(spark: Any, config: Mapping[str, str], *, quick: bool) -> dict[str, Any]:
    tenants, records = (10, 20_000) if quick else (TENANTS, RECORDS)
    names = [f"t{number}" for number in range(tenants)]
    ways = {"split": ".visits", "copy": ".copied"}
    outputs = [f"{name}{ending}" for name in names for ending in ways.values()]
    create_topics(config, {"shared.all": PARTITIONS, **dict.fromkeys(outputs, 1)})
    sent = _filled(config, names, records)
    pair = split(
        topic="{tenant}.all", operator="shared", to="{tenant}.visits", tenant=ByKey(), name="split"
    )
    took: dict[str, list[float]] = {name: [] for name in ways}
    used: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    with ExitStack() as stack:
        split_bench = driver_of(spark, config, pair.by_tenant, ["shared", *names])
        benches = {
            "split": stack.enter_context(split_bench),
            "copy": stack.enter_context(driver_of(spark, config, _copying(), ["shared"])),
        }
        rounds = 1 if quick else ROUNDS
        for number in range(rounds + WARM_UP_ROUNDS):
            for name in ways if number % 2 == 0 else reversed(ways):
                with counted() as cpu:
                    seconds = _drive(benches[name], records)
                _verify(config, ways[name], sent, number + 1)
                if number >= WARM_UP_ROUNDS:
                    took[name].append(round(seconds, 3))
                    used[name].append(cpu.told()["cpu_s"])
    medians = {n: round(statistics.median(records / s for s in took[n])) for n in took}
    return {
        "tenants": tenants,
        "records": records,
        "bytes_per_record": SIZE_BYTES,
        "seconds": took,
        "cpu_s": used,
        "median_cpu_us_per_record": {
            name: round(statistics.median(sum(one.values()) for one in used[name]) / records * 1e6)
            for name in ways
        },
        "median_records_per_s": medians,
        "ratio": ratio(took["copy"], took["split"]),
    }


def _copying() -> UseCase:
    def copies(records: pa.Table, _context: SliceContext) -> pa.Table:
        topics = pc.binary_join_element_wise(records["key"].cast(pa.string()), "copied", ".")
        passed = records.select(["key", "value", "headers", "timestamp"])
        return passed.append_column("topic", topics)

    sink = KafkaTopic("none", transactional=True)
    return use_case(topic="{tenant}.all", sink=sink, guarantee="exactly-once", name="copy")(copies)


def _filled(config: Mapping[str, str], names: Sequence[str], records: int) -> dict[str, set[bytes]]:
    producer = _producer(config)
    sent: dict[str, set[bytes]] = {name: set() for name in names}
    for number in range(records):
        name = names[number % len(names)]
        value = b"%d " % number
        sent[name].add(value)
        # Keys are few, so that the partition is chosen here.
        partition = number // len(names) % PARTITIONS
        record = (value.ljust(SIZE_BYTES, b"x"), name.encode(), partition)
        put(producer, lambda: False, "shared.all", *record)
    assert producer.flush(120) == 0
    return sent


def _drive(bench: Bench, records: int) -> float:
    for stream in bench.store.registry.streams():
        if stream.id.tenant == "shared" and bench.done:
            places = {f"shared.all[{number}]": 0 for number in range(PARTITIONS)}
            bench.store.progress.seek(stream.id, places, stream.topic_id)
    return bench.until_done(records)


def _verify(
    config: Mapping[str, str], ending: str, sent: Mapping[str, set[bytes]], rounds: int
) -> None:
    """Each tenant's topic has its records, each once a round, and nobody else's."""
    consumer = Consumer({**consumer_config(config, PROFILES["large"]), "group.id": "verify"})
    consumer.assign([TopicPartition(f"{name}{ending}", 0, 0) for name in sent])
    seen: dict[str, Counter[bytes]] = {name: Counter() for name in sent}
    ended = 0
    while ended < len(sent):
        for message in consumer.consume(10_000, 0.2):
            if message.error() is None:
                name = message.topic().removesuffix(ending)
                assert message.key() == name.encode(), "a record of another tenant"
                seen[name][message.value().partition(b"x")[0]] += 1
            else:
                ended += 1
    consumer.close()
    for name, values in sent.items():
        assert seen[name] == Counter(dict.fromkeys(values, rounds)), f"{name}{ending}"
