"""Committing the positions of a wave in PostgreSQL, against raw transactions that write the same.

Ours is `positions.advance`: the pool's look at the connection, the limits of the transaction, the
compare-and-set of every lane with an answer for each, and the commit. The raw ones use an open
connection of psycopg: `executemany` of one UPDATE for each lane, which psycopg sends as a pipeline;
the very statement of ours; and, to show what its promises cost, an UPDATE from arrays that neither
looks where a lane was nor locks in order. The server syncs every commit to the disk.

All move the same rows, taking turns in being first; after each the rows are counted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness import ratio, write
from headrace.embedded import EmbeddedPostgres
from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, StreamId, Tenant
from headrace.store import SqlStore, open_store
from headrace.store.positions import _MOVE_ALL

SIZES = (100, 1000)
LANES_OF_A_STREAM = 10
ROUNDS = 60
QUICK_ROUNDS = 5
TARGET = 1.5
EACH = """
UPDATE headrace_positions SET next_offset = %s
WHERE use_case = %s AND tenant = %s AND lane = %s AND next_offset = %s AND epoch = %s
"""
BLIND = """
UPDATE headrace_positions p SET next_offset = m.next_offset
FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[])
    AS m (use_case, tenant, lane, next_offset)
WHERE p.use_case = m.use_case AND p.tenant = m.tenant AND p.lane = m.lane
"""
Contender = Callable[[list[Move]], None]


def main(args: list[str]) -> None:
    """Run all sizes and write `results/commit.json`."""
    rounds = QUICK_ROUNDS if "--quick" in args else ROUNDS
    with _server() as url:
        sizes = [_measure(url, lanes, rounds) for lanes in SIZES]
    for size in sizes:
        print(
            f"{size['lanes']} lanes: {size['ratio_to_executemany']['median']:.2f} of a raw "
            f"transaction with executemany, {size['ratio_to_same_statement']['median']:.2f} of one "
            f"with our statement (target {TARGET}), {size['ratio_to_blind']['median']:.2f} of one "
            f"that looks at nothing; ours {_median_ms(size['ours_s'])} ms"
        )
    if "--quick" not in args:
        write("commit", {"rounds": rounds, "target": TARGET, "sizes": sizes})


@contextmanager
def _server() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        # root's PostgreSQL is not root
        Path(folder).chmod(0o711)
        with EmbeddedPostgres(Path(folder) / "postgres") as postgres:
            yield postgres.url


def _measure(url: str, lanes: int, rounds: int) -> dict[str, Any]:
    name = f"commit-{lanes}"
    with closing(open_store(url)) as store, psycopg.connect(url) as raw:
        epochs = _prepare(store, name, lanes)
        contenders: dict[str, Contender] = {
            "ours_s": lambda moves: _ours(store, moves),
            "executemany_s": lambda moves: _executemany(raw, moves),
            "same_statement_s": lambda moves: _same_statement(raw, moves),
            "blind_s": lambda moves: _blind(raw, moves),
        }
        times: dict[str, list[float]] = {contender: [] for contender in contenders}
        at = 0
        for number in range(rounds + 2):
            names = list(contenders)
            first = number % len(names)
            for contender in names[first:] + names[:first]:
                moves = _moves(epochs, at)
                began = time.perf_counter()
                contenders[contender](moves)
                took = time.perf_counter() - began
                at += 1
                _count(raw, name, at, lanes)
                if number >= 2:
                    times[contender].append(round(took, 6))
    return {
        "lanes": lanes,
        **times,
        "ratio_to_executemany": ratio(times["ours_s"], times["executemany_s"]),
        "ratio_to_same_statement": ratio(times["ours_s"], times["same_statement_s"]),
        "ratio_to_blind": ratio(times["ours_s"], times["blind_s"]),
    }


def _prepare(store: SqlStore, name: str, lanes: int) -> dict[LaneId, int]:
    store.registry.deploy(
        Deployment(name, "bench.py", "0" * 64, "{tenant}.visits", all_tenants=False)
    )
    streams = [StreamId(name, f"tenant-{n:05}") for n in range(lanes // LANES_OF_A_STREAM)]
    known = {tenant.name for tenant in store.registry.tenants()}
    for stream in streams:
        if stream.tenant not in known:
            store.registry.add_tenant(Tenant(stream.tenant))
        store.registry.add_stream(stream)
    store.progress.start_lanes(
        [
            LaneStart(s, "id", {f"{s.tenant}.visits[{p}]": 0 for p in range(LANES_OF_A_STREAM)})
            for s in streams
        ]
    )
    held = store.membership.hold(streams)
    return {
        LaneId(*s, f"{s.tenant}.visits[{p}]"): held[s]
        for s in streams
        for p in range(LANES_OF_A_STREAM)
    }


def _moves(epochs: dict[LaneId, int], at: int) -> list[Move]:
    return [Move(lane, at, at + 1, epoch) for lane, epoch in epochs.items()]


def _ours(store: SqlStore, moves: list[Move]) -> None:
    assert all(store.positions.advance(moves)), "a move was refused"


def _executemany(raw: psycopg.Connection, moves: list[Move]) -> None:
    with raw.cursor() as cursor:
        rows = [(m.to_offset, *m.lane, m.from_offset, m.epoch) for m in moves]
        cursor.executemany(EACH, rows)
    raw.commit()


def _same_statement(raw: psycopg.Connection, moves: list[Move]) -> None:
    rows = [
        (number, *m.lane, m.from_offset, m.to_offset, m.epoch) for number, m in enumerate(moves)
    ]
    raw.execute(_MOVE_ALL, [list(column) for column in zip(*rows, strict=True)]).fetchall()
    raw.commit()


def _blind(raw: psycopg.Connection, moves: list[Move]) -> None:
    rows = [(*m.lane, m.to_offset) for m in moves]
    raw.execute(BLIND, [list(column) for column in zip(*rows, strict=True)])
    raw.commit()


def _count(raw: psycopg.Connection, name: str, at: int, lanes: int) -> None:
    query = "SELECT count(*) FROM headrace_positions WHERE use_case = %s AND next_offset = %s"
    found = raw.execute(query, (name, at)).fetchone()
    raw.rollback()
    assert found == (lanes,), f"{found} of {lanes} lanes moved"


def _median_ms(seconds: list[float]) -> float:
    return round(sorted(seconds)[len(seconds) // 2] * 1e3, 2)


if __name__ == "__main__":
    main([])
