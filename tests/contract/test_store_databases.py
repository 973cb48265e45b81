"""What databases must do below the store: migrations, locks, lost connections."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from headrace.errors import ConfigError, StoreUnavailable
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, FailureState, LaneStart, Move
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.store import SqlPositions, intents, open_store
from headrace.store.database import open_database
from headrace.store.migrations import (
    VERSION_TABLE,
    downgrade,
    newest_version,
    upgrade,
    version_of,
)
from headrace.store.schema import metadata


@pytest.fixture
def database(store_url):
    database = open_database(store_url, lock_wait_s=0.05)
    yield database
    database.close()


def tables(database):
    with database.read() as connection:
        return set(inspect(connection).get_table_names()) - {VERSION_TABLE}


def backend_of(connection):
    return connection.scalar(text("SELECT pg_backend_pid()"))


def end_connection(store, backend):
    with store._database.read() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": backend})


def test_up_and_down_and_up_again(database):
    upgrade(database)
    assert tables(database) == set(metadata.tables)
    downgrade(database, "base")
    assert tables(database) == set()
    upgrade(database)
    assert tables(database) == set(metadata.tables)
    with database.read() as connection:
        assert version_of(connection) == newest_version()


def test_the_migrations_make_the_tables_that_the_code_uses(database):
    upgrade(database)
    with database.read() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_a_task_that_waits_too_long_for_a_lane_is_told_that_the_store_is_busy(store_url, database):
    store = open_store(store_url)
    store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    stream = StreamId("score", "acme")
    store.progress.start_lanes(
        [
            LaneStart(
                stream, "id", {f"{stream.tenant}.visits[0]": 0, f"{stream.tenant}.visits[1]": 0}
            )
        ]
    )
    epoch = store.membership.hold([stream])[stream]
    moves = [Move(LaneId(*stream, f"{stream.tenant}.visits[{p}]"), 0, 1, epoch) for p in (0, 1)]
    with database.write() as other:
        other.execute(text("UPDATE headrace_positions SET next_offset = 0"))
        with pytest.raises(StoreUnavailable, match="lock"), database.write() as connection:
            SqlPositions(database).advance_in(connection, moves)
    assert store.positions.advance(moves) == [True, True]
    store.close()


def test_a_seek_finds_what_is_divided_at_that_moment(postgres_url):
    store, streams = open_store(postgres_url), [StreamId("score", name) for name in "ab"]
    store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    for stream in streams:
        store.registry.add_tenant(Tenant(stream.tenant))
        store.progress.start_lanes([LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 0})])
    epochs = store.membership.hold(streams)
    a, b = (
        Slice(LaneId(*stream, f"{stream.tenant}.visits[0]"), "v", 0, 5, epochs[stream])
        for stream in streams
    )
    whole, *parts = (
        Wave(name, "score", (Bin(slices, 1.0),), 1.0)
        for name, slices in (("w", (a, b)), ("w.a", (a,)), ("w.b", (b,)))
    )
    store.progress.record_intent(whole)
    with ThreadPoolExecutor(1) as pool:
        with store._database.write() as connection:
            intents.finish(connection, "w", [], None, parts=parts)
            sought = pool.submit(store.progress.seek, streams[0], {"a.visits[0]": 3}, "id")
            with pytest.raises(TimeoutError):
                sought.result(0.5)
        sought.result(30)
    assert store.progress.pending_intents() == parts[1:]
    store.close()


def test_names_sort_by_code_point(store_url):
    store = open_store(store_url)
    names = ["a-b", "ab", "a", "a0", "b", "a-c"]
    for name in names:
        store.registry.add_tenant(Tenant(name))
    assert [tenant.name for tenant in store.registry.tenants()] == sorted(names)
    store.close()


def test_a_store_without_tables_is_told(database):
    with pytest.raises(ConfigError, match="no tables"), database.read() as connection:
        connection.execute(text("SELECT * FROM headrace_positions"))


def test_a_lost_connection_is_told_and_the_next_operation_works(postgres_url):
    store = open_store(postgres_url)
    ender = open_store(postgres_url)

    def write_on_a_connection_that_ends():
        with store._database.write() as connection:
            end_connection(ender, backend_of(connection))
            connection.execute(text("UPDATE headrace_revision SET revision = 99"))

    with pytest.raises(StoreUnavailable):
        write_on_a_connection_that_ends()
    assert store.revision() == 0
    store.close()
    ender.close()


def test_a_server_restarted_between_two_operations_is_not_noticed(postgres_url):
    store = open_store(postgres_url)
    ender = open_store(postgres_url)
    with store._database.read() as connection:
        backend = backend_of(connection)
    end_connection(ender, backend)
    assert store.revision() == 0
    store.close()
    ender.close()


OLD_TENANTS = "INSERT INTO headrace_tenants (name, state, weight) VALUES (:name, 'active', 1)"
OLD_USE_CASE = """
INSERT INTO headrace_deployments
    (use_case, module, digest, topic, record_order, starting_offsets, all_tenants, priority,
     options)
