"""A keyspace, or a cluster, for each tenant: whose is whose, and how long others wait for one."""

import operator
import queue
import socket
import threading
import time
from contextlib import closing

import pyarrow as pa
import pytest

from headrace.connectors import tenants
from headrace.connectors.cassandra import servers
from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.servers import cluster_of
from headrace.connectors.kept_servers import MOST_OF_TENANTS
from headrace.errors import ConfigError, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, RefusedRow, Server, Site, Written
from headrace.sinks import CassandraTable

KEYSPACES = "cassandra://h/history_{tenant}?datacenter=dc1"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(servers._clusters, "held", {})


def connections(**named):
    servers_ = {name.replace("_", "-"): server for name, server in named.items()}
    return Connections({}, "", servers=servers_)


def sink(at="history"):
    columns = {"id": "text", "changed": "bigint"}
    return CassandraTable("leads", columns, key=("id",), newest_by="changed", at=at)


def effect(tenant):
    piece = Slice(LaneId("keep", tenant, 0), f"{tenant}.visits", 0, 9, epoch=1)
    return Effect((piece,), (9,), pa.table({"id": ["a"], "changed": [1]}))


def written(known, *effects, at="history", in_company=True):
    site = Site(known, None, in_company=in_company)
    return sink(at).open(site).write(effects)


def codes(told):
    return ["untried" if one.untried else one.error and one.error.code for one in told]


def test_a_tenant_has_its_own_keyspace_and_user():
    said = Server("cassandra://{tenant}.example.org/of_{tenant}?datacenter=dc1", "u-{tenant}", "p")
    found = address_of(said, "history", "acme-eu")
    assert (found.hosts, found.keyspace, found.user) == (
        (("acme-eu.example.org", 9042),),
        "of_acme_eu",
        "u-acme-eu",
    )


@pytest.mark.parametrize("tenant", ["a" * 49, "7up"])
def test_a_tenant_whose_keyspace_cannot_be_is_refused_and_not_cut(tenant):
    with pytest.raises(ConfigError, match="47 letters"):
        address_of(Server("cassandra://h/{tenant}?datacenter=dc1"), "history", tenant)


def test_keyspaces_share_a_client_and_users_do_not():
    known = connections(history=Server(KEYSPACES), apart=Server(KEYSPACES, "u-{tenant}", "p"))
    one, other = (cluster_of(known, "history", tenant) for tenant in ("acme", "bolt"))
    assert one.client is other.client
    assert one.address.keyspace == "history_acme"
    one, other = (cluster_of(known, "apart", tenant) for tenant in ("acme", "bolt"))
    assert one.client is not other.client


def test_of_many_tenants_that_come_in_turn_most_keep_their_client(monkeypatch):
    closed = queue.Queue()

    def close(client):
        closed.put(client)

    monkeypatch.setattr(servers.Client, "close", close)
    known = connections(apart=Server(KEYSPACES, "u-{tenant}", "p"))
    tenants = [f"t{number}" for number in range(MOST_OF_TENANTS + 10)]
    clients = [cluster_of(known, "apart", tenant).client for tenant in tenants]
    given_up = {closed.get(timeout=60) for _ in range(10)}
    assert given_up < set(clients)
    again = [cluster_of(known, "apart", tenant).client for tenant in tenants]
    assert sum(map(operator.is_, clients, again)) == MOST_OF_TENANTS


def test_who_shares_a_client_keeps_it(monkeypatch):
    monkeypatch.setattr(servers.Client, "close", lambda _: pytest.fail("it is in use"))
    known = connections(all=Server(KEYSPACES))
    shared = cluster_of(known, "all", "t0").client
    for number in range(3 * MOST_OF_TENANTS):
        assert cluster_of(known, "all", f"t{number}").client is shared


def test_a_deploy_knows_no_tenants_and_asks_nobody():
    site = Site(connections(history=Server(KEYSPACES)), None)
    sink().prepare(site)
    with pytest.raises(ConfigError, match="keyspace"):
        sink().prepare(Site(connections(history=Server("cassandra://h/{tenant}-x")), None))
    with pytest.raises(ConfigError, match="there is"):
        sink("lake").prepare(site)
    with pytest.raises(ConfigError, match="in braces"):
        sink("{tenant}")


