"""An open-loop load, and a probe that sees when each record is durable: the same for everybody.

A generator that waits for a slow system hides its delays, so a record's time is when it was meant
to be sent, whatever came between. A system that times itself can flatter itself, so every contender
writes one row a record into a table of SQLite, and a process of its own polls that table and stamps
each row with the moment it first saw it, committed. The load is a process of its own too: a driver
that is busy must not slow down what is sent to it.

Rows of topics that nobody asks the delay of (a whale's) are only counted. At the end all rows are
counted by topic: what was lost, and what is there twice.
"""

from __future__ import annotations

import math
import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from benchmarks.cpu import Cpu, counted
from headrace.connectors.kafka import producer_config

#: columns every contender's table has
COLUMNS = {"topic": "text", "at": "bigint", "sent_ms": "bigint", "score": "bigint"}
TABLE = "results"
#: time for the processes to start before the first record is meant to be sent
_START_S = 3.0
_POLL_S = 0.01
#: how long the last records may take after the load has ended
_LATE_S = 240.0


def rows_of(records: pa.Table, scores: Sequence[int]) -> pa.Table:
    """What a handler of ours returns: a row of the table for each record."""
    return pa.table(
        {
            "topic": records["topic"],
            "at": records["offset"],
            "sent_ms": pc.cast(records["timestamp"], pa.int64()),
            "score": pa.array(scores, pa.int64()),
        }
    )


def no_key(_number: int) -> None:
    """Of no record."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Some topics that get records at the same rate."""

    topics: tuple[str, ...]
    #: records a second of each topic
    rate_per_s: float
    #: value of record ``number`` (from 0) of a topic, sent so many seconds after the start; a
    #: function of a module, since the load runs in its own process
    value: Callable[[str, int, float], bytes]
    #: (second, factor) in order, the first of second 0: from then on so many times the rate
    steps: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    #: key of record ``number`` of a topic, a function of a module as well
    key: Callable[[int], bytes | None] = no_key


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, for how long."""

    config: Mapping[str, str]
    feeds: tuple[Feed, ...]
    seconds: float
    #: topics whose rows are only counted, and not waited for
    unwatched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Total:
    """What is in the table of one topic when all is over."""

    rows: int
    distinct: int
    first: int
    last: int

    @property
    def lost(self) -> int:
        """Records missing below the last one that is there."""
        return self.last + 1 - self.distinct

    @property
    def repeats(self) -> int:
        """Rows more than records."""
        return self.rows - self.distinct


@dataclass(frozen=True, slots=True)
class Seen:
    """What load and probe saw of one run; seconds are since the first record was meant to be sent.

    The four columns are of the watched records, each at its first appearance.
    """

    topics: np.ndarray
    offsets: np.ndarray
    sent_s: np.ndarray
    seen_s: np.ndarray
    #: (second, rows of topics that are not watched)
    pace: list[tuple[float, int]]
    totals: Mapping[str, Total]
    #: records sent to each topic by the load
    sent: Mapping[str, int]
    #: when the contender was started; negative
    started_s: float
    #: the moment from which all these seconds count, in seconds since 1970
    began_s: float
    #: what was used from the contender's start to the end
    cpu: Cpu

    def delays(self, from_s: float, until_s: float) -> dict[str, Any]:
        """Quantiles over the watched records that were meant to be sent in ``[from, until)``."""
        chosen = (self.sent_s >= from_s) & (self.sent_s < until_s)
        delays_s = (self.seen_s - self.sent_s)[chosen]
        if not len(delays_s):
            return {"measured": 0, "p50_s": math.nan, "p99_s": math.nan, "max_s": math.nan}
        p50, p99, most = (round(float(one), 3) for one in np.quantile(delays_s, [0.5, 0.99, 1.0]))
        return {"measured": len(delays_s), "p50_s": p50, "p99_s": p99, "max_s": most}

    def service(self, until_s: float) -> dict[str, float]:
        """Share of each watched topic's records sent before ``until_s`` and done by then."""
        sent = _counted(self.topics[self.sent_s < until_s])
        done = _counted(self.topics[(self.sent_s < until_s) & (self.seen_s <= until_s)])
        return {topic: done.get(topic, 0) / number for topic, number in sent.items()}


def jain(shares: Collection[float]) -> float:
    """Jain's index of fairness: 1 is even, 1/n is all for one (Jain, Chiu, Hawe 1984)."""
    values = np.array(list(shares), dtype=float)
    if not len(values) or not values.any():
        return 0.0
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


