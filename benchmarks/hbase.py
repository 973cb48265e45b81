"""Rows into HBase through the sink, against ``happybase``'s own ``Batch``.

Both write the same cells at the same timestamps, in turn, in one process, to tables of their own
behind one Thrift server; the sink from effects, a bin at a time, the other from cells that are made
before, a thousand rows in a request. The rows that are read back are counted and summed.

A request has one timestamp. Rows may have the version of their effect, or each that of its record;
then each is a request of its own. ``Batch`` waits for each answer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import happybase
import pyarrow as pa

from benchmarks import harness
from benchmarks.beside_client import Counted, by_sink, measured
from benchmarks.valkey import COLUMNS, EACH, LANES, effects_of
from headrace.connectors.in_parts import AT_ONCE
from headrace.embedded import EmbeddedHBase
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import HBaseTable

ROUNDS = 5
#: lanes of which each record has its own version
BY_RECORD = 20
TARGET = 0.7
NAMES = ("by_sink", "by_client")
#: rows of one timestamp: the key of each, and its cells
Given = list[tuple[int, list[tuple[bytes, dict[bytes, bytes]]]]]


def main(args: list[str]) -> None:
    """Run and write `results/hbase.json`."""
    quick = "--quick" in args
    rounds = 1 if quick else ROUNDS
    wave = effects_of(0)
    lanes = BY_RECORD // 10 if quick else BY_RECORD
    found = {}
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedHBase(Path(folder) / "hbase") as server,
    ):
        found["version_of_effect"] = _measured(server, [wave], rounds)
        of_records = [_with_versions(effect) for effect in wave[:lanes]]
        found["version_of_record"] = _measured(server, [of_records], rounds)
    for name, one in found.items():
        print(f"{name}: rows/s {one['rows_per_s']}; ratio {one['ratio']} (target {TARGET})")
    if not quick:
        rows = {"version_of_effect": LANES * EACH, "version_of_record": lanes * EACH}
        harness.write("hbase", {"rows_a_bin": rows, **found})


def _with_versions(effect: Effect) -> Effect:
    first = effect.output["lane"][0].as_py() * EACH
    versions = pa.array(range(first, first + EACH), pa.int64())
    return Effect(effect.slices, effect.reached, effect.output.append_column("newness", versions))


def _sink(name: str) -> HBaseTable:
    return HBaseTable(
        name,
        COLUMNS,
        key=("lane", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="entities",
    )


def _measured(
    server: EmbeddedHBase, waves: Sequence[Sequence[Effect]], rounds: int
) -> dict[str, Any]:
    site = Site(Connections({}, "", servers={"entities": Server(server.url)}), None)
    sink, given = _sink("by_sink"), [_as_cells(wave) for wave in waves]
    client = happybase.Connection("127.0.0.1", server.port)

    def empty() -> None:
        there = client.tables()
        for name in NAMES:
            if name.encode() in there:
                client.delete_table(name, disable=True)
            _sink(name).prepare(site)

    try:
        return measured(
            waves,
            rounds,
            {
                "sink": lambda: by_sink(sink, site, waves),
                "client": lambda: _by_client(client, given),
            },
            empty,
            counted=lambda name: _counted(client, name),
        )
    finally:
        client.close()


def _as_cells(wave: Sequence[Effect]) -> Given:
    """What the sink writes, as it makes it."""
    cells = _sink("by_client")._cells
    names = [f"d:{name}".encode() for name in cells.names]
    found: dict[int, list[tuple[bytes, dict[bytes, bytes]]]] = {}
    for effect in wave:
        tenant = effect.slices[0].lane.tenant
        for change in cells.changes(effect.output, effect.version, tenant):
            key, *values = change.values
            put = key, dict(zip(names, values, strict=True))
            found.setdefault(change.newness, []).append(put)
    return list(found.items())


def _by_client(client: Any, given: Sequence[Given]) -> None:
    table = client.table("by_client")
    for timestamp, rows in (of_one for wave in given for of_one in wave):
        with table.batch(timestamp=timestamp, batch_size=AT_ONCE * len(COLUMNS)) as batch:
            for key, cells in rows:
                batch.put(key, cells)


def _counted(client: Any, name: str) -> Counted:
    scan = client.table(name).scan(columns=[b"d:bytes"], batch_size=1000)
    found = [int(row[b"d:bytes"]) for _, row in scan]
    return len(found), sum(found)
