"""Sixty days of history in Cassandra: written through the sink, and read back by tenant and day.

Rows are those of `cassandra.py`, over a hundred tenants and sixty days, oldest first, each in the
partition of its tenant's day. What is read back is counted and summed, to the row. Then: how long a
tenant's day takes, and how many bytes of the disk a row has, once the node has stopped, which
flushes it. ``--rows=1000000`` writes so many.
"""

from __future__ import annotations

import datetime as dt
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import harness
from headrace.embedded import EmbeddedCassandra
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import CassandraTable

ROWS, TENANTS, DAYS, EACH = 10_000_000, 100, 60, 100
START = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
LOOKS = 50
SINK = CassandraTable(
    "history",
    {
        "tenant": "text",
        "at": "timestamp",
        "lane": "bigint",
        "record": "bigint",
        "path": "text",
        "bytes": "bigint",
        "seconds": "double",
    },
    key=("tenant", "at", "lane", "record"),
    newest_by="at",
    by_time="at",
    at="history",
    ttl=dt.timedelta(days=600),
)


def main(args: list[str]) -> None:
    """Run and write `results/cassandra_history.json`."""
    quick = "--quick" in args
    said = [int(arg.removeprefix("--rows=")) for arg in args if arg.startswith("--rows=")]
    rows = said[0] if said else (TENANTS * EACH * DAYS // 10 if quick else ROWS)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        node = Path(folder) / "cassandra"
        with EmbeddedCassandra(node, heap_mb=1024, durable=False) as server:
            connections = Connections({}, "", servers={"history": Server(server.url)})
            found = _measured(connections, max(1, rows // (TENANTS * EACH)))
        files = [file for file in node.rglob("history-*/*") if file.is_file()]
        found["bytes_a_row"] = round(sum(f.stat().st_size for f in files) / found["rows"], 1)
    print(found)
    if not quick:
        harness.write("cassandra_history", found)


def _measured(connections: Connections, bins: int) -> dict[str, Any]:
    site, chance, took, total = Site(connections, None), random.Random(1), [], 0
    SINK.prepare(site)
    for number in range(bins):
        effects = list(_effects(number, bins, chance))
        total += sum(pc.sum(effect.output["bytes"]).as_py() for effect in effects)
        begun = time.perf_counter()
        assert all(not one.error and not one.refused for one in SINK.open(site).write(effects))
        took.append(round(time.perf_counter() - begun, 3))
    rows = bins * TENANTS * EACH
    begun = time.perf_counter()
    assert _read(connections) == (rows, total), "other rows are read than were written"
    read_s = time.perf_counter() - begun
    return {
        "rows": rows,
        "write_s": took,
        "rows_per_s": round(rows / sum(took)),
        "read_rows_per_s": round(rows / read_s),
        "a_day_of_a_tenant": _a_day(connections, chance),
    }


def _effects(number: int, bins: int, chance: random.Random) -> Iterator[Effect]:
    """A hundred rows of each tenant, all of one day."""
    day = START + DAY * (number * DAYS // bins)
    for tenant in range(TENANTS):
        name, first = f"tenant-{tenant}", number * EACH
        moments = sorted(chance.randrange(86_400_000) for _ in range(EACH))
        rows = {
            "tenant": [name] * EACH,
            "at": [day + dt.timedelta(milliseconds=moment) for moment in moments],
            "lane": [tenant] * EACH,
            "record": list(range(first, first + EACH)),
            "path": [f"/projects/{chance.randrange(10**6)}/visits" for _ in range(EACH)],
            "bytes": [chance.randrange(10**6) for _ in range(EACH)],
            "seconds": [chance.random() for _ in range(EACH)],
        }
        piece = Slice(LaneId("bench", name, f"t{tenant}[0]"), "t", first, first + EACH, 1)
        yield Effect((piece,), (first + EACH,), pa.table(rows))


def _read(connections: Connections) -> tuple[int, int]:
    count = total = 0
    for tenant in range(TENANTS):
        for page in SINK.read(
            connections, f"tenant-{tenant}", since=START, until=START + DAY * DAYS
        ):
            count += page.num_rows
            total += pc.sum(page["bytes"]).as_py()
    return count, total


def _a_day(connections: Connections, chance: random.Random) -> dict[str, float]:
    took, rows = [], []
    for _ in range(LOOKS):
        since = START + DAY * chance.randrange(DAYS)
        begun = time.perf_counter()
        tenant = f"tenant-{chance.randrange(TENANTS)}"
        rows.append(
            sum(p.num_rows for p in SINK.read(connections, tenant, since=since, until=since + DAY))
        )
        took.append(time.perf_counter() - begun)
    return {
        "rows": statistics.median(rows),
        "median_s": round(statistics.median(took), 4),
        "most_s": round(max(took), 4),
    }
