"""Rows into another database than the store's through the sink, against its client's `executemany`.

Both write the same rows over a key, in turn, in one process, to tables of their own in one server:
the sink from the effects of a hundred slices of a recorded wave, a bin at a time, with a note for
each lane in the transaction; the other from tuples that are made before, a transaction for each
bin, and notes nothing. Once in PostgreSQL by psycopg, once in MariaDB by PyMySQL. The rows are
counted, and a number in them summed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pymysql
from sqlalchemy import make_url

from benchmarks import harness
from benchmarks.beside_client import measured
from benchmarks.harness import StandingPositions
from headrace.embedded import EmbeddedPostgres
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from mariadb_server import MariaDbServer

LANES, EACH, BINS, ROUNDS = 100, 100, 4, 5
TARGET = 0.7
COLUMNS = {
    "lane": "bigint",
    "record": "bigint",
    "path": "text",
    "bytes": "bigint",
    "seconds": "double",
}
INSERT = "INSERT INTO by_client VALUES (%s, %s, %s, %s, %s)"
REPLACING = {
    "postgres": " ON CONFLICT (lane, record) DO UPDATE SET path = excluded.path, "
    "bytes = excluded.bytes, seconds = excluded.seconds",
    "mariadb": " ON DUPLICATE KEY UPDATE path = VALUES(path), bytes = VALUES(bytes), "
    "seconds = VALUES(seconds)",
}


def main(args: list[str]) -> None:
    """Run and write `results/sql_elsewhere.json`."""
    quick = "--quick" in args
    bins, rounds = (1, 1) if quick else (BINS, ROUNDS)
    waves = [_effects(number) for number in range(bins)]
    found = {}
    for kind, serving in {"postgres": _postgres, "mariadb": _mariadb}.items():
        with serving() as (url, connection):
            found[kind] = _measured(kind, url, connection, waves, rounds)
        print(f"{kind}: {found[kind]['rows_per_s']} rows/s; ratio {found[kind]['ratio']}")
    print(f"target {TARGET}")
    if not quick:
        harness.write("sql_elsewhere", {"bins": bins, "rows_a_bin": LANES * EACH, **found})


@contextmanager
def _postgres() -> Iterator[tuple[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        EmbeddedPostgres(_open(folder) / "postgres") as server,
        psycopg.connect(server.url) as connection,
    ):
        yield server.url, connection


@contextmanager
def _mariadb() -> Iterator[tuple[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        MariaDbServer(Path(folder) / "mariadb") as server,
    ):
        at = make_url(server.url)
        connection = pymysql.connect(
            host=at.host,
            port=at.port or 0,
            user=at.username,
            password=str(at.password),
            database=at.database,
        )
        with connection:
            yield server.url, connection


def _open(folder: str) -> Path:
    """A folder that a server which is not root's can reach."""
    Path(folder).chmod(0o755)
    return Path(folder)


def _effects(number: int) -> list[Effect]:
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
        made.append(Effect((piece,), (start + EACH,), pa.table(rows)))
    return made


def _measured(
    kind: str, url: str, connection: Any, waves: Sequence[Sequence[Effect]], rounds: int
) -> dict[str, Any]:
    sinks = {
        name: SqlTable(name, COLUMNS, ("lane", "record"), at="elsewhere")
        for name in ("by_sink", "by_client")
    }
    connections = Connections({}, "", servers={"elsewhere": Server(url)})
    for sink in sinks.values():
        sink.prepare(Site(connections, StandingPositions()))
    given = [_as_tuples(wave) for wave in waves]
    rounds_told = iter(range(rounds + 1))

    def by_sink() -> None:
        number = next(rounds_told)  # a wave whose lanes are noted as done would write nothing
        for bin_number, effects in enumerate(waves):
            site = Site(connections, StandingPositions(), f"wave-{number}-{bin_number}", "fence")
            writer = sinks["by_sink"].open(site)
            assert all(told.error is None for told in writer.write(effects))
            writer.close()

    def emptied() -> None:
        _asked(connection, *(f"DELETE FROM {name}" for name in sinks))

    contenders: dict[str, Callable[[], None]] = {
        "sink": by_sink,
        "client": lambda: _by_client(connection, INSERT + REPLACING[kind], given),
    }
    return measured(
        waves, rounds, contenders, empty=emptied, counted=lambda name: _counted(connection, name)
    )


def _as_tuples(wave: Sequence[Effect]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for effect in wave for row in effect.output.to_pylist()]


def _by_client(connection: Any, statement: str, given: Sequence[list[tuple[Any, ...]]]) -> None:
    for rows in given:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)
        connection.commit()


def _asked(connection: Any, *statements: str) -> Any:
    """The first row that the last one answers, if it answers rows."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        found = cursor.fetchone() if cursor.description else None
    connection.commit()
    return found


def _counted(connection: Any, name: str) -> tuple[int, int]:
    rows, total = _asked(connection, f"SELECT count(*), sum(bytes) FROM {name}")
    return int(rows), int(total)
