"""From the start after a kill to the first durable commit, with a million records waiting.

1,000 topics with 1,000 records each. A service runs, is killed with SIGKILL in the middle, and is
started again; counted is from that start, of Python and Spark too, until a new row is committed in
SQLite. Ours is `headrace run` as a user types it, exactly once; Structured Streaming goes on from
its checkpoint, with two limits of records for a batch and, in the first round, without one.
Everybody is killed when it has committed its first rows, and killed again after the commit that is
measured; who takes longer than five minutes for either is stopped and counts as having taken five.
Then the rows are looked at: those of a topic have to be its first records without a hole, and none
of ours is there twice.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from benchmarks.delays import COLUMNS, TABLE
from benchmarks.harness import broker, fill, ratio, session, topics, write
from benchmarks.streaming import Query, batch_of
from headrace.model.streams import Tenant
from headrace.store import open_store

TENANTS = 1_000
RECORDS = 1_000
SIZE_BYTES = 200
ROUNDS = 3
#: records in a batch of Structured Streaming
LIMITS = (10_000, 50_000)
TARGET = 0.7
#: who has not committed by then is stopped, and counts as having taken this long
_WAIT_S = 300.0
#: topics whose rows are not the first records of the topic, each there, and rows too many
_HOLES = (
    f"SELECT count(*) FROM (SELECT max(at) + 1 AS upto, count(DISTINCT at) AS rows FROM {TABLE} "
    "GROUP BY topic) WHERE upto <> rows"
)
_TWICE = f"SELECT count(*) - count(DISTINCT topic || ' ' || at) FROM {TABLE}"
#: what both sides import is there
_ROOT = Path(__file__).parents[1]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"}
_USE_CASE = """
import pyarrow as pa
from benchmarks.delays import COLUMNS, TABLE, rows_of
from headrace import use_case
from headrace.sinks import SqlTable

@use_case(topic="{tenant}.visits", sink=SqlTable(TABLE, columns=COLUMNS), guarantee="exactly-once")
def keep(records, context):
    return rows_of(records, [1] * records.num_rows)
"""


def main(args: list[str]) -> None:
    """Run and write `results/recovery.json`."""
    job = next(
        (argument.removeprefix("--job=") for argument in args if argument.startswith("--job=")),
        None,
    )
    if job is not None:
        _stream(Path(job))
        return
    quick = "--quick" in args
    tenants, records = (50, 4_000) if quick else (TENANTS, RECORDS)
    sides: dict[str, Callable[[Path, Mapping[str, str], int], list[str]]] = {
        "ours": _ours,
        **{f"limit {limit}": functools.partial(_theirs, limit=limit) for limit in LIMITS},
        "no limit": functools.partial(_theirs, limit=None),
    }
    took: dict[str, list[float]] = {name: [] for name in sides}
    twice: dict[str, list[int]] = {name: [] for name in sides}
    gave_up: list[str] = []
    with broker() as config, tempfile.TemporaryDirectory(prefix="headrace-bench-") as base:
        names = [f"r{number}.visits" for number in range(tenants)]
        topics(config, names)
        fill(config, names, records, SIZE_BYTES)
        for number in range(1 if quick else ROUNDS):
            due = list(sides) if number == 0 else list(sides)[:-1]
            for name in due if number % 2 == 0 else reversed(due):
                folder = Path(base) / f"{name}{number}"
                folder.mkdir()
                command = sides[name](folder, config, tenants)
                try:
                    seconds = _recovered(folder, command)
                except TimeoutError as exc:
                    print(name, exc, flush=True)
                    gave_up.append(name)
                    seconds = _WAIT_S
                assert _asked(folder, _HOLES) == 0, "rows behind others are there, and they are not"
                took[name].append(round(seconds, 2))
                twice[name].append(_asked(folder, _TWICE))
                print(name, took[name][-1], "s, rows twice:", twice[name][-1], flush=True)
    assert not any(twice["ours"]), twice
    assert "ours" not in gave_up, took
    ratios = {
        name: ratio(took["ours"][: len(took[name])], took[name]) for name in sides if name != "ours"
    }
    result = {
        "records": tenants * records,
        "topics": tenants,
        "took_s": took,
        "rows_twice": twice,
        "gave_up": gave_up,
        "ratios": ratios,
    }
    write("recovery.quick" if quick else "recovery", result)
    for name, against in ratios.items():
        print(f"{against['median']:.2f} x Structured Streaming, {name} (target {TARGET})")


def _recovered(folder: Path, command: list[str]) -> float:
    """Seconds from the second start to its first commit; raises `TimeoutError` without one."""
    with _running(folder, command) as first:
        _until(lambda: _rows(folder) > 0, first, folder)
    before = _rows(folder)
    began = time.monotonic()
    with _running(folder, command) as second:
        _until(lambda: _rows(folder) > before, second, folder)
        return time.monotonic() - began


@contextmanager
def _running(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process, killed with all that belongs to it when the block ends."""
    with (folder / "log").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=output,
            env=_ENVIRONMENT,
        )
    try:
        yield process
    finally:
        alive = process.poll() is None
        top = [psutil.Process(process.pid)] if alive else []
        tree = [*(child for parent in top for child in parent.children(recursive=True)), *top]
        for member in tree:
            if member.is_running():
                member.send_signal(signal.SIGKILL)
        process.wait()
        psutil.wait_procs(tree, 30)


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + _WAIT_S
    while not condition():
        assert process.poll() is None, (folder / "log").read_text()[-3000:]
        if time.monotonic() > end:
            raise TimeoutError(f"no commit within {_WAIT_S:.0f} s")
        time.sleep(0.02)


