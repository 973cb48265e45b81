"""Streams of Kinesis: delay at 500 records a second over 200 shards, and a backlog read through.

Kinesis is played by kinesis-mock, a program of one thread that has the same two cores as all else.
So seconds are its own as much as ours, and nothing here is a speed of Amazon's service.

The delay is from the moment at which a record was meant to be put until another process sees its
row in SQLite, written exactly once, beside the positions. A process puts records ten times a
second, whatever happens. Each visit says how much it took of what a shard gives in a second, five
answers or 2 MB; what that comes to is told, since quick is nobody who reads more than there is.

The backlog goes all the way into committed positions, into a sink that keeps nothing. A loop of
boto3 in as many processes as Spark has slots, each of as many threads as a task of ours, only
counts: it reads each shard until the service says that no more is behind, and waits a fifth of a
second between two answers of a shard. Both take turns, and read all of it each time.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks.contenders import passing
from benchmarks.cpu import counted, line
from benchmarks.harness import Bench, broker, driver_of, ratio, session, write
from benchmarks.steady import figures, watched
from headrace.connectors.by_topic import open_log
from headrace.connectors.kinesis.clients import address_of, client_of
from headrace.connectors.kinesis.reader import _AT_ONCE as THREADS
from headrace.demo.typical import listen
from headrace.embedded import EmbeddedKinesis
from headrace.ports import Server, WaveResult
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

TENANTS = 4
RATE_PER_S = 500
P99_TARGET_S = 2.0
BARE_TARGET = 0.8
SIZE_BYTES = 300
SLOTS = 2
WARM_UP_ROUNDS = 2
CONNECTION: Final = "kinesis"
_TOPIC: Final = f"{CONNECTION}:{{tenant}}.visits"
_PUTS_EVERY_S = 0.1
_MOST_PUT, _MOST_READ = 500, 10_000
#: a shard gives five answers a second
_BETWEEN_ANSWERS_S = 0.2


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    shards: int = 200
    warm_up_s: float = 15.0
    measured_s: float = 45.0
    #: of the backlog
    records: int = 50_000
    rounds: int = 3


QUICK = Size(8, 5.0, 5.0, 4_000, 1)


def main(args: list[str]) -> None:
    """Run and write `results/kinesis.json`."""
    quick = "--quick" in args
    size = QUICK if quick else Size()
    with broker() as config, session(slots=SLOTS) as spark, _kinesis() as server:
        steady = _steady(spark, config, server, size)
        quota = steady["share_of_the_quota"]
        print(
            f"p99 {steady['p99_s']} s (target {P99_TARGET_S}); of what a shard gives "
            f"{quota['mean']} was taken, {quota['most']} of the one that was read most; "
            f"{line(steady['cpu_cores'])}"
        )
        drain = _drain(spark, config, server, size)
    if not quick:
        write("kinesis", {"shards": size.shards, "steady": steady, "drain": drain})
    print(
        f"drain {drain['speed_over_bare']['median']:.2f} x a loop of boto3 (target {BARE_TARGET}); "
        f"ours {drain['ours_s']} s, the loop {drain['bare_s']} s; CPU seconds of ours "
        f"{drain['ours_cpu_s']}, of the loop {drain['bare_cpu_s']}"
    )


@contextmanager
def _kinesis() -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedKinesis(Path(folder) / "kinesis", durable=False) as started,
    ):
        yield Server(started.url, "local", "local")


def _client(server: Server) -> Any:
    return client_of(address_of(server, CONNECTION), CONNECTION)


def _streams(client: Any, prefix: str, shards: int) -> dict[str, str]:
    """Make a stream of each tenant; their names, by tenant."""
    names = {f"{prefix}{number}": f"{prefix}{number}.visits" for number in range(TENANTS)}
    for name in names.values():
        client.create_stream(StreamName=name, ShardCount=shards // TENANTS)
    for name in names.values():
        while _status(client, name) != "ACTIVE":
            time.sleep(0.05)
    return names


def _status(client: Any, name: str) -> str:
    told = client.describe_stream_summary(StreamName=name)
    return str(told["StreamDescriptionSummary"]["StreamStatus"])


def _put(client: Any, name: str, records: Sequence[tuple[int, bytes]]) -> None:
    """Put numbered records, spread over all shards."""
    for first in range(0, len(records), _MOST_PUT):
        made = [
            {"PartitionKey": hashlib.sha256(b"%d" % number).hexdigest(), "Data": data}
            for number, data in records[first : first + _MOST_PUT]
        ]
        told = client.put_records(StreamName=name, Records=made)
        assert not told["FailedRecordCount"], told


# --- delay -----------------------------------------------------------------------------------


class _Load:
    """A process that puts records at a fixed pace, which say when they were meant to be put."""

    def __init__(self, server: Server, names: Sequence[str], seconds: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.seconds = seconds
        self.refused: list[str] = []
        self._sent = context.Value("q", 0)
        given = (server, list(names), seconds, self._sent)
        self._process = context.Process(target=_send, args=given, daemon=True)

    @property
    def sent(self) -> int:
        """Records that were taken."""
        return int(self._sent.value)

    def start(self) -> None:
        """Begin."""
        self._process.start()

    def is_alive(self) -> bool:
        """Whether it still puts."""
        alive = self._process.is_alive()
        assert alive or self._process.exitcode == 0, "the load died"
        return alive


def _send(server: Server, names: Sequence[str], seconds: float, sent: Any) -> None:
    client = _client(server)
    began, tried = time.time(), 0
    while (elapsed := time.time() - began) < seconds:
        until = int(elapsed * RATE_PER_S)
        for lane, name in enumerate(names):
            numbers = [one for one in range(tried, until) if one % len(names) == lane]
            _put(client, name, [(one, _value(one, began)) for one in numbers])
        sent.value += until - tried
        tried = until
        time.sleep(max(0.0, began + elapsed + _PUTS_EVERY_S - time.time()))


def _value(number: int, began: float) -> bytes:
    return b"%d %d " % (number, int((began + number / RATE_PER_S) * 1000)) + b"x" * SIZE_BYTES


def _row(table: pa.Table, _context: Any) -> pa.Table:
    said = [value.split(b" ", 2) for value in table["value"].to_pylist()]
    return pa.table(
        {
            "topic": table["topic"],
            "at": pa.array([int(number) for number, _, _ in said], pa.int64()),
            "sent_ms": pa.array([int(sent_ms) for _, sent_ms, _ in said], pa.int64()),
        }
    )


@dataclass
class _Quota:
    """Of what each shard gives, how many seconds' worth visits took."""

    from_s: float
    spent_s: Counter[str] = field(default_factory=Counter)

    def add(self, result: WaveResult) -> None:
        """Take one wave that was just committed."""
        for receipt in result.receipts if time.time() >= self.from_s else ():
            if receipt.behind is not None:
                self.spent_s[receipt.slice.lane.name] += receipt.behind.spent_s

    def told(self, shards: int) -> dict[str, float]:
        """As shares of the time since then."""
        seconds = time.time() - self.from_s
        mean = sum(self.spent_s.values()) / shards / seconds
        return {"mean": round(mean, 3), "most": round(max(self.spent_s.values()) / seconds, 3)}


