"""Quiet tenants beside a whale: what one tenant's flood costs the others, and what they cost it.

99 tenants get 10 records a second each. The whale has a million records waiting, and gets 1,000 a
second more. Every topic has one partition, the handler parses JSON (some 12 us a record), and each
record becomes a row in SQLite, at least once. Three runs of each contender: the quiet ones alone,
both, and the whale alone.

Structured Streaming runs the same function and writes the same rows through `foreachBatch`, one
query over all topics, with `kafka.fetch.max.wait.ms=5`: once as it is, and once with
`maxOffsetsPerTrigger`, which is what its guide says against floods.

With `--buckets` the same runs are of ours alone, with order by key and 16 buckets a lane: all that
the whale has is of one hot key, so of one of its buckets, and quiet ones have a hundred keys each.

A run with the whale counts only as long as it has a backlog. Repeats are counted, losses refused.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.cpu import line
from benchmarks.delays import (
    COLUMNS,
    TABLE,
    Feed,
    Load,
    Seen,
    Unfinished,
    backlog,
    jain,
    rows_of,
    table,
    verify,
    watched,
)
from benchmarks.harness import EndedWave, broker, driver_of, session, topics, write
from benchmarks.streaming import Query, batch_of
from benchmarks.waves import told
from headrace.model.streams import Order
from headrace.sinks import SqlTable
from headrace.use_cases import use_case

QUIET = 99
QUIET_RATE_PER_S = 10.0
WHALE_RATE_PER_S = 1000.0
LIMITED_OFFSETS = 20_000
BUCKETS = 16
RATIO_TARGET = 1.3
JAIN_TARGET = 0.95
WHALE_TARGET = 0.85
_VALUE = json.dumps(
    {
        "visitor": "v1234567",
        "page": "/products/shoes?id=17",
        "at": 1_700_000_000_123,
        "seconds": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3],
        "tags": {"campaign": "spring", "source": "mail", "medium": "link"},
        "agent": "Mozilla/5.0 (X11; Linux x86_64)",
    }
).encode()


@dataclass(frozen=True, slots=True)
class Scale:
    """How long, and how much."""

    backlog: int
    warm_up_s: float
    seconds: float


FULL = Scale(1_000_000, 8.0, 36.0)
QUICK = Scale(500_000, 4.0, 12.0)
#: not measured: a broker and a JVM that have just started spend both cores on compiling
_WARM_UP = Scale(200_000, 4.0, 16.0)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one contender."""

    config: dict[str, str]
    prefix: str
    quiet: bool
    whale: bool
    scale: Scale
    #: of each lane
    buckets: int = 1

    @property
    def names(self) -> list[str]:
        """All topics, whoever gets records; the whale's is the first."""
        return [f"{tenant}.visits" for tenant in self.tenants]

    @property
    def tenants(self) -> list[str]:
        """All tenants, the whale first."""
        return [f"{self.prefix}-{number}" for number in range(QUIET + 1)]

    @property
    def load(self) -> Load:
        """What is sent while it runs."""
        feeds = []
        if self.quiet:
            feeds.append(Feed(tuple(self.names[1:]), QUIET_RATE_PER_S, value, key=spread))
        if self.whale:
            feeds.append(Feed((self.names[0],), WHALE_RATE_PER_S, value, key=hot))
        return Load(self.config, tuple(feeds), self.scale.seconds, frozenset({self.names[0]}))

    def go_on(self, path: Path) -> Callable[[float], bool]:
        """Until the whale's backlog is done or the time is over; at least one of its records."""
        count = sqlite3.connect(path, timeout=30)

        def more(elapsed_s: float) -> bool:
            if not self.whale:
                return False
            (rows,) = count.execute(f"SELECT coalesce(max(rowid), 0) FROM {TABLE}").fetchone()
            most_quiet = self.scale.seconds * QUIET * QUIET_RATE_PER_S if self.quiet else 0
            return bool(rows <= most_quiet)

        return more


Contender = Callable[[Any, Run], tuple[Seen, list[EndedWave]]]


def value(_topic: str, _number: int, _at_s: float) -> bytes:
    """What is sent: the same every time."""
    return _VALUE


def spread(number: int) -> bytes:
    """A hundred keys, in turn."""
    return b"user-%d" % (number % 100)


def hot(_number: int) -> bytes:
    """The one key of the whale."""
    return b"hot"


def work(raw: bytes) -> int:
    """What is done with each record, by every contender."""
    visit = json.loads(raw)
    words = visit["page"].replace("?", "/").split("/")
    score = sum(second * second for second in visit["seconds"])
    tags = ",".join(f"{name}={visit['tags'][name]}" for name in sorted(visit["tags"]))
    return score + len(words) + len(json.dumps({**visit, "score": score, "tags": tags}))