def test_a_tenant_without_a_connection_stops_and_no_other_one_does(monkeypatch):
    known = connections(crm_acme=Server("cassandra://h/acme?datacenter=dc1"))
    monkeypatch.setattr(servers.Cluster, "make_ready", lambda *_: None)
    monkeypatch.setattr(servers.Cluster, "session", _away)
    told = written(known, effect("acme"), effect("bolt"), at="crm-{tenant}")
    assert codes(told) == ["SinkUnavailable", "TargetMissing"]
    assert told[1].error.message.startswith("tenant bolt: ")
    assert "crm-acme" not in told[1].error.message


def _away(_cluster):
    raise SinkUnavailable("away")


def test_a_cluster_that_says_nothing_holds_others_up_for_a_moment(monkeypatch):
    monkeypatch.setattr(tenants, "MOMENT_S", 0.4)
    monkeypatch.setattr(tenants, "ALL_S", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"cassandra://127.0.0.1:{silent.getsockname()[1]}/of_{{tenant}}?datacenter=dc1"
        known = connections(history=Server(url, "u-{tenant}", "p"))
        began_s = time.monotonic()
        told = written(known, *map(effect, ("acme", "bolt", "crow")))
    assert codes(told) == ["TenantsSinkSlow", "TenantsSinkSlow", "untried"]
    assert time.monotonic() - began_s < 3
    assert "does not answer in time" in told[0].error.message


def test_what_takes_long_goes_on_and_is_found_done():
    cluster = cluster_of(connections(history=Server(KEYSPACES)), "history", "acme")
    release, made = threading.Event(), []

    def make():
        assert release.wait(30)
        made.append(True)

    for _ in range(2):
        with pytest.raises(SinkUnavailable, match="in time"):
            cluster.make_ready("table", make, time.monotonic() + 0.05)
    release.set()
    cluster.make_ready("table", make, float("inf"))
    cluster.make_ready("table", make, time.monotonic())
    assert made == [True]
    cluster.forget()
    cluster.make_ready("table", make, float("inf"))
    assert made == [True, True]


def test_what_could_not_be_made_ready_is_tried_again():
    cluster = cluster_of(connections(history=Server(KEYSPACES)), "history", "acme")
    told = [TargetMissing("gone"), None]

    def make():
        error = told.pop(0)
        if error:
            raise error

    with pytest.raises(TargetMissing):
        cluster.make_ready("table", make, float("inf"))
    cluster.make_ready("table", make, float("inf"))
    assert not told


class Slow:
    """Takes a row and not the other, and its time for that."""

    def write(self, effects):
        time.sleep(0.3)
        silent = tenants.failed(SinkUnavailable("away"))
        return [Written(refused=(RefusedRow(1, silent.error),)) for _ in effects]


def test_rows_of_one_that_was_slow_are_not_offered_again_while_others_wait(monkeypatch):
    monkeypatch.setattr(tenants, "LONG_S", 0.1)
    writer = tenants.TenantsWriter(lambda *_: Slow(), lambda _: None, in_company=True)
    [told] = writer.write([effect("acme")])
    assert (told.error.code, told.refused) == ("TenantsSinkSlow", ())
    monkeypatch.setattr(tenants, "LONG_S", 10.0)
    [told] = writer.write([effect("acme")])
    assert told.error is None
    assert [row.row for row in told.refused] == [1]


def test_an_address_that_cannot_be_read_costs_its_own_tenant_alone():
    known = connections(of_acme=Server("cassandra://[hunter2/x?datacenter=dc1"))
    first, second = written(known, effect("acme"), effect("bolt"), at="of-{tenant}")
    assert codes([first, second]) == ["TargetMissing", "TargetMissing"]
    assert "is no Cassandra" in first.error.message
    assert "hunter2" not in first.error.message
    assert "there is no connection 'of-bolt'" in second.error.message