def _steady(spark: Any, config: Mapping[str, str], server: Server, size: Size) -> dict[str, Any]:
    rows = SqlTable("results", columns={"topic": "text", "at": "bigint", "sent_ms": "bigint"})
    made = use_case(topic=_TOPIC, sink=rows, guarantee="exactly-once", name="keep")(_row)
    with closing(_client(server)) as client:
        names = _streams(client, "s", size.shards)
    servers = {CONNECTION: server}
    with driver_of(spark, config, made, [*names], servers=servers) as bench:
        while _lanes(bench) < size.shards:
            bench.driver.turn()
        quota = _Quota(time.time() + size.warm_up_s)
        listen(bench.driver, quota.add)
        load = _Load(server, [*names.values()], size.warm_up_s + size.measured_s)
        seen = watched(bench.path, "results", load, bench.driver.turn, size.warm_up_s)
        return {**figures(seen), "share_of_the_quota": quota.told(size.shards)}


def _lanes(bench: Bench) -> int:
    return sum(len(held.lanes) for held in bench.driver.board.streams.values())


# --- backlog ---------------------------------------------------------------------------------


def _drain(spark: Any, config: Mapping[str, str], server: Server, size: Size) -> dict[str, Any]:
    with closing(_client(server)) as client:
        names = _streams(client, "d", size.shards)
        for lane, name in enumerate(names.values()):
            numbers = range(lane, size.records, TENANTS)
            _put(client, name, [(number, b"x" * SIZE_BYTES) for number in numbers])
        shards = [
            (name, shard["ShardId"])
            for name in names.values()
            for shard in client.list_shards(StreamName=name)["Shards"]
        ]
    taken: dict[str, list[float]] = {
        name: [] for name in ("ours_s", "bare_s", "ours_cpu_s", "bare_cpu_s")
    }
    made, servers = replace(passing(), topic=_TOPIC), {CONNECTION: server}
    spawned = multiprocessing.get_context("spawn")
    with (
        driver_of(spark, config, made, [*names], servers=servers) as bench,
        ProcessPoolExecutor(SLOTS, mp_context=spawned) as loops,
    ):
        contenders = {
            "ours": partial(_ours, bench, size.records),
            "bare": partial(_bare, loops, server, shards, size.records),
        }
        for number in range(size.rounds + WARM_UP_ROUNDS):
            for name in contenders if number % 2 else reversed(contenders):
                seconds, cpu_s = contenders[name]()
                if number >= WARM_UP_ROUNDS:
                    taken[f"{name}_s"].append(round(seconds, 3))
                    taken[f"{name}_cpu_s"].append(round(cpu_s, 2))
    return {
        "records": size.records,
        "bytes_per_record": SIZE_BYTES,
        **taken,
        "speed_over_bare": ratio(taken["bare_s"], taken["ours_s"]),
    }