class Unfinished(Exception):
    """Not all records had their effect long after the last one was sent."""


def watched(
    path: Path,
    load: Load,
    start: Callable[[], Callable[[], object]],
    more: Callable[[float], bool] = lambda _: False,
) -> Seen:
    """Send beside a contender, until all watched records are there.

    Args:
        path: the database with the contender's table.
        load: what to send.
        start: starts the contender, once load and probe are ready; returns what it does in this
            thread, which is called all the time.
        more: whether to go on, though all is there; given the seconds since the start.
    """
    context = multiprocessing.get_context("spawn")
    shared = _Shared(context)
    sender = context.Process(target=_send, args=(load, shared), daemon=True)
    observer = context.Process(
        target=_observe, args=(str(path), load.unwatched, shared), daemon=True
    )
    for process in (sender, observer):
        process.start()
        assert shared.ready.acquire(timeout=120), "load and probe did not start"
    began = shared.begin()
    started_s = time.time() - began
    sent: dict[str, int] | None = None
    with counted() as cpu:
        turn = start()
        while True:
            turn()
            elapsed = time.time() - began
            if sent is None:
                sent = None if shared.sent.empty() else shared.sent.get()
                assert sent is not None or sender.is_alive(), "the load died"
                continue
            expected = sum(number for topic, number in sent.items() if topic not in load.unwatched)
            if shared.rows.value >= expected and not more(elapsed):
                break
            assert observer.is_alive(), "the observer died"
            if elapsed >= load.seconds + _LATE_S:
                raise Unfinished(f"{shared.rows.value} of {expected} records in {elapsed:.0f} s")
    shared.stop.set()
    columns, pace, totals = shared.answer.get(timeout=120)
    for process in (sender, observer):
        process.join(timeout=30)
    return Seen(
        *columns,
        pace=pace,
        totals=totals,
        sent=sent,
        started_s=started_s,
        began_s=began,
        cpu=cpu,
    )


def verify(seen: Seen, unwatched: Collection[str] = (), holes: Collection[str] = ()) -> int:
    """Refuse losses: all of the watched must be there, and no hole in the others.

    Args:
        seen: a run.
        unwatched: topics that need not have been read to their end.
        holes: topics of which records may be elsewhere, in the dead letters.

    Returns:
        Rows more than records.
    """
    for topic, number in seen.sent.items():
        if topic in unwatched:
            continue
        total = seen.totals.get(topic)
        assert total is not None, topic
        assert total.distinct == number, (topic, number, total)
    for topic, total in seen.totals.items():
        assert topic in seen.sent, topic
        if topic not in holes:
            assert (total.first, total.lost) == (0, 0), (topic, total)
    return sum(total.repeats for total in seen.totals.values())


@contextmanager
def table(folder: str) -> Iterator[Path]:
    """A database with the table, for a contender that does not make its own."""
    path = Path(folder) / "results.db"
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    setup = sqlite3.connect(path)
    setup.execute("PRAGMA journal_mode=WAL")
    setup.execute(f"CREATE TABLE {TABLE} ({columns})")
    setup.commit()
    setup.close()
    yield path


