"""What all benchmarks share: a broker, topics with records, a driver to measure, and result files.

A contender is timed only in turn with the others, in the same process and session, and its output
is counted. Nothing here knows what is measured.
"""

from __future__ import annotations

import gc
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.samples import of_spark
from headrace.connectors.by_topic import ReadersByTopic, open_log
from headrace.connectors.kafka import (
    KafkaDeadLettersFactory,
    KafkaLog,
    KafkaReaderFactory,
    create_topics,
    producer_config,
)
from headrace.cycle.driver import Driver, DriverParts
from headrace.embedded import EmbeddedKafka, EmbeddedSparkCluster
from headrace.embedded.jars import jars
from headrace.model.plans import Limits
from headrace.model.records import Deployment, Move
from headrace.model.streams import Tenant
from headrace.model.topic_names import connection_of
from headrace.model.waves import Wave
from headrace.policies.elasticity import SlotLimits
from headrace.ports import Connections, NoRegistry, SchemasFactory, Server, Site, Store, WaveResult
from headrace.process.clock import SystemClock
from headrace.process.memory import collect_apart
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.spark.session import build_session
from headrace.store import SqlPositionsFactory, SqlTenantsFactory, open_store
from headrace.use_cases import UseCase

RESULTS = Path(__file__).parent / "results"
#: a list of nothing but numbers, as `json` spreads it over lines
_NUMBERS = re.compile(r"\[[-+.\deE,\s]*(?:(?:null|NaN)[-+.\deE,\s]*)*\]")


@contextmanager
def broker() -> Iterator[dict[str, str]]:
    """A fresh broker; yields client properties."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedKafka(Path(folder) / "kafka", heap_mb=1024) as kafka,
    ):
        yield {"bootstrap.servers": kafka.bootstrap_servers}


@contextmanager
def session(*more_jars: str, slots: int = 2) -> Iterator[SparkSession]:
    """Spark on so many slots, with its own Kafka source, and more, on its class path."""
    # Over a hundred topics with `maxOffsetsPerTrigger`, a query's thread died of a stack overflow
    # in a regular expression, twice; which one is not known. With this it has not been seen.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-Xss16m")
    sets = ("spark-kafka", *more_jars)
    class_path = ",".join(str(path) for name in sets for path in jars(name))
    options = {
        "spark.jars": class_path,
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    made = build_session("headrace benchmark", f"local[{slots}]", options, {})
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def session_on_executors(executors: int) -> Iterator[SparkSession]:
    """Spark on a standalone cluster of this machine: executors of one core each, all there.

    Once in a process, and before any other session: what lets it join is in the environment.
    """
    options = {
        "spark.executor.cores": "1",
        "spark.cores.max": str(executors),
        "spark.executor.memory": "512m",
        "spark.driver.memory": "1g",
    }
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedSparkCluster(folder, cores=executors, memory=f"{executors}g") as cluster,
    ):
        os.environ.update(cluster.environment)
        made = build_session("headrace benchmark", cluster.master_url, options, {})
        try:
            await_executors(made, executors)
            yield made
        finally:
            made.stop()


def await_executors(spark: SparkSession, wanted: int) -> None:
    """Wait until so many executors have joined."""
    deadline_s = time.monotonic() + 120
    while (found := of_spark(spark)["executors"]) < wanted:
        assert time.monotonic() < deadline_s, f"{found} of {wanted} executors"
        time.sleep(0.2)


def topics(config: Mapping[str, str], names: Sequence[str]) -> None:
    """Make one-partition topics."""
    create_topics(config, dict.fromkeys(names, 1))


def fill(config: Mapping[str, str], names: Sequence[str], records: int, size_bytes: int) -> None:
    """Put so many records of one value into each topic, and wait until all are acknowledged."""
    fill_with(config, names, records, [os.urandom(size_bytes // 2).hex().encode()[:size_bytes]])


def fill_with(
    config: Mapping[str, str], names: Sequence[str], records: int, values: Sequence[bytes]
) -> None:
    """Put so many records into each topic, of these values one after the other, over all topics."""
    producer = Producer(
        {**producer_config(config), "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    for number in range(records):
        for lane, name in enumerate(names):
            value = values[(lane * records + number) % len(values)]
            while True:
                try:
                    producer.produce(name, value=value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{left} records were not acknowledged"


@dataclass(frozen=True, slots=True)
class EndedWave:
    """What a benchmark tells of a wave: how long it was to take, took, and what was in it."""

    at_s: float
    predicted_s: float
    seconds: float
    slices: int
    records: int
    failed: bool


def _ended(result: WaveResult) -> EndedWave:
    wave = result.wave
    return EndedWave(
        at_s=time.time(),
        predicted_s=sum(bin_.predicted_s for bin_ in wave.bins),
        seconds=result.seconds,
        slices=sum(len(bin_.slices) for bin_ in wave.bins),
        records=sum(receipt.records for receipt in result.receipts),
        failed=result.error is not None or any(receipt.error for receipt in result.receipts),
    )


class Counter:
    """An engine that counts the tasks it is given, and keeps what became of each wave."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self.bins = 0
        self.ended: list[EndedWave] = []

    def start(self, wave: Wave) -> None:
        self.bins += len(wave.bins)
        self._engine.start(wave)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        results = self._engine.finished(timeout_s)
        self.ended += [_ended(result) for result in results]
        return results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@dataclass