def _ours(bench: Bench, records: int) -> tuple[float, float]:
    """Seconds, and CPU seconds of all but what plays Kinesis."""
    _rewind(bench)
    with counted() as cpu:
        took = bench.until_done(records)
    return took, sum(used for kind, used in cpu.seconds.items() if kind != "broker")


def _rewind(bench: Bench) -> None:
    """Send every stream back to where its shards began."""
    begun = {position.lane.stream for position in bench.store.progress.load_positions()}
    with closing(open_log(bench.connections, asks_once=True)) as log:
        for stream in bench.store.registry.streams():
            if stream.id in begun:
                topic = f"{CONNECTION}:{stream.id.tenant}.visits"
                beginnings = log.topics([topic])[topic].beginnings
                bench.store.progress.seek(stream.id, beginnings, stream.topic_id)


def _bare(
    loops: ProcessPoolExecutor, server: Server, shards: Sequence[tuple[str, str]], records: int
) -> tuple[float, float]:
    """The same of the loop."""
    began = time.perf_counter()
    parts = [loops.submit(_loop, server, shards[part::SLOTS]) for part in range(SLOTS)]
    told = [part.result() for part in parts]
    took = time.perf_counter() - began
    assert sum(seen for seen, _ in told) == records, told
    return took, sum(cpu_s for _, cpu_s in told)


def _loop(server: Server, shards: Sequence[tuple[str, str]]) -> tuple[int, float]:
    """Read shards by so many threads; how many records there were, and CPU seconds."""
    began = time.process_time()
    with closing(_client(server)) as client, ThreadPoolExecutor(THREADS) as threads:
        seen = sum(threads.map(partial(_read, client), shards))
    return seen, time.process_time() - began


def _read(client: Any, shard: tuple[str, str]) -> int:
    name, shard_id = shard
    iterator = client.get_shard_iterator(
        StreamName=name, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    seen = 0
    while True:
        told = client.get_records(ShardIterator=iterator, Limit=_MOST_READ)
        seen += len(told["Records"])
        if not told["MillisBehindLatest"]:
            return seen
        iterator = told["NextShardIterator"]
        time.sleep(_BETWEEN_ANSWERS_S)
