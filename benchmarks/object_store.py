"""Parquet files into an S3 server through the sink, against its client library and Arrow alone.

All write the same rows to a bucket each, in turn, in one process, to one server on this machine:
the sink from the effects of a hundred slices, of a recorded wave, each a file that is put on a
condition and bears its wave; the client library the same tables, as files of the same form, with
its own asynchronous puts, as many at a time, on the same condition, and on none; and Arrow's
`write_dataset` all of a bin at once, a file for each tenant. The rows in the server's folder are
counted and summed.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pf
import pyarrow.parquet as pq
from obstore.store import S3Store

from benchmarks import harness
from benchmarks.harness import StandingPositions
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import ParquetFiles

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from s3_server import KEY, SECRET, S3Server

LANES, EACH, BINS, ROUNDS, AT_ONCE = 100, 200, 2, 7, 16
TENANTS = 10
TARGET = 0.7
SCHEMA = pa.schema(
    [
        ("tenant_name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


def main(args: list[str]) -> None:
    """Run and write `results/object_store.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [_effects(number) for number in range(bins)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        S3Server(Path(folder)) as server,
    ):
        found = _measured(server, waves, rounds)
    print(f"{found['rows_per_s']} rows/s, {found['files_per_s']} files/s")
    print(f"against the client on a condition {found['ratio']} (target {TARGET})")
    print(f"on none {found['plain_ratio']}, Arrow {found['arrow_ratio']}")
    if not quick:
        about = {"bins": bins, "lanes": LANES, "rows_a_bin": LANES * EACH}
        harness.write("object_store", about | found)


def _effects(number: int) -> list[Effect]:
    chance = random.Random(number)
    made = []
    for lane in range(LANES):
        tenant, start = f"tenant-{lane % TENANTS}", number * EACH
        rows = {
            "tenant_name": [tenant] * EACH,
            "at": [1_793_000_000_000_000 + chance.randrange(10**11) for _ in range(EACH)],
            "path": [f"/projects/{chance.randrange(10**6)}/visits" for _ in range(EACH)],
            "bytes": [chance.randrange(10**6) for _ in range(EACH)],
            "seconds": [chance.random() for _ in range(EACH)],
        }
        piece = Slice(LaneId("bench", tenant, f"t{lane}[0]"), "t", start, start + EACH, 1)
        made.append(Effect((piece,), (start + EACH,), pa.table(rows, SCHEMA)))
    return made


def _measured(server: S3Server, waves: list[list[Effect]], rounds: int) -> dict[str, Any]:
    took: dict[str, list[float]] = {"sink": [], "client": [], "plain": [], "arrow": []}
    whole = [pa.concat_tables([effect.output for effect in wave]) for wave in waves]
    due = (sum(t.num_rows for t in whole), sum(pc.sum(t["bytes"]).as_py() for t in whole))
    for number in range(rounds + 1):
        contenders: dict[str, Callable[[str], None]] = {
            "sink": lambda bucket: _by_sink(server, bucket, waves),
            "client": lambda bucket: asyncio.run(_by_client(server, bucket, waves, "create")),
            "plain": lambda bucket: asyncio.run(_by_client(server, bucket, waves, "overwrite")),
            "arrow": lambda bucket: _by_arrow(server, bucket, whole),
        }
        for name in contenders if number % 2 else reversed(contenders):
            bucket = server.make_bucket()
            begun = time.perf_counter()
            contenders[name](bucket)
            if number:  # the first one warms up
                took[name].append(round(time.perf_counter() - begun, 4))
            assert _counted(server.folder_of(bucket)) == due, f"{name} has other rows"
    medians = {name: statistics.median(seconds) for name, seconds in took.items()}
    return {
        "seconds": took,
        "rows_per_s": {name: round(due[0] / median) for name, median in medians.items()},
        "files_per_s": {
            name: round(len(waves) * LANES / medians[name]) for name in ("sink", "client", "plain")
        },
        "ratio": harness.ratio(took["client"], took["sink"]),
        "plain_ratio": harness.ratio(took["plain"], took["sink"]),
        "arrow_ratio": harness.ratio(took["arrow"], took["sink"]),
    }


def _by_sink(server: S3Server, bucket: str, waves: list[list[Effect]]) -> None:
    sink = ParquetFiles("visits", SCHEMA, at="lake")
    connections = Connections({}, "", servers={"lake": server.at(bucket)}, seal_key=b"bench")
    sink.prepare(Site(connections, StandingPositions()))
    for number, effects in enumerate(waves):
        writer = sink.open(Site(connections, StandingPositions(), f"wave-{number}", "fence"))
        assert all(written.error is None for written in writer.write(effects))
        writer.close()


async def _by_client(
    server: S3Server, bucket: str, waves: list[list[Effect]], mode: Literal["create", "overwrite"]
) -> None:
    store = S3Store(
        bucket,
        config={
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "endpoint": server.endpoint,
            "region": "us-east-1",
        },
        client_options={"allow_http": True},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=30)},
    )
    room = asyncio.Semaphore(AT_ONCE)

    async def put(name: str, table: pa.Table) -> None:
        out = pa.BufferOutputStream()
        pq.write_table(table, out, compression="zstd")
        async with room:
            body = out.getvalue().to_pybytes()
            await obstore.put_async(store, name, body, mode=mode, use_multipart=False)

    for number, effects in enumerate(waves):
        await asyncio.gather(
            *(put(f"visits/{number}-{lane}.parquet", e.output) for lane, e in enumerate(effects))
        )


def _by_arrow(server: S3Server, bucket: str, whole: list[pa.Table]) -> None:
    place = pf.S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=server.endpoint, region="us-east-1"
    )
    form = ds.ParquetFileFormat()
    for number, rows in enumerate(whole):
        ds.write_dataset(
            rows,
            f"{bucket}/visits",
            filesystem=place,
            format=form,
            file_options=form.make_write_options(compression="zstd"),
            partitioning=ds.partitioning(pa.schema([("tenant_name", pa.string())]), flavor="hive"),
            basename_template=f"{number}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )


def _counted(folder: Path) -> tuple[int, int]:
    files = [str(path) for path in folder.rglob("*.parquet")]
    rows = ds.dataset(files).to_table(columns=["bytes"])
    return rows.num_rows, pc.sum(rows["bytes"]).as_py()