class Bench:
    """A driver of one use case over many tenants."""

    driver: Driver
    store: Store
    engine: SparkEngine
    connections: Connections
    counter: Counter

    @property
    def path(self) -> Path:
        """The database, which holds the results as well."""
        return Path(self.connections.database_url.removeprefix("sqlite:///"))

    @property
    def bins_started(self) -> int:
        """Tasks that the driver has started."""
        return self.counter.bins

    def until_done(self, records: int, timeout_s: float = 300.0) -> float:
        """Turn until so many more records are committed; return the seconds it took."""
        before = self.done
        began = time.perf_counter()
        while self.done - before < records:
            self.driver.turn()
            assert time.perf_counter() - began < timeout_s, "the driver did not get through"
        took = time.perf_counter() - began
        assert self.done - before == records, "more records than were sent"
        return took

    def rewind(self) -> None:
        """Send every stream back to the beginning of its one lane."""
        begun = {position.lane.stream for position in self.store.progress.load_positions()}
        for stream in self.store.registry.streams():
            if stream.id in begun:
                # As 'streams seek' does it: in the same topic what records cost stays known.
                self.store.progress.seek(
                    stream.id, {f"{stream.id.tenant}.visits[0]": 0}, stream.topic_id
                )

    @property
    def done(self) -> int:
        """Records committed so far."""
        return sum(meter.records_total for meter in self.driver.reporter.meters.values())


@contextmanager
def driver_of(  # noqa: PLR0913, PLR0917 - all that a benchmark may want of its service
    spark: SparkSession,
    config: Mapping[str, str],
    use_case: UseCase,
    tenants: Sequence[str],
    limits: Limits | None = None,
    slots: SlotLimits | None = None,
    schemas: SchemasFactory | None = None,
    beside: Sequence[UseCase] = (),
    servers: Mapping[str, Server] | None = None,
    **settings: Any,
) -> Iterator[Bench]:
    """A driver with a fresh store; topics must be there. ``settings`` go into the deployment.

    Use cases ``beside`` the one that is measured run at the same driver; sinks know ``servers``.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        url = f"sqlite:///{folder}/store.db"
        store = open_store(url)
        connections = Connections(dict(config), url, warehouse=folder, servers=servers or {})
        deployed = [
            Deployment(
                made.name,
                "bench.py",
                "0" * 64,
                made.topic,
                bad_record=made.bad_record,
                **(settings if made is use_case else {}),
            )
            for made in (use_case, *beside)
        ]
        store.registry.deploy_together(deployed)
        for name in tenants:
            store.registry.add_tenant(Tenant(name))
        letters = KafkaDeadLettersFactory()
        in_kafka = connection_of(use_case.topic) is None
        readers = KafkaReaderFactory() if in_kafka else ReadersByTopic()
        clients = (readers, SqlPositionsFactory(), letters, schemas or NoRegistry())
        tools = TaskTools(connections, *clients, SqlTenantsFactory())
        engine = SparkEngine(spark, tools)
        counter = Counter(engine)
        log = KafkaLog(config) if in_kafka else open_log(connections)
        parts = DriverParts(store, log, counter, letters.open(connections), SystemClock())
        driver = Driver(parts, f"bench-{time.time_ns():x}", limits or Limits(), slots)
        for made, deployment in zip((use_case, *beside), deployed, strict=True):
            if made.sink is not None:
                made.sink.prepare(Site(connections, store.positions))
            engine.take(made, deployment)
            driver.take(made, deployment)
        engine.warm_up()
        collect_apart()
        try:
            yield Bench(driver, store, engine, connections, counter)
        finally:
            engine.close()
            log.close()
            store.close()
            gc.unfreeze()


def write(name: str, result: Mapping[str, Any]) -> Path:
    """Keep the raw numbers."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    machine = {"cores": os.cpu_count(), "at": time.strftime("%Y-%m-%d")}
    text = json.dumps({"machine": machine, **result}, indent=1)
    path.write_text(_NUMBERS.sub(_on_one_line, text) + "\n", encoding="utf-8")
    return path


def _on_one_line(numbers: re.Match[str]) -> str:
    return " ".join(numbers.group().split())


def rate_of_the_second_half(bench: Bench, seconds: float) -> float:
    """Records a second in the second half of so many seconds, once a first one is done."""
    while not bench.done:
        bench.driver.turn()
    began_s = time.monotonic()
    halves = [(_until(bench, began_s + part * seconds / 2), bench.done) for part in (1, 2)]
    (first_s, first), (last_s, last) = halves
    return round((last - first) / (last_s - first_s), 1)


def _until(bench: Bench, until_s: float) -> float:
    """Turn until then, and to the end of a wave; returns when that was."""
    ended = len(bench.counter.ended)
    while time.monotonic() < until_s or len(bench.counter.ended) == ended:
        bench.driver.turn()
    return time.monotonic()


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Median of the ratios of paired rounds, with the smallest and the largest."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


class StandingPositions:
    """Lanes that stand where their slices begin."""

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """All of them move."""
        return [True] * len(moves)
