"""What each guarantee costs: the same backlog, drained under each of them into the same sinks.

Rows into SQLite at most once, at least once, and exactly once by the sink's transaction; Parquet
files at least once and exactly once by intent. Everybody is a driver of its own on the same Spark,
warm, and drains 200,000 records over 50 tenants; all take turns. The rows and files of each round
are counted: all of them, and none twice.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.delays import COLUMNS, TABLE, rows_of
from benchmarks.harness import Bench, broker, driver_of, fill, ratio, session, topics, write
from headrace.sinks import ParquetFiles, SqlTable
from headrace.use_cases import UseCase, use_case

LANES = 50
RECORDS = 200_000
SIZE_BYTES = 300
ROUNDS = 5
WARM_UP_ROUNDS = 2
TARGET = 0.8
#: contender -> guarantee and whether it writes files
CONTENDERS = {
    "rows at-most-once": ("at-most-once", False),
    "rows at-least-once": ("at-least-once", False),
    "rows exactly-once": ("exactly-once", False),
    "files at-least-once": ("at-least-once", True),
    "files exactly-once": ("exactly-once", True),
}


def main(args: list[str]) -> None:
    """Run and write `results/guarantees.json`."""
    quick = "--quick" in args
    rounds, warm_up = (1, 1) if quick else (ROUNDS, WARM_UP_ROUNDS)
    tenants = [f"g{number}" for number in range(LANES)]
    names = [f"{name}.visits" for name in tenants]
    took: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with broker() as config, session() as spark, ExitStack() as stack:
        topics(config, names)
        fill(config, names, RECORDS // LANES, SIZE_BYTES)
        benches = {
            name: stack.enter_context(driver_of(spark, config, _made(*chosen), tenants))
            for name, chosen in CONTENDERS.items()
        }
        for number in range(rounds + warm_up):
            order = list(benches) if number % 2 == 0 else list(benches)[::-1]
            for name in order:
                seconds = _drained(benches[name], files=CONTENDERS[name][1])
                if number >= warm_up:
                    took[name].append(round(seconds, 3))
    ratios = {
        "rows": ratio(took["rows at-least-once"], took["rows exactly-once"]),
        "files": ratio(took["files at-least-once"], took["files exactly-once"]),
        "rows at-most-once": ratio(took["rows at-least-once"], took["rows at-most-once"]),
    }
    result = {"records": RECORDS, "lanes": LANES, "took_s": took, "speed_over_at_least": ratios}
    write("guarantees.quick" if quick else "guarantees", result)
    for name, taken_s in took.items():
        print(f"{name:<20} {taken_s} s")
    for name in ("rows", "files"):
        print(
            f"exactly-once {name}: {ratios[name]['median']:.2f} x at-least-once (target {TARGET})"
        )


def _made(guarantee: str, files: bool) -> UseCase:
    sink: Any = ParquetFiles("kept") if files else SqlTable(TABLE, columns=COLUMNS)
    made = use_case(topic="{tenant}.visits", sink=sink, guarantee=guarantee, name="keep")
    return made(_keep)


def _keep(records: pa.Table, _context: Any) -> pa.Table:
    return rows_of(records, [1] * records.num_rows)


def _drained(bench: Bench, *, files: bool) -> float:
    bench.rewind()
    before = 0 if files else _rows(bench.path)
    _remove_files(bench)
    seconds = bench.until_done(RECORDS)
    found = _in_files(bench) if files else _rows(bench.path) - before
    assert found == RECORDS, f"{found} of {RECORDS} effects"
    return seconds


def _rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    connection.close()
    return int(count)


def _paths(bench: Bench) -> list[Path]:
    folder = Path(str(bench.connections.warehouse)) / "kept"
    return [path for path in folder.rglob("*.parquet") if "_unfinished" not in path.parts]


def _remove_files(bench: Bench) -> None:
    for path in _paths(bench):
        path.unlink()


def _in_files(bench: Bench) -> int:
    return sum(pq.ParquetFile(path).metadata.num_rows for path in _paths(bench))