VALUES ('score', 'm.py', '00', '{tenant}.visits', 'lane', 'earliest', :yes, 1, '{}')
"""
OLD_STREAM = """
INSERT INTO headrace_streams (use_case, tenant, topic, state, epoch, reason)
VALUES ('score', :tenant, 't', :state, 1, 'HandlerError')
"""
OLD_POSITION = """
INSERT INTO headrace_positions (use_case, tenant, partition, next_offset, epoch)
VALUES ('score', :tenant, :partition, :next_offset, 1)
"""
OLD_FAILURE = """
INSERT INTO headrace_failures
    (at_s, use_case, tenant, partition, topic, from_offset, until_offset, epoch, more, temporary,
     record_offset, code, message, traceback)
VALUES (1, 'score', :tenant, :partition, 't', 0, :until, 1, :no, :no, 3, 'X', :empty, :empty)
"""


@pytest.fixture
def store_of_version_1(store_url, database):
    """Acme was suspended by failures in two lanes and sought past one; bolt's was resumed."""
    upgrade(database)
    downgrade(database, "0001")
    with database.write() as connection:

        def put(statement, **values):
            connection.execute(text(statement), values)

        put(OLD_USE_CASE, yes=True)
        for tenant, state in (("acme", "suspended"), ("bolt", "active")):
            put(OLD_TENANTS, name=tenant)
            put(OLD_STREAM, tenant=tenant, state=state)
            for partition, next_offset in ((0, 3), (1, 50)):
                put(OLD_POSITION, tenant=tenant, partition=partition, next_offset=next_offset)
            for partition, until in ((0, 5), (0, 9), (1, 9)):
                values = {"no": False, "empty": b""}
                put(OLD_FAILURE, tenant=tenant, partition=partition, until=until, **values)
    return store_url


def test_what_version_1_held_goes_on_with_the_defaults(store_of_version_1):
    store = open_store(store_of_version_1)
    assert store.registry.tenants() == [Tenant("acme"), Tenant("bolt")]
    assert store.registry.deployments() == [Deployment("score", "m.py", "00", "{tenant}.visits")]
    failures = store.failures.every()
    assert {(failure.attempts, failure.error.code) for failure in failures} == {(1, "X")}
    still = [failure for failure in failures if failure.state is FailureState.OPEN]
    assert [(failure.slice.lane, failure.slice.until_offset) for failure in still] == [
        (LaneId("score", "acme", "t[0]"), 9)
    ]
    states = {stream.id.tenant: stream.state for stream in store.registry.streams()}
    assert states == {"acme": State.SUSPENDED, "bolt": State.ACTIVE}
    store.close()


def test_a_way_back_to_version_1_and_up_keeps_failures_and_stops_their_streams(
    store_of_version_1, database
):
    store = open_store(store_of_version_1)
    acme = StreamId("score", "acme")
    store.failures.skip(store.failures.every(only_open=True)[0].id)
    store.registry.set_stream_state(acme, State.ACTIVE)
    error = SliceError(False, "BadRecord", "bad", offset=50, raw_headers=(("a", b"1"),))
    number = store.failures.keep(
        [Failure(Slice(LaneId(*acme, "t[1]"), "t", 50, 60, 1), error, 2.0, 4)]
    )[0]
    before = _numbers(store.failures.every())
    downgrade(database, "0001")
    with database.read() as connection:
        states = connection.execute(text("SELECT tenant, state FROM headrace_streams")).all()
        assert sorted(map(tuple, states)) == [("acme", "suspended"), ("bolt", "active")]
    upgrade(database)
    assert _numbers(store.failures.every()) == before
    assert _numbers(store.failures.every(only_open=True)) == [number]
    assert store.failures.one(number).error == error
    store.close()


def _numbers(failures):
    return [failure.id for failure in failures]