def backlog(
    config: Mapping[str, str],
    topic: str,
    records: int,
    value: bytes,
    key: Callable[[int], bytes | None] = no_key,
) -> None:
    """Put so many records of one value into a topic, and wait until all are acknowledged.

    Args:
        config: client properties.
        topic: where to.
        records: how many.
        value: that of each.
        key: that of a record, by its number.
    """
    producer = Producer(
        {**producer_config(config), "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value=value, key=key(number), partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{left} records were not acknowledged"


# --- what runs in processes of its own -------------------------------------------------------


class _Shared:
    """What the processes and this one share."""

    def __init__(self, context: Any) -> None:
        self.ready = context.Semaphore(0)
        self.stop = context.Event()
        self._began = context.Value("d", 0.0)
        #: distinct watched rows seen so far
        self.rows = context.Value("q", 0)
        self.answer = context.Queue()
        self.sent = context.Queue()

    def begin(self) -> float:
        """Say when the first record is meant to be sent: soon."""
        self._began.value = time.time() + _START_S
        return float(self._began.value)

    def began(self) -> float:
        """Wait until it was said, in another process."""
        self.ready.release()
        while not self._began.value:
            time.sleep(_POLL_S)
        return float(self._began.value)


def _send(load: Load, shared: _Shared) -> None:
    feeds = load.feeds
    producer = Producer({**producer_config(load.config), "linger.ms": 2})
    began = shared.began()
    sent = dict.fromkeys([topic for feed in feeds for topic in feed.topics], 0)
    schedules = [_Schedule(feed, load.seconds) for feed in feeds]
    while (elapsed := time.time() - began) < load.seconds:
        for feed, schedule in zip(feeds, schedules, strict=True):
            for number, at_s in schedule.due(elapsed):
                topic = feed.topics[number % len(feed.topics)]
                value = feed.value(topic, sent[topic], at_s)
                meant_ms = int((began + at_s) * 1000)
                key = feed.key(sent[topic])
                producer.produce(topic, value=value, key=key, partition=0, timestamp=meant_ms)
                sent[topic] += 1
        producer.poll(0.002)
    assert producer.flush(30) == 0
    shared.sent.put(sent)


class _Schedule:
    """When each record of a feed is meant to be sent: its rate, added up, and the other way."""

    def __init__(self, feed: Feed, seconds: float) -> None:
        starts, factors = zip(*feed.steps, strict=True)
        rates = np.array(factors) * feed.rate_per_s * len(feed.topics)
        self._at_s = np.array([*starts, max(seconds, starts[-1]) + 1.0])
        self._sent = np.concatenate([[0.0], np.cumsum(np.diff(self._at_s) * rates)])
        self._next = 0

    def due(self, elapsed_s: float) -> Iterator[tuple[int, float]]:
        """Records that are meant to be sent by now and were not named before, with their time."""
        until = math.ceil(np.interp(elapsed_s, self._at_s, self._sent))
        numbers = np.arange(self._next, until)
        self._next = max(self._next, until)
        times_s = np.interp(numbers, self._sent, self._at_s)
        return zip(numbers.tolist(), times_s.tolist(), strict=True)


def _observe(path: str, unwatched: frozenset[str], shared: _Shared) -> None:
    _Probe(path, unwatched, shared.began(), shared).run()


@dataclass
class _Probe:
    """Polls the table."""

    path: str
    unwatched: frozenset[str]
    began: float
    shared: _Shared
    _known: set[tuple[str, int]] = field(default_factory=set)
    _rows: list[tuple[str, int, float, float]] = field(default_factory=list)
    _pace: list[tuple[float, int]] = field(default_factory=list)

    def run(self) -> None:
        """Poll until told to stop; answer with what was seen."""
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)
        last, watched_rows = 0, 0
        while True:
            ending = self.shared.stop.is_set()
            upto, rows = self._after(connection, last)
            self._take(rows, time.time() - self.began)
            watched_rows += len(rows)
            if upto != last:
                self._pace.append((time.time() - self.began, upto - watched_rows))
            elif ending:
                break
            last = upto
            time.sleep(_POLL_S)
        totals = connection.execute(
            f"SELECT topic, count(*), count(DISTINCT at), min(at), max(at) FROM {TABLE} "
            "GROUP BY topic"
        ).fetchall()
        columns = [np.array(column) for column in zip(*self._rows, strict=True)] or [
            np.array([])
        ] * 4
        self.shared.answer.put((columns, self._pace, {row[0]: Total(*row[1:]) for row in totals}))

    def _after(
        self, connection: sqlite3.Connection, last: int
    ) -> tuple[int, list[tuple[str, int, int]]]:
        # Both questions are about one moment, or a row could be passed over.
        connection.execute("BEGIN")
        (upto,) = connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {TABLE}").fetchone()
        marks = ", ".join("?" * len(self.unwatched))
        rows = connection.execute(
            f"SELECT topic, at, sent_ms FROM {TABLE} WHERE rowid > ? AND topic NOT IN ({marks})",
            (last, *sorted(self.unwatched)),
        ).fetchall()
        connection.execute("COMMIT")
        return upto, rows

    def _take(self, rows: list[tuple[str, int, int]], now_s: float) -> None:
        for topic, at, sent_ms in rows:
            if (topic, at) not in self._known:
                self._known.add((topic, at))
                self._rows.append((topic, at, sent_ms / 1000 - self.began, now_s))
        self.shared.rows.value = len(self._rows)


def _counted(topics: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(topics, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))
