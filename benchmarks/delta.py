"""Rows into a Delta table through the sink, against ``write_deltalake`` of the same rows.

Both append the same rows, a commit for each bin, to tables of their own, in turn, in one process;
the sink from the effects of a hundred slices, of a recorded wave, with the marks of their lanes,
every file synced to the disk, and once more with no file synced; the other from one table that is
made before, and synced by nobody. A third time the client writes what comes to the same as what the
sink leaves: with as many transaction ids in each commit, and its files and commits synced.
Once undivided, and once by tenant and day. The rows that are read back are counted and summed.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import harness
from benchmarks.harness import StandingPositions
from headrace.connectors.delta.homes import commit_path
from headrace.connectors.local_files import sync_all
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import DeltaTable

LANES, EACH, BINS, ROUNDS = 100, 200, 20, 7
TENANTS = 10
TARGET = 0.7
SCHEMA = pa.schema(
    [
        ("tenant", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


def main(args: list[str]) -> None:
    """Run and write `results/delta.json`."""
    quick = "--quick" in args
    bins, rounds = (2, 1) if quick else (BINS, ROUNDS)
    waves = [_effects(number) for number in range(bins)]
    found = {
        name: _measured(waves, by, rounds)
        for name, by in {"undivided": (), "by tenant and day": ("tenant", "day")}.items()
    }
    for name, figures in found.items():
        print(f"{name}: {figures['rows_per_s']} rows/s; ratio {figures['ratio']} (target {TARGET})")
        print(f"  with no file synced: {figures['unsynced_ratio']}")
        print(f"  against the client with ids, synced: {figures['alike_ratio']}")
    if not quick:
        harness.write("delta", {"bins": bins, "lanes": LANES, "rows_a_bin": LANES * EACH, **found})


def _effects(number: int) -> list[Effect]:
    chance = random.Random(number)
    made = []
    for lane in range(LANES):
        tenant, start = f"tenant-{lane % TENANTS}", number * EACH
        at = dt.datetime(2026, 11, 1 + number % 3, tzinfo=dt.UTC)
        rows = {
            "tenant": [tenant] * EACH,
            "day": [at.date()] * EACH,
            "at": [at + dt.timedelta(seconds=chance.random() * 86_000) for _ in range(EACH)],
            "path": [f"/projects/{chance.randrange(10**6)}/visits" for _ in range(EACH)],
            "bytes": [chance.randrange(10**6) for _ in range(EACH)],
            "seconds": [chance.random() for _ in range(EACH)],
        }
        piece = Slice(LaneId("bench", tenant, f"t{lane}[0]"), "t", start, start + EACH, 1)
        made.append(Effect((piece,), (start + EACH,), pa.table(rows, SCHEMA)))
    return made


def _measured(waves: list[list[Effect]], by: tuple[str, ...], rounds: int) -> dict[str, Any]:
    names = ("sink", "unsynced", "write_deltalake", "alike")
    took: dict[str, list[float]] = {name: [] for name in names}
    whole = [pa.concat_tables([effect.output for effect in wave]) for wave in waves]
    due = (sum(t.num_rows for t in whole), sum(pc.sum(t["bytes"]).as_py() for t in whole))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for number in range(rounds + 1):
            root = Path(folder) / str(number)
            contenders: dict[str, Callable[[], None]] = {
                "sink": lambda root=root: _by_sink(root, "sink", waves, by),
                "unsynced": lambda root=root: _unsynced(root, waves, by),
                "write_deltalake": lambda root=root: _by_library(root, whole, by),
                "alike": lambda root=root: _alike(root, whole, by),
            }
            for name in contenders if number % 2 else reversed(contenders):
                begun = time.perf_counter()
                contenders[name]()
                if number:  # the first one warms up
                    took[name].append(round(time.perf_counter() - begun, 4))
                assert _counted(root / name) == due, f"{name} has other rows"
    return {
        "seconds": took,
        "rows_per_s": {name: round(due[0] / statistics.median(took[name])) for name in took},
        "ratio": harness.ratio(took["write_deltalake"], took["sink"]),
        "unsynced_ratio": harness.ratio(took["write_deltalake"], took["unsynced"]),
        "alike_ratio": harness.ratio(took["alike"], took["sink"]),
    }


def _unsynced(root: Path, waves: list[list[Effect]], by: tuple[str, ...]) -> None:
    with mock.patch("headrace.connectors.delta.on_disk.sync_all"):
        _by_sink(root, "unsynced", waves, by)


def _by_sink(root: Path, name: str, waves: list[list[Effect]], by: tuple[str, ...]) -> None:
    sink = DeltaTable(name, SCHEMA, by)
    connections = Connections({}, "", warehouse=str(root), seal_key=b"bench")
    sink.prepare(Site(connections, StandingPositions()))
    for number, effects in enumerate(waves):
        writer = sink.open(Site(connections, StandingPositions(), f"wave-{number}", "fence"))
        assert all(written.error is None for written in writer.write(effects))
        writer.close()


def _by_library(root: Path, whole: list[pa.Table], by: tuple[str, ...]) -> None:
    place = str(root / "write_deltalake")
    table = deltalake.DeltaTable.create(place, SCHEMA, partition_by=list(by))
    for rows in whole:
        deltalake.write_deltalake(table, rows, mode="append")


def _alike(root: Path, whole: list[pa.Table], by: tuple[str, ...]) -> None:
    place = root / "alike"
    table = deltalake.DeltaTable.create(str(place), SCHEMA, partition_by=list(by))
    for number, rows in enumerate(whole):
        lanes = [f"lane-{lane}/{part}" for lane in range(LANES) for part in ("reached", "wave")]
        ids = [deltalake.Transaction(app_id, number) for app_id in lanes]
        properties = deltalake.CommitProperties(app_transactions=ids)
        deltalake.write_deltalake(table, rows, mode="append", commit_properties=properties)
        commit = place / commit_path(number + 1)
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        sync_all([place / action["add"]["path"] for action in actions if "add" in action], place)
        sync_all([commit], commit.parent)


def _counted(place: Path) -> tuple[int, int]:
    rows = deltalake.DeltaTable(str(place)).to_pyarrow_table(columns=["bytes"])
    return rows.num_rows, pc.sum(rows["bytes"]).as_py()
