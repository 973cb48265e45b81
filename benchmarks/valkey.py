"""Rows into Valkey through the sink, against the client's own pipelines.

All write the same rows, in turn, in one process, to entries of their own in one server; the sink
from the effects of a hundred slices, a bin at a time. The client sends as many at a time, from what
was made before: once by the script that the sink has, which keeps the newest, and so promises as
much (``client``), and once by ``HSET``, which compares nothing (``plain``). Entries are counted,
and a number in them summed.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import redis

from benchmarks import harness
from benchmarks.beside_client import by_sink, measured
from headrace.connectors.in_parts import AT_ONCE
from headrace.connectors.redis.entries import SCRIPT
from headrace.embedded import EmbeddedValkey
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes

LANES, EACH, BINS, ROUNDS = 100, 100, 2, 5
TARGET = 0.7
COLUMNS = {
    "lane": "bigint",
    "record": "bigint",
    "path": "text",
    "bytes": "bigint",
    "seconds": "double",
    "newness": "version",
}


def main(args: list[str]) -> None:
    """Run and write `results/valkey.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [effects_of(number) for number in range(bins)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedValkey(Path(folder) / "valkey", durable=False) as server,
    ):
        found = _measured(server.url, waves, rounds)
    took = found["seconds"]
    found["ratio_to_plain"] = harness.ratio(took["plain"], took["sink"])
    print(
        f"rows/s: {found['rows_per_s']}; ratio {found['ratio']} (target {TARGET}), to HSET, which "
        f"compares nothing, {found['ratio_to_plain']}"
    )
    if not quick:
        harness.write("valkey", {"bins": bins, "rows_a_bin": LANES * EACH, **found})


def effects_of(number: int) -> list[Effect]:
    chance = random.Random(number)
    made = []
    for lane in range(LANES):
        tenant, start = f"tenant-{lane % 10}", number * EACH
        rows = {
            "lane": [lane] * EACH,
            "record": list(range(start, start + EACH)),
            "path": [f"/offers/{chance.randrange(10_000)}" for _ in range(EACH)],
            "bytes": [chance.randrange(100_000) for _ in range(EACH)],
            "seconds": [chance.random() for _ in range(EACH)],
        }
        piece = Slice(LaneId("bench", tenant, f"t{lane}[0]"), "t", start, start + EACH, 1)
        reached = start + EACH
        made.append(Effect((piece,), (reached,), pa.table(rows), version=reached - 1))
    return made


def _sink(name: str) -> RedisHashes:
    return RedisHashes(
        name,
        COLUMNS,
        key=("lane", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="cache",
    )


def _measured(url: str, waves: Sequence[Sequence[Effect]], rounds: int) -> dict[str, Any]:
    site = Site(Connections({}, "", servers={"cache": Server(url)}), None)
    sink, client = _sink("by_sink"), redis.Redis.from_url(url)
    mappings, calls = [_as_mappings(wave) for wave in waves], [_as_calls(wave) for wave in waves]
    return measured(
        waves,
        rounds,
        {
            "sink": lambda: by_sink(sink, site, waves),
            "client": lambda: _by_client(client, calls),
            "plain": lambda: _plainly(client, mappings),
        },
        empty=client.flushall,
        counted=lambda name: _counted(client, name),
    )


def _as_mappings(wave: Sequence[Effect]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"by_plain:{row['lane']}:{row['record']}", {**row, "newness": effect.version})
        for effect in wave
        for row in effect.output.to_pylist()
    ]


def _as_calls(wave: Sequence[Effect]) -> list[tuple[Any, ...]]:
    """Key and arguments of the script, as the sink makes them."""
    entries = _sink("by_client")._entries
    return [
        change.values
        for effect in wave
        for change in entries.changes(effect.output, effect.version, "")
    ]


def _by_client(client: Any, given: Sequence[list[tuple[Any, ...]]]) -> None:
    known_by = client.script_load(SCRIPT)
    for rows in given:
        for at in range(0, len(rows), AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for key, *arguments in rows[at : at + AT_ONCE]:
                pipeline.evalsha(known_by, 1, key, *arguments)
            pipeline.execute()


def _plainly(client: Any, given: Sequence[list[tuple[str, dict[str, Any]]]]) -> None:
    for rows in given:
        for at in range(0, len(rows), AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for key, mapping in rows[at : at + AT_ONCE]:
                pipeline.hset(key, mapping=mapping)
            pipeline.execute()


def _counted(client: Any, name: str) -> tuple[int, int]:
    pipeline = client.pipeline(transaction=False)
    for key in client.scan_iter(f"{name}:*", count=10_000):
        pipeline.hget(key, "bytes")
    found = pipeline.execute()
    return len(found), sum(map(int, found))
