"""A database that is cut off around a commit, locked, or asleep in a transaction.

What is checked each time: the positions, and the rows that were written with them.
"""

from contextlib import closing

import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from acme import ACME, LANES, moves, offsets, prepare
from in_process import ALL_ROWS, World
from sqlalchemy import text

from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections, Effect, Site
from headrace.sinks import ParquetFiles, SqlTable
from headrace.store import SqlStore, open_store
from headrace.store.database import open_database

SEEN = SqlTable("seen", {"tenant": "text", "place": "bigint"})


@pytest.fixture
def store(proxied_url):
    """Acme's lanes stand at 0; the store is reached through the proxy."""
    with closing(open_store(proxied_url)) as store:
        prepare(store)
        yield store


# one commit


@pytest.mark.parametrize(("lost", "moved"), [("request", False), ("answer", True)])
def test_positions_tell_what_became_of_a_commit_that_was_cut(store, proxy, lost, moved):
    epoch = store.membership.hold([ACME])[ACME]
    proxy.fates.append(lost)
    with pytest.raises(OutcomeUnknown, match="may have happened or not"):
        store.positions.advance(moves(epoch))
    assert proxy.cuts == 1
    assert store.positions.advance(moves(epoch)) == [not moved] * LANES
    assert offsets(store) == {10}


@pytest.mark.parametrize(("lost", "moved"), [("request", False), ("answer", True)])
def test_an_intent_is_finished_once_though_its_commit_was_cut(store, proxy, lost, moved):
    epoch = store.membership.hold([ACME])[ACME]
    slices = tuple(
        Slice(LaneId(*ACME, f"acme.visits[{p}]"), "acme.visits", 0, 10, epoch) for p in range(LANES)
    )
    wave = Wave("w-1", "keep", (Bin(slices, 1.0),), 1.0)
    proxy.fates.append(lost)
    with pytest.raises(OutcomeUnknown):
        store.progress.record_intent(wave)
    store.progress.record_intent(wave)
    assert store.progress.pending_intents() == [wave]
    proxy.fates.append(lost)
    with pytest.raises(OutcomeUnknown):
        store.progress.finish_intent("w-1", moves(epoch))
    assert proxy.cuts == 2
    assert store.progress.finish_intent("w-1", moves(epoch)).moved == [not moved] * LANES
    assert store.progress.pending_intents() == []
    assert offsets(store) == {10}


def effects(epoch):
    """One for each lane, with one row that names it."""
    return [
        Effect(
            (Slice(LaneId(*ACME, f"acme.visits[{p}]"), "acme.visits", 0, 10, epoch),),
            (10,),
            pa.table({"tenant": ["acme"], "place": pa.array([p], pa.int64())}),
            move_positions=True,
        )
        for p in range(LANES)
    ]


def places(url):
    with psycopg.connect(url) as connection:
        return sorted(row[0] for row in connection.execute("SELECT place FROM seen"))


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_sql_sink_finds_out_what_became_of_its_commit(store, proxy, straight_url, lost):
    SEEN.prepare(Site(Connections({}, straight_url), store.positions))
    epoch = store.membership.hold([ACME])[ACME]
    writer = SEEN.open(Site(Connections({}, straight_url), store.positions))
    proxy.fates.append(lost)
    written = writer.write(effects(epoch))
    assert proxy.cuts == 1
    assert [(receipt.committed, receipt.superseded, receipt.error) for receipt in written] == [
        (True, False, None)
    ] * LANES
    assert places(straight_url) == list(range(LANES))
    assert offsets(store) == {10}


def test_a_sql_sink_that_was_fenced_meanwhile_does_not_call_it_its_own(store, proxy, straight_url):
    SEEN.prepare(Site(Connections({}, straight_url), store.positions))
    epoch = store.membership.hold([ACME])[ACME]
    writer = SEEN.open(Site(Connections({}, straight_url), store.positions))
    with closing(open_store(straight_url)) as rival:
        rival.membership.hold([ACME])
    proxy.fates.append("answer")
    written = writer.write(effects(epoch))
    assert proxy.cuts == 1
    assert [receipt.superseded for receipt in written] == [True] * LANES
    assert places(straight_url) == []
    assert offsets(store) == {0}


