"""Rows into Cassandra through the sink, against the client's own ``execute_concurrent_with_args``.

Both write the same rows, in turn, in one process, to tables of their own in one node; the sink from
the effects of a hundred slices, a bin at a time, with 64 statements on their way; the other from
tuples that are made before, with as many. The rows that are read back are counted and summed. Then
all of it is read back through the sink, tenant by tenant.
"""

from __future__ import annotations

import datetime as dt
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import harness
from benchmarks.beside_client import Counted, by_sink, measured
from headrace.connectors.cassandra.library import library
from headrace.connectors.cassandra.servers import Cluster, cluster_of
from headrace.connectors.cassandra.writer import AT_ONCE
from headrace.embedded import EmbeddedCassandra
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import CassandraTable

LANES, EACH, BINS, ROUNDS = 100, 100, 2, 5
TENANTS = 10
TARGET = 0.7
START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
DAYS = 3
COLUMNS = {
    "tenant": "text",
    "at": "timestamp",
    "lane": "bigint",
    "record": "bigint",
    "path": "text",
    "bytes": "bigint",
    "seconds": "double",
}
Rows = list[tuple[Any, ...]]


def main(args: list[str]) -> None:
    """Run and write `results/cassandra.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [_effects(number) for number in range(bins)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedCassandra(Path(folder) / "cassandra", heap_mb=1024, durable=False) as server,
    ):
        connections = Connections({}, "", servers={"history": Server(server.url)})
        found = _measured(connections, waves, rounds)
    print(f"rows/s: {found['rows_per_s']}; ratio {found['ratio']} (target {TARGET})")
    print(f"read back: {found['read_rows_per_s']} rows/s")
    if not quick:
        harness.write("cassandra", {"bins": bins, "rows_a_bin": LANES * EACH, **found})


def _effects(number: int) -> list[Effect]:
    chance = random.Random(number)
    made = []
    for lane in range(LANES):
        tenant, start = f"tenant-{lane % TENANTS}", number * EACH
        first = START + dt.timedelta(days=number % DAYS)
        rows = {
            "tenant": [tenant] * EACH,
            "at": [first + dt.timedelta(milliseconds=chance.randrange(86_000_000))] * EACH,
            "lane": [lane] * EACH,
            "record": list(range(start, start + EACH)),
            "path": [f"/projects/{chance.randrange(10**6)}/visits" for _ in range(EACH)],
            "bytes": [chance.randrange(10**6) for _ in range(EACH)],
            "seconds": [chance.random() for _ in range(EACH)],
        }
        piece = Slice(LaneId("bench", tenant, f"t{lane}[0]"), "t", start, start + EACH, 1)
        made.append(Effect((piece,), (start + EACH,), pa.table(rows)))
    return made


def _sink(name: str) -> CassandraTable:
    key = ("tenant", "at", "lane", "record")
    return CassandraTable(name, COLUMNS, key=key, newest_by="at", by_time="at", at="history")


def _measured(
    connections: Connections, waves: Sequence[Sequence[Effect]], rounds: int
) -> dict[str, Any]:
    site, cluster = Site(connections, None), cluster_of(connections, "history")
    sinks = {name: _sink(name) for name in ("by_sink", "by_client")}
    for sink in sinks.values():
        sink.prepare(site)
    alone = sinks["by_client"]
    given = [_as_tuples(alone, wave) for wave in waves]
    read: list[float] = []

    def empty() -> None:
        for name in sinks:
            cluster.asked(f"TRUNCATE headrace.{name}")

    def counted(name: str) -> Counted:
        begun = time.perf_counter()
        found = _counted(sinks[name], connections)
        if name == "by_sink":
            read.append(round(time.perf_counter() - begun, 3))
        return found

    contenders = {
        "sink": lambda: by_sink(sinks["by_sink"], site, waves),
        "client": lambda: _by_client(cluster, alone, given),
    }
    found = measured(waves, rounds, contenders, empty, counted)
    rows = sum(effect.output.num_rows for wave in waves for effect in wave)
    found["seconds"]["read"] = read
    return {**found, "read_rows_per_s": round(rows / statistics.median(read))}


def _as_tuples(sink: CassandraTable, wave: Sequence[Effect]) -> Rows:
    rows = sink._rows("headrace")
    return [
        change.values for effect in wave for change in rows.changes(effect.output, effect.version)
    ]


def _by_client(cluster: Cluster, sink: CassandraTable, given: Sequence[Rows]) -> None:
    statement = cluster.prepared(sink._described("headrace").put)
    for rows in given:
        library().concurrent.execute_concurrent_with_args(
            cluster.session(), statement, rows, concurrency=AT_ONCE
        )


def _counted(sink: CassandraTable, connections: Connections) -> tuple[int, int]:
    count = total = 0
    for tenant in range(TENANTS):
        until = START + dt.timedelta(days=DAYS + 1)
        for table in sink.read(connections, f"tenant-{tenant}", since=START, until=until):
            count += table.num_rows
            total += pc.sum(table["bytes"]).as_py()
    return count, total
