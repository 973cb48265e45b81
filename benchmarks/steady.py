"""Delay at a steady 500 records a second over 1,000 topics, against Structured Streaming.

From the activity (the record's Kafka timestamp) to its row in SQL, committed and visible to another
process. Both contenders write one row a record into SQLite: ours through the SQL sink, exactly
once, with the positions in the same transaction; Structured Streaming through `foreachBatch`, one
transaction a batch, with `subscribePattern` and `kafka.fetch.max.wait.ms=5` (without it, it needs
many times as long). They take turns, in the same Spark session, on the same broker, under the same
open-loop load: a record's time is when it was meant to be sent. An observer process polls the table
and stamps every new row with the moment it sees it, so neither contender keeps its own time.

CPU seconds are counted from the end of the warm-up until all rows are there. The sender is a thread
of the driver's process, beside both contenders.
"""

from __future__ import annotations

import multiprocessing
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Message, Producer

from benchmarks.cpu import Cpu, counted, line
from benchmarks.harness import broker, driver_of, session, topics, write
from headrace.connectors.kafka import delivery_error, producer_config
from headrace.model.plans import Limits
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

LANES = 1000
RATE_PER_S = 500
WARM_UP_S = 15.0
MEASURED_S = 45.0
ROUNDS = 2
RATIO_TARGET = 0.05
P99_TARGET_S = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What the observer saw of one run."""

    delays_s: list[float]
    rows: int
    distinct: int
    cpu: Cpu = field(default_factory=Cpu)


def main(_args: list[str]) -> None:
    """Run and write `results/steady.json`."""
    runs: dict[str, list[dict[str, Any]]] = {"ours": [], "structured_streaming": []}
    with broker() as config, session() as spark:
        for number in range(ROUNDS):
            order = [("ours", _ours), ("structured_streaming", _theirs)]
            for name, contender in order if number % 2 == 0 else reversed(order):
                prefix = f"{name[0]}{number}"
                names = [f"{prefix}-{lane}.visits" for lane in range(LANES)]
                topics(config, names)
                runs[name].append(figures(contender(spark, config, prefix, names)))
                print(name, runs[name][-1], flush=True)
    ratios = [
        mine["p99_s"] / his["p99_s"]
        for mine, his in zip(runs["ours"], runs["structured_streaming"], strict=True)
    ]
    write("steady", {"lanes": LANES, "rate_per_s": RATE_PER_S, **runs, "p99_ratios": ratios})
    worst = max(run["p99_s"] for run in runs["ours"])
    print(
        f"p99 {worst:.2f} s (target {P99_TARGET_S}), {max(ratios):.3f} of Structured Streaming's "
        f"(target {RATIO_TARGET})"
    )
    for name, its_runs in runs.items():
        print(f"{name}: " + "; ".join(line(run["cpu_cores"]) for run in its_runs))


def figures(seen: Seen) -> dict[str, Any]:
    """What is told of a run."""
    p50, p99, most = np.quantile(np.array(seen.delays_s), [0.5, 0.99, 1.0])
    return {
        "p50_s": round(float(p50), 3),
        "p99_s": round(float(p99), 3),
        "max_s": round(float(most), 3),
        "measured": len(seen.delays_s),
        "rows": seen.rows,
        "distinct": seen.distinct,
        **seen.cpu.told(),
    }


# --- load and observer -----------------------------------------------------------------------


class Sends(Protocol):
    """What sends beside a contender."""

    seconds: float
    refused: list[str]

    @property
    def sent(self) -> int:
        """Records that were taken."""

    def start(self) -> None:
        """Begin."""

    def is_alive(self) -> bool:
        """Whether it still sends."""


class Load(threading.Thread):
    """Sends records at a fixed pace, stamped with the moment they were meant to be sent.

    What counts is what Kafka acknowledged: one that it refused is nobody's to keep.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        names: list[str],
        seconds: float = WARM_UP_S + MEASURED_S,
        values: Sequence[bytes] = (b"x" * 300,),
    ) -> None:
        """Send to ``names`` in turn, these values one after the other."""
        super().__init__(name="load", daemon=True)
        self._producer = Producer({**producer_config(config), "linger.ms": 2})
        self._names = names
        self._values = values
        self.seconds = seconds
        self._tried = 0
        self.sent = 0
        self.refused: list[str] = []

    def run(self) -> None:
        """Send until the time is over."""
        began = time.time()
        while (elapsed := time.time() - began) < self.seconds:
            while self._tried < elapsed * RATE_PER_S:
                meant_ms = int((began + self._tried / RATE_PER_S) * 1000)
                # A stride that shares no factor with the number of lanes spreads them evenly.
                name = self._names[self._tried * 7 % len(self._names)]
                value = self._values[self._tried % len(self._values)]
                self._producer.produce(
                    name, value=value, partition=0, timestamp=meant_ms, on_delivery=self._told
                )
                self._tried += 1
            self._producer.poll(0.002)
        assert self._producer.flush(30) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        problem = delivery_error(error, message)
        if problem is None:
            self.sent += 1
        else:
            self.refused.append(f"{message.topic()}: {problem}")


