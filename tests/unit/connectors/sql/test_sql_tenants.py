"""Each tenant's rows in a database of its own: who is in whose way, and who is not."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tenants_world import COLUMNS, World, effect

from headrace.connectors import kept_servers
from headrace.connectors.sql import servers, table
from headrace.errors import ConfigError
from headrace.ports import Connections, Server
from headrace.sinks import SqlTable
from headrace.testing.clock import FakeClock


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_each_tenant_has_its_own_rows_and_notes_and_outcomes_are_in_their_order(world):
    world.sink.prepare(world.site())
    told = world.write(effect("acme"), effect("bolt", "b"), effect("acme", "c", 9))
    assert [one.error for one in told] == [None] * 3
    assert world.rows("acme") == [("a", 1), ("c", 1)]
    assert world.rows("bolt") == [("b", 1)]
    again = world.write(effect("bolt", "b"), effect("acme", "c", 9))
    assert [one.reached for one in again] == [(9,), (18,)]


def test_a_deploy_makes_nothing_for_tenants_and_looks_at_the_address(world, tmp_path):
    world.sink.prepare(world.site())
    assert list(tmp_path.iterdir()) == []
    wrong = World(tmp_path, history="oracle://db/{tenant}")
    with pytest.raises(ConfigError, match="kind oracle, which is not known"):
        wrong.sink.prepare(wrong.site())


def test_a_connection_of_each_tenant_is_named_by_it_and_who_has_none_stops_alone(tmp_path):
    urls = {
        f"history_{name}": f"sqlite:///{tmp_path}/{name}/history.db" for name in ("acme", "cove")
    }
    world = World(tmp_path, "history-{tenant}", **urls)
    world.sink.prepare(world.site())
    told = world.write(effect("acme"), effect("bolt"), effect("cove"))
    assert [one.error and one.error.code for one in told] == [None, "TargetMissing", None]
    assert "tenant bolt: there is no connection 'history-bolt'" in told[1].error.message
    assert not any(other in told[1].error.message for other in ("acme", "cove"))
    assert world.rows("cove") == [("a", 1)]


def test_a_table_of_one_tenant_that_does_not_fit_stops_it_alone_until_it_is_mended(world):
    world.write(effect("acme"), effect("bolt"))
    for tenant in ("acme", "bolt"):
        servers.target_of(world.connections, "history", tenant).fitted.clear()
    with closing(sqlite3.connect(world.folder / "acme" / "history.db")) as database:
        database.execute("ALTER TABLE leads RENAME COLUMN size TO amount")
    told = world.write(effect("acme", first=9), effect("bolt", first=9))
    assert [one.error and one.error.code for one in told] == ["TargetMissing", None]
    assert "is there without column 'size'" in told[0].error.message
    with closing(sqlite3.connect(world.folder / "acme" / "history.db")) as database:
        database.execute("ALTER TABLE leads RENAME COLUMN amount TO size")
    assert world.write(effect("acme", first=9))[0].error is None


@pytest.mark.parametrize(
    ("url", "longest"),
    [
        ("postgresql://db/history-{tenant}", 55),
        ("postgresql://db/?dbname=history-{tenant}", 55),
        ("postgresql://history-{tenant}@db/history", 55),
        ("mariadb://db/history-{tenant}", 56),
        ("mariadb://db/x?database=history-{tenant}", 56),
    ],
)
def test_a_name_that_its_server_would_cut_is_refused(url, longest):
    world = World(None, history=url)
    whole, cut = "a" * longest, "a" * (longest + 1)
    assert servers.target_of(world.connections, "history", whole)
    with pytest.raises(ConfigError, match=f"takes {longest + 9} bytes, and its server takes"):
        servers.target_of(world.connections, "history", cut)


@pytest.mark.parametrize(
    ("store", "url"),
    [
        (
            "postgresql://headrace:pw@localhost/headrace",
            "postgresql://root@127.0.0.1:5432/{tenant}",
        ),
        ("postgresql://DB:5433/headrace", "postgres://x@db:5433/{tenant}"),
        ("postgresql://db/headrace", "postgresql://other/?dbname={tenant}&host=db"),
        ("sqlite:////srv/headrace/store.db", "sqlite:////srv/{tenant}/store.db"),
        ("postgresql://10.0.0.7/headrace", "postgresql://x/{tenant}?hostaddr=10.0.0.7"),
        ("postgresql://db:5433/headrace", "postgresql:///{tenant}?host=db:5433"),
        ("postgresql://db/headrace", "postgresql:///{tenant}?host=other,db"),
        ("postgresql://db/headrace", "postgresql:///{tenant}?host=other:5433&host=db:5432"),
        ("postgresql://db:5433/headrace", "postgresql:///{tenant}?host=a,db&port=5432,5433"),
        ("postgresql://a,b/headrace", "postgresql://b./{tenant}"),
        ("postgresql:///headrace", "postgresql:///{tenant}?host=/run/postgresql"),
    ],
)
def test_a_tenant_that_is_called_as_the_stores_database_has_no_rows_there(store, url):
    connections = Connections({}, store, servers={"history": Server(url)})
    with pytest.raises(ConfigError, match="the store's own"):
        servers.target_of(connections, "history", "headrace")


def test_connections_of_tenants_that_wrote_long_ago_are_given_up(world, monkeypatch):
    monkeypatch.setattr(servers._targets, "held", {})
    monkeypatch.setattr(kept_servers, "MOST_OF_TENANTS", 2)
    clock = FakeClock()
    monkeypatch.setattr(kept_servers, "time", SimpleNamespace(monotonic=clock.monotonic_s))
    for number in range(4):
        world.write(effect(f"t{number}"))
        clock.move(61.0)
    kept = {key.tenant for key in servers._targets.held if key.tenant}
    assert kept == {"t2", "t3"}
    looked = []
    monkeypatch.setattr(table, "fit", lambda *_: looked.append(_))
    assert world.write(effect("t0", first=9))[0].error is None
    assert looked == [], "its table was found to fit once in this process"


def test_of_many_tenants_in_turn_most_find_their_connections(world, monkeypatch):
    monkeypatch.setattr(servers._targets, "held", {})
    monkeypatch.setattr(kept_servers, "MOST_OF_TENANTS", 5)
    made, make = [], servers._made

    def counted(*args):
        made.append(args)
        return make(*args)

    monkeypatch.setattr(servers, "_made", counted)
    for _ in range(10):
        for number in range(6):
            servers.target_of(world.connections, "history", f"t{number}")
    assert len([key for key in servers._targets.held if key.tenant]) == 5
    assert len(made) <= 6 + 9 * 2


def test_only_a_deploy_is_told_which_connections_there_are(tmp_path):
    world = World(tmp_path, "history", crm_acme=f"sqlite:///{tmp_path}/acme.db")
    with pytest.raises(ConfigError, match="names crm-acme; add it there"):
        world.sink.prepare(world.site())
    with pytest.raises(ConfigError, match="no connection 'history'") as found:
        world.sink.open(world.site())
    assert "acme" not in str(found.value)


@pytest.mark.parametrize("at", ["{tenant}", "history-{topic}", "history-{tenant"])
def test_other_braces_than_a_tenants_are_refused(at):
    with pytest.raises(ConfigError, match="may stand in braces, and not alone"):
        SqlTable("leads", COLUMNS, at=at)


def test_a_tenant_whose_client_cannot_begin_stops_alone(tmp_path):
    world = World(
        tmp_path,
        at="of-{tenant}",
        of_acme=f"sqlite:///{tmp_path}/acme/history.db",
        of_bolt="mysql://nobody@127.0.0.1:1/bolt?sslmode=require",
    )
    told = world.write(effect("acme"), effect("bolt"))
    assert told[0].error is None
    assert told[1].error.code == "TargetMissing"
    assert world.rows("acme") == [("a", 1)]


def test_what_is_declared_otherwise_is_looked_at_again(world):
    columns = {"lead": "text", "paid": "decimal(9, 2)"}
    plain = SqlTable("leads", columns, key=("lead",), at="history")
    table = pa.table({"lead": ["a"], "paid": pa.array([Decimal("0.10")], pa.decimal128(9, 2))})
    paid = replace(effect("acme"), output=table)
    assert plain.open(world.site()).write([paid])[0].error is None
    # SQLite keeps them as texts, and would add them up as floats.
    adds = replace(plain, update={"paid": "leads.paid + excluded.paid"})
    (told,) = adds.open(world.site()).write([paid])
    assert told.error.code == "TargetMissing"


def test_a_table_that_is_gone_is_made_again_when_its_lanes_are_resumed(world):
    assert world.write(effect("acme"))[0].error is None
    with closing(sqlite3.connect(world.folder / "acme" / "history.db")) as database:
        database.execute("DROP TABLE leads")
    (stopped,) = world.write(effect("acme", "b", 9))
    assert stopped.error.code == "TargetMissing"
    assert world.write(effect("acme", "b", 9))[0].error is None
    assert world.rows("acme") == [("b", 1)]


@pytest.mark.parametrize(
    "url", ["sqlite:///{}/bolt/history.db?timeout=2s", "mysql://a@127.0.0.1/b?connect_timeout=2s"]
)
def test_a_wrong_option_of_a_tenants_url_stops_that_tenant_alone(tmp_path, url):
    good = f"sqlite:///{tmp_path}/acme/history.db"
    world = World(tmp_path, at="of-{tenant}", of_acme=good, of_bolt=url.format(tmp_path))
    told = world.write(effect("bolt"), effect("acme"))
    assert told[0].error.code == "TargetMissing"
    assert "of-bolt" in told[0].error.message
    assert told[1].error is None


def test_a_process_gives_up_no_connection_of_its_parent(world, monkeypatch):
    monkeypatch.setattr(kept_servers, "MOST_OF_TENANTS", 1)
    kept = servers.target_of(world.connections, "history", "acme")
    closed = []

    def close(target):
        closed.append(target)

    monkeypatch.setattr(servers.Target, "close", close)
    monkeypatch.setattr(kept_servers.os, "getpid", lambda: -1)
    mine = [servers.target_of(world.connections, "history", tenant) for tenant in ("bolt", "cove")]
    assert kept not in closed
    assert closed == mine[:1]