def _rows(folder: Path) -> int:
    try:
        return _asked(folder, f"SELECT count(*) FROM {TABLE}")
    except sqlite3.OperationalError:
        return 0  # the table is not there yet


def _asked(folder: Path, query: str) -> int:
    with closing(sqlite3.connect(folder / "rows.db", timeout=30)) as connection:
        return int(connection.execute(query).fetchone()[0])


# --- the sides -------------------------------------------------------------------------------


def _ours(folder: Path, config: Mapping[str, str], tenants: int) -> list[str]:
    url = f"sqlite:///{folder / 'rows.db'}"
    (folder / "use_cases.py").write_text(_USE_CASE)
    settings: dict[str, Any] = {
        "module": "use_cases.py",
        "kafka": dict(config),
        "database_url": url,
        "master": "local[2]",
        "spark": {"spark.driver.memory": "3g"},
    }
    (folder / "headrace.yaml").write_text(json.dumps(settings))
    headrace = [sys.executable, "-m", "headrace"]
    deploy = [*headrace, "use-cases", "deploy", "keep", "-c", "headrace.yaml"]
    subprocess.run(deploy, cwd=folder, check=True, env=_ENVIRONMENT)
    store = open_store(url)
    for number in range(tenants):
        store.registry.add_tenant(Tenant(f"r{number}"))
    store.close()
    return [*headrace, "run", "-c", "headrace.yaml"]


def _theirs(
    folder: Path, config: Mapping[str, str], _tenants: int, *, limit: int | None
) -> list[str]:
    connection = sqlite3.connect(folder / "rows.db")
    connection.execute("PRAGMA journal_mode=WAL")
    columns = ", ".join(COLUMNS)
    connection.execute(f"CREATE TABLE {TABLE} ({columns})")
    connection.commit()
    connection.close()
    job = folder / "job.json"
    job.write_text(json.dumps({"config": dict(config), "limit": limit}))
    return [sys.executable, "-m", "benchmarks", "recovery", f"--job={job}"]


def _stream(path: Path) -> None:
    """Structured Streaming, from where it is, until it is killed."""
    job = json.loads(path.read_text())
    with session() as spark:
        query = Query(job["config"], "r[0-9]+[.]visits", path.parent / "rows.db", job["limit"])
        with query.running(spark, _scored) as running:
            running.awaitTermination()


def _scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch_of(batch, [1] * batch.num_rows)
