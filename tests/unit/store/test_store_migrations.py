"""Migrations that go wrong, or have to guess; that no row is lost is in the contract tests."""

from contextlib import closing

import pytest
from sqlalchemy import inspect, text

from headrace.errors import ConfigError, StoreTooNew
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import Order, State, Stopper, StreamId, Tenant
from headrace.store import open_store
from headrace.store.database import open_database
from headrace.store.migrations import (
    VERSION_TABLE,
    downgrade,
    newest_version,
    upgrade,
    version_of,
)


@pytest.fixture
def database(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/store.db")
    yield database
    database.close()


def tables(database):
    with database.read() as connection:
        return set(inspect(connection).get_table_names()) - {VERSION_TABLE}


def test_opening_again_changes_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    first = open_store(url)
    first.registry.add_tenant(Tenant("acme"))
    second = open_store(url)
    assert second.registry.tenants() == [Tenant("acme")]
    first.close()
    second.close()


def test_a_migration_that_fails_leaves_no_half_of_it(database):
    with database.write() as connection:
        connection.execute(text("CREATE TABLE headrace_failures (mine TEXT)"))
    with pytest.raises(Exception, match="headrace_failures"):
        upgrade(database)
    assert tables(database) == {"headrace_failures"}


def test_a_store_of_a_later_headrace_is_refused_and_left_alone(tmp_path, database):
    upgrade(database)
    with database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StoreTooNew, match=rf"9999.*{newest_version()}.*install the later Headrace"):
        open_store(f"sqlite:///{tmp_path}/store.db")
    with database.read() as connection:
        assert version_of(connection) == "9999"


def test_each_store_has_a_key_of_seals_of_its_own(tmp_path):
    keys = set()
    for name in ("a", "b"):
        with closing(open_store(f"sqlite:///{tmp_path}/{name}.db")) as store:
            keys.add(store.seal_key())
    assert len(keys) == 2


def test_what_stood_still_before_anybody_noted_who_stopped_it_is_left_to_operators(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    of = {name: StreamId("score", name) for name in ("acme", "bolt", "core")}
    with closing(open_store(url)) as store:
        store.registry.deploy(Deployment("score", "s.py", "ab", "{tenant}.visits"))
        for name in of:
            store.registry.add_tenant(Tenant(name))
        store.registry.set_stream_state(of["acme"], State.SUSPENDED, "no JSON", by=Stopper.FAILURE)
        store.registry.set_stream_state(of["bolt"], State.SUSPENDED, by=Stopper.TENANT)
        store.registry.set_tenant_state("core", State.SUSPENDED, by=Stopper.TENANT)
    with closing(open_database(url)) as database:
        downgrade(database, "0007")
    with closing(open_store(url)) as store:
        assert {stream.id.tenant: stream.stopped_by for stream in store.registry.streams()} == {
            "acme": {Stopper.FAILURE},
            "bolt": {Stopper.OPERATOR},
            "core": set(),
        }
        assert [tenant.stopped_by for tenant in store.registry.tenants()] == [
            set(),
            set(),
            {Stopper.OPERATOR},
        ]


@pytest.mark.parametrize(
    ("order", "buckets", "name"),
    [
        (Order.KEY, 4, "acme.visits[0]"),
        (Order.NONE, 4, "acme.visits[0]"),
        (Order.LANE, 1, "acme.visits[0]#1/4"),
        (Order.LANE, 1, "acme.visits[0]#p1/4"),
    ],
)
def test_lanes_that_are_divided_keep_an_earlier_headrace_away(tmp_path, order, buckets, name):
    url = f"sqlite:///{tmp_path}/store.db"
    stream = StreamId("score", "acme")
    with closing(open_store(url)) as store:
        deployment = Deployment("score", "s.py", "ab", "{tenant}.visits", order, buckets)
        store.registry.deploy(deployment)
        assert [known.buckets for known in store.registry.deployments()] == [buckets]
        store.registry.add_tenant(Tenant("acme"))
        store.progress.start_lanes([LaneStart(stream, "topic-1", {name: 3})])
    with closing(open_database(url)) as database:
        with pytest.raises(ConfigError, match=r"knows no buckets.*nothing was changed"):
            downgrade(database, "0018")
        with database.read() as connection:
            assert version_of(connection) == newest_version()
