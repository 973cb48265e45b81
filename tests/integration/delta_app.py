"""Writes to a Delta table in a process of its own, which may stop in the middle of it.

Arguments: the warehouse or the URL of an object store, what to do, and for ``killed`` the step to
stop at and the file to say so in. ``killed`` writes one wave; ``many`` writes forty slices of a
lane of its own, one by one; ``disk`` fills the disk that the warehouse is alone on, and makes it
read-only.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable as Library

from headrace.connectors.delta import client, data_files, writer
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import DeltaTable

sys.path.insert(0, str(Path(__file__).parents[1]))
from s3_server import KEY, SECRET
from still_there import StillThere

SCHEMA = pa.schema([("tenant", pa.string()), ("value", pa.int64())])
SINK = DeltaTable("visits", SCHEMA, partition_by=("tenant",))
IN_STORE = DeltaTable("visits", SCHEMA, partition_by=("tenant",), at="lake")


def sink_of(place):
    return IN_STORE if "://" in str(place) else SINK


def site(place, wave):
    lake = {"lake": Server(str(place), KEY, SECRET)}
    return Site(
        Connections({}, "", warehouse=str(place), servers=lake), StillThere(), wave, "fence"
    )


def effect(tenant, start, rows):
    table = pa.table({"tenant": [tenant] * rows, "value": range(start, start + rows)}, SCHEMA)
    piece = Slice(LaneId("copy", tenant, f"{tenant}.visits[0]"), "v", start, start + rows, 1)
    return Effect((piece,), (start + rows,), table)


def wave():
    return [effect(tenant, 0, 100) for tenant in ("acme", "bolt")]


def stop_at(step, mark):
    """Stop for good, before or after what the step names."""

    def stopping(*_given, **_named):
        Path(mark).touch()
        time.sleep(600)

    after_first = {"files-half-written": 1}.get(step, 0)
    whole = data_files.pq.write_table

    def half(*given, **named):
        nonlocal after_first
        if not after_first:
            stopping()
        after_first -= 1
        return whole(*given, **named)

    match step:
        case "files-half-written":
            data_files.pq.write_table = half
        case "files-written":
            writer.reached = stopping
        case "committed":
            client.TableClient._sync = stopping
        case "told":
            pass
    return stopping


def on_a_bad_disk(warehouse):
    """What becomes of effects on a disk with ever more room, and on one that is read-only."""
    SINK.prepare(site(warehouse, "w"))
    opened, hog = SINK.open(site(warehouse, "w")), Path(warehouse, "hog")

    def code(tenant):
        error = opened.write([effect(tenant, 0, 100)])[0].error
        return error and error.code

    told = {"full": []}
    for blocks in range(12):
        hog.unlink(missing_ok=True)
        disk = os.statvfs(warehouse)
        with hog.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (disk.f_bfree - blocks) * disk.f_bsize)
        told["full"].append(code("acme"))
    hog.unlink()
    subprocess.run(["mount", "-o", "remount,ro", warehouse], check=True)
    told["read-only"] = code("bolt")
    subprocess.run(["mount", "-o", "remount,rw", warehouse], check=True)
    assert code("bolt") is None
    files = Library(str(Path(warehouse, "visits"))).file_uris()
    told["rows"] = sum(data_files.pq.read_metadata(file).num_rows for file in files)
    print(json.dumps(told))


def main(warehouse, what, *more):
    if what == "disk":
        on_a_bad_disk(warehouse)
        return
    if what == "many":
        opened = sink_of(warehouse).open(site(warehouse, f"wave of {more[0]}"))
        told = [opened.write([effect(more[0], 5 * n, 5)])[0].error for n in range(40)]
        print(json.dumps([error and error.message for error in told]))
        return
    stopping = stop_at(*more)
    sink_of(warehouse).open(site(warehouse, "w")).write(wave())
    stopping()


if __name__ == "__main__":
    main(*sys.argv[1:])