# a driver


FATES = [None, "answer", None, None, "request", "answer", None]


@pytest.fixture
def world(proxied_url, straight_url, tmp_path):
    with closing(open_store(proxied_url)) as store, closing(open_store(straight_url)) as watch:
        yield lambda sink, guarantee: World(store, watch, tmp_path, sink, guarantee)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_driver_goes_on_over_commits_that_are_cut(world, proxy, tmp_path, guarantee):
    made = world(ParquetFiles("out"), guarantee)
    proxy.fates.extend(FATES * 20)
    made.until_done()
    proxy.fates.clear()
    made.turn()
    made.turn()
    assert proxy.cuts > 5
    assert made.watch.failures.every() == []
    assert made.watch.progress.pending_intents() == []
    assert {row.note for row in made.driver.rows()} <= {None, ""}
    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table().to_pylist()
    assert sorted((row["tenant"], row["place"]) for row in found) == ALL_ROWS
    assert made.done == len(ALL_ROWS)


def test_rows_and_positions_stay_together_over_commits_that_are_cut(world, proxy, straight_url):
    made = world(SEEN, "exactly-once")
    proxy.fates.extend(FATES * 20)
    made.until_done()
    proxy.fates.clear()
    made.turn()
    assert proxy.cuts > 5
    assert made.watch.failures.every() == []
    with psycopg.connect(straight_url) as connection:
        rows = connection.execute("SELECT tenant, place FROM seen").fetchall()
    assert sorted(rows) == ALL_ROWS
    assert made.done == len(ALL_ROWS)


# locks, limits, restarts


def test_a_driver_waits_for_a_lock_that_is_held_too_long_and_goes_on(
    proxied_url, straight_url, tmp_path
):
    open_store(straight_url).close()
    impatient = SqlStore(open_database(proxied_url, lock_wait_s=0.2))
    with closing(impatient) as store, closing(open_store(straight_url)) as watch:
        made = World(store, watch, tmp_path, ParquetFiles("out"), "at-least-once")
        made.turn()
        with psycopg.connect(straight_url) as other:
            other.execute("SELECT FROM headrace_positions FOR UPDATE")
            before = made.positions()
            with pytest.raises(StoreUnavailable, match="held its lock for too long"):
                store.positions.advance([Move(LaneId("keep", "acme", "acme.visits[0]"), 0, 1, 1)])
            for _ in range(3):
                made.turn()
            assert made.positions() == before
        made.until_done()
        assert watch.failures.every() == []
        assert made.done == len(ALL_ROWS)


def test_a_statement_that_takes_too_long_is_ended(straight_url):
    open_store(straight_url).close()
    database = open_database(straight_url, statement_wait_s=0.1)
    with closing(database):
        for transaction in (database.read, database.write):
            with (
                pytest.raises(StoreUnavailable, match="took too long"),
                transaction() as connection,
            ):
                connection.execute(text("SELECT pg_sleep(60)"))


def test_a_session_that_sleeps_within_a_transaction_loses_its_locks(straight_url, monkeypatch):
    monkeypatch.setattr("headrace.databases.engines._IDLE_WAIT_S", 0.5)
    with closing(open_store(straight_url)) as store:
        prepare(store)
        epoch = store.membership.hold([ACME])[ACME]
        with pytest.raises(StoreUnavailable):
            lock_and_sleep(store._database, straight_url)
        assert store.positions.advance(moves(epoch)) == [True] * LANES


def lock_and_sleep(database, url):
    lock = "SELECT FROM headrace_positions FOR UPDATE"
    with database.write() as connection:
        connection.execute(text(lock))
        # This waits until PostgreSQL has ended the session that holds the lock.
        with psycopg.connect(url) as other:
            other.execute(lock)
        connection.execute(text("SELECT 1"))