def _observe(path: str, table: str, stop: Any, answer: Queue[Seen], after_s: float) -> None:
    delays: list[float] = []
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    last = 0
    while True:
        ending = stop.is_set()
        rows = connection.execute(
            f"SELECT rowid, sent_ms FROM {table} WHERE rowid > ? ORDER BY rowid", (last,)
        ).fetchall()
        now = time.time()
        if rows:
            last = rows[-1][0]
            delays += [now - sent / 1000 for _, sent in rows if sent / 1000 >= after_s]
        if ending and not rows:
            break
        time.sleep(0.01)
    total, distinct = connection.execute(
        f"SELECT count(*), count(DISTINCT topic || ':' || at) FROM {table}"
    ).fetchone()
    answer.put(Seen(delays, total, distinct))


def watched(
    path: Path, table: str, load: Sends, turn: Callable[[], object], warm_up_s: float = WARM_UP_S
) -> Seen:
    """Run the load beside a contender, whose ``turn`` is called until all rows are there."""
    processes = multiprocessing.get_context("spawn")
    stop, answer = processes.Event(), processes.Queue()
    after_s = time.time() + warm_up_s
    observer = processes.Process(
        target=_observe, args=(str(path), table, stop, answer, after_s), daemon=True
    )
    observer.start()
    load.start()
    count = sqlite3.connect(path, timeout=30)
    deadline = time.time() + load.seconds + 180
    next_count = 0.0
    cpu: Cpu | None = None
    stack = ExitStack()
    while True:
        turn()
        if cpu is None and time.time() >= after_s:
            cpu = stack.enter_context(counted())
        if load.is_alive() or time.time() < next_count:
            continue
        next_count = time.time() + 0.25
        (rows,) = count.execute(f"SELECT count(*) FROM {table}").fetchone()
        if rows >= load.sent:
            break
        assert time.time() < deadline, (
            f"{rows} of {load.sent} rows after three minutes, refused: {load.refused}"
        )
    stack.close()
    stop.set()
    assert cpu is not None, "it ended before it was warm"
    seen: Seen = replace(answer.get(timeout=60), cpu=cpu)
    observer.join(timeout=10)
    count.close()
    assert seen.rows == seen.distinct == load.sent, (seen.rows, seen.distinct, load.sent)
    if load.refused:
        print("refused by Kafka:", "; ".join(load.refused[:3]), len(load.refused))
    return seen


# --- contenders ------------------------------------------------------------------------------


def _row(table: pa.Table, _context: Any) -> pa.Table:
    return pa.table(
        {
            "topic": table["topic"],
            "at": table["offset"],
            "sent_ms": pc.cast(table["timestamp"], pa.int64()),
        }
    )


def _ours(spark: Any, config: dict[str, str], prefix: str, names: list[str]) -> Seen:
    rows = SqlTable("results", columns={"topic": "text", "at": "bigint", "sent_ms": "bigint"})
    made = use_case(topic="{tenant}.visits", sink=rows, guarantee="exactly-once", name="keep")(_row)
    tenants = [f"{prefix}-{lane}" for lane in range(LANES)]
    with driver_of(spark, config, made, tenants, Limits()) as bench:
        bench.driver.turn()
        return watched(bench.path, "results", Load(config, names), bench.driver.turn)


def _theirs(spark: Any, config: dict[str, str], prefix: str, names: list[str]) -> Seen:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        path = Path(folder) / "results.db"
        setup = sqlite3.connect(path)
        setup.execute("PRAGMA journal_mode=WAL")
        setup.execute("CREATE TABLE results (topic TEXT, at BIGINT, sent_ms BIGINT)")
        setup.commit()
        setup.close()

        def keep(frame: Any, _batch: int) -> None:
            rows = frame.collect()
            connection = sqlite3.connect(path, timeout=30)
            connection.execute("PRAGMA synchronous=FULL")
            connection.executemany("INSERT INTO results VALUES (?, ?, ?)", rows)
            connection.commit()
            connection.close()

        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", config["bootstrap.servers"])
            .option("subscribePattern", f"{prefix}-.*[.]visits")
            .option("startingOffsets", "earliest")
            .option("kafka.fetch.max.wait.ms", "5")
            .load()
            .selectExpr("topic", "offset", "CAST(timestamp AS DOUBLE) * 1000")
            .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
            .foreachBatch(keep)
            .start()
        )
        try:
            assert len(names) == LANES
            return watched(path, "results", Load(config, names), lambda: time.sleep(0.05))
        finally:
            query.stop()
