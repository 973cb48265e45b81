"""Keyspaces of tenants in a real Cassandra: each has its own rows, and no trouble of another's."""

import datetime as dt
import uuid

import pyarrow as pa
import pytest

from headrace.connectors import kept_servers
from headrace.connectors.cassandra.servers import cluster_of
from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import CassandraTable

pytestmark = pytest.mark.slow
MONDAY = dt.datetime(2026, 2, 2, tzinfo=dt.UTC)
VISITS = {"site": "text", "at": "timestamp", "page": "text"}


class World:
    """Keyspaces of one's own, as a sink and as their owner see them."""

    def __init__(self, url):
        self.owner = cluster_of(Connections({}, "", servers={"owner": Server(url)}), "owner")
        self.run = f"r{uuid.uuid4().hex[:12]}"
        here = url.replace("/headrace?", f"/{self.run}_{{tenant}}?")
        assert here != url
        self.connections = Connections({}, "", servers={"history": Server(here)})
        self.sink = CassandraTable(
            "visits", VISITS, key=("site", "at"), newest_by="at", by_time="at", at="history"
        )

    def keyspace(self, tenant):
        name = f"{self.run}_{tenant.replace('-', '_')}"
        self.owner.asked(
            f"CREATE KEYSPACE {name} WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        return name

    def write(self, *tenants):
        effects = [
            Effect(
                (Slice(LaneId("keep", tenant, 0), f"{tenant}.visits", 0, 1, epoch=1),),
                (1,),
                pa.table(
                    {
                        "site": ["a"],
                        "at": pa.array([MONDAY], pa.timestamp("us", "UTC")),
                        "page": [f"/{tenant}"],
                    }
                ),
            )
            for tenant in tenants
        ]
        site = Site(self.connections, None, in_company=True)
        return [told.error for told in self.sink.open(site).write(effects)]

    def pages(self, tenant):
        until = MONDAY + dt.timedelta(days=1)
        tables = self.sink.read(self.connections, "a", since=MONDAY, until=until, tenant=tenant)
        return [page for table in tables for page in table["page"].to_pylist()]


@pytest.fixture
def world(cassandra, monkeypatch):
    # Whoever makes a table on a machine that is busy needs more than a moment.
    monkeypatch.setattr("headrace.connectors.tenants.MOMENT_S", 60.0)
    return World(cassandra.url)


def test_each_tenant_has_its_own_rows_by_one_client(world):
    for tenant in ("acme", "acme-eu"):
        world.keyspace(tenant)
    world.sink.prepare(Site(world.connections, None))
    assert world.write("acme", "acme-eu", "acme") == [None] * 3
    assert world.pages("acme") == ["/acme"]
    assert world.pages("acme-eu") == ["/acme-eu"]
    with pytest.raises(ConfigError, match="each tenant has its own"):
        world.sink.read(world.connections, "a", since=MONDAY, until=MONDAY)
    clients = {id(cluster_of(world.connections, "history", t).client) for t in ("acme", "acme-eu")}
    assert len(clients) == 1


def test_a_tenant_whose_keyspace_is_not_there_stops_and_goes_on_when_it_is(world):
    world.keyspace("acme")
    fine, error = world.write("acme", "bolt")
    assert fine is None
    assert error.code == "TargetMissing"
    assert (
        f"tenant bolt: connection history: there is no keyspace {world.run}_bolt" in error.message
    )
    world.keyspace("bolt")
    assert world.write("bolt") == [None]
    assert world.pages("bolt") == ["/bolt"]


def test_a_table_that_somebody_drops_stops_its_tenant_and_is_made_again(world):
    name = world.keyspace("acme")
    world.keyspace("bolt")
    assert world.write("acme", "bolt") == [None, None]
    world.owner.asked(f"DROP TABLE {name}.visits")
    error, fine = world.write("acme", "bolt")
    assert (error.code, fine) == ("TargetMissing", None)
    assert world.write("acme") == [None]
    assert world.pages("acme") == ["/acme"]


def test_a_table_that_is_not_right_stops_its_tenant_alone(world):
    name = world.keyspace("acme")
    world.keyspace("bolt")
    world.owner.asked(f"CREATE TABLE {name}.visits (site text PRIMARY KEY, at timestamp)")
    error, fine = world.write("acme", "bolt")
    assert (error.code, fine) == ("TargetMissing", None)
    assert "without column 'bucket'" in error.message


def test_more_tenants_than_clients_are_written_all_the_same(world, monkeypatch):
    monkeypatch.setattr(kept_servers, "MOST_OF_TENANTS", 2)
    tenants = [f"t{number}" for number in range(4)]
    for tenant in tenants:
        world.keyspace(tenant)
    for _ in range(2):
        assert world.write(*tenants) == [None] * 4
    assert [world.pages(tenant) for tenant in tenants] == [[f"/{tenant}"] for tenant in tenants]