def main(args: list[str]) -> None:
    """Run and write `results/noisy_neighbour.json`, or `results/noisy_neighbour_buckets.json`."""
    scale = QUICK if "--quick" in args else FULL
    buckets = BUCKETS if "--buckets" in args else 1
    contenders: dict[str, Contender] = {
        "ours": _ours,
        "structured_streaming": functools.partial(_theirs, most_offsets=None),
        "structured_streaming_limited": functools.partial(_theirs, most_offsets=LIMITED_OFFSETS),
    }
    if buckets > 1:
        contenders = {"ours": _ours}  # others have none
    runs: dict[str, dict[str, Any]] = {name: {} for name in contenders}
    with broker() as config, session() as spark:
        for name in contenders.keys() & {"ours", "structured_streaming"}:
            run = Run(config, f"{name[0]}warm", True, True, _WARM_UP, buckets)
            _measured(spark, contenders[name], run)
        for kind, quiet, whale in (
            ("alone", True, False),
            ("both", True, True),
            ("whale", False, True),
        ):
            for name, contender in contenders.items():
                run = Run(config, f"{name[0]}{len(name)}{kind}", quiet, whale, scale, buckets)
                try:
                    runs[name][kind] = _measured(spark, contender, run)
                except Unfinished as late:
                    if name == "ours":
                        raise
                    runs[name][kind] = {"unfinished": str(late)}
                print(name, kind, runs[name][kind], flush=True)
    compared = {
        name: _compared(kinds)
        for name, kinds in runs.items()
        if not any("unfinished" in run for run in kinds.values())
    }
    result = {"quiet": QUIET, "backlog": scale.backlog, "buckets": buckets}
    result |= {"runs": runs, "compared": compared}
    written = "noisy_neighbour" if buckets == 1 else "noisy_neighbour_buckets"
    write(f"{written}.quick" if scale is QUICK else written, result)
    for name, ratios in compared.items():
        print(
            f"{name}: quiet p99 {ratios['p99_ratio']} x (target {RATIO_TARGET}), "
            f"Jain {ratios['jain']} (target {JAIN_TARGET}), "
            f"whale {ratios['whale_ratio']} x (target {WHALE_TARGET})"
        )
        print("\n".join(f"  {kind}: {line(run['cpu_cores'])}" for kind, run in runs[name].items()))
    for name in runs.keys() - compared.keys():
        print(f"{name} did not come to an end: {runs[name]}")


def _measured(spark: Any, contender: Contender, run: Run) -> dict[str, Any]:
    topics(run.config, run.names)
    if run.whale:
        backlog(run.config, run.names[0], run.scale.backlog, _VALUE, hot)
    seen, waves = contender(spark, run)
    figures: dict[str, Any] = {"repeats": verify(seen, run.load.unwatched)}
    until_s = run.scale.seconds
    if run.whale:
        rows, at_s = _whale(seen, run.scale)
        if rows >= run.scale.backlog:
            until_s = min(until_s, max(at_s, 0.0))
        figures["whale_rows"] = rows
        figures["whale_per_s"] = round(rows / (at_s - seen.started_s), 1)
    if run.quiet:
        # With the whale, as long as it has a backlog; but an end must be seen that long after.
        figures |= seen.delays(run.scale.warm_up_s, until_s or run.scale.seconds)
        figures["jain"] = round(jain(seen.service(run.scale.seconds).values()), 4)
        figures["least_service"] = round(min(seen.service(run.scale.seconds).values()), 3)
    return {**figures, "until_s": round(until_s, 1), "waves": told(waves), **seen.cpu.told()}


def _whale(seen: Seen, scale: Scale) -> tuple[int, float]:
    """Rows of the whale, and when: at the end of the run, of its backlog, or its first commit."""
    rows, at_s = 0, 0.0
    for second, count in seen.pace:
        if rows and (second > scale.seconds or rows >= scale.backlog):
            break
        if count > rows:
            rows, at_s = count, second
    return rows, at_s


def _compared(runs: dict[str, Any]) -> dict[str, Any]:
    alone, both, whale = runs["alone"], runs["both"], runs["whale"]
    return {
        "p50_ratio": round(both["p50_s"] / alone["p50_s"], 2),
        "p99_ratio": round(both["p99_s"] / alone["p99_s"], 2),
        "jain": both["jain"],
        "whale_ratio": round(both["whale_per_s"] / whale["whale_per_s"], 2),
    }


# --- contenders ------------------------------------------------------------------------------


def _scored(records: pa.Table, _context: Any) -> pa.Table:
    return rows_of(records, [work(raw) for raw in records["value"].to_pylist()])


def _ours(spark: Any, run: Run) -> tuple[Seen, list[EndedWave]]:
    rows = SqlTable(TABLE, columns=COLUMNS)
    more: dict[str, Any] = {}
    if run.buckets > 1:
        more = {"order": "key", "buckets": run.buckets}
    made = use_case(
        topic="{tenant}.visits", sink=rows, guarantee="at-least-once", name="score", **more
    )(_scored)
    chosen = {"order": Order(made.order), "buckets": made.divides_by}
    with driver_of(spark, run.config, made, run.tenants, **chosen) as bench:
        seen = watched(bench.path, run.load, lambda: bench.driver.turn, run.go_on(bench.path))
        return seen, bench.counter.ended


def _theirs(spark: Any, run: Run, most_offsets: int | None) -> tuple[Seen, list[EndedWave]]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        table(folder) as path,
        ExitStack() as stack,
    ):

        def start() -> Callable[[], object]:
            rows_of = Query(run.config, f"{run.prefix}-.*[.]visits", path, most_offsets)
            query = stack.enter_context(rows_of.running(spark, _batches))

            def turn() -> None:
                assert not query.awaitTermination(0.05), "the query ended"

            return turn

        return watched(path, run.load, start, run.go_on(path)), []


def _batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of(batch, [work(raw) for raw in batch["value"].to_pylist()])
