"""Rows in a real HBase: what readers find, and what becomes of rows that it does not take."""

import datetime as dt
import os
import signal
import time
from decimal import Decimal

import happybase
import pyarrow as pa
import pytest
from leads import (
    LEADS,
    SAID,
    Target,
    due_after_zombies,
    effect,
    of_leads,
    one,
    taken_before_a_kill,
)

from headrace.connectors import own_servers
from headrace.connectors.hbase import servers
from headrace.connectors.hbase.addresses import address_of
from headrace.embedded import EmbeddedHBase
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.record_versions import version_of
from headrace.ports import Connections, Server, Site
from headrace.sinks import HBaseTable

#: of a cell, in a server of one's own
MOST_BYTES = 2**19
#: as a Thrift server can be told to be spoken to, and how far versions may be before its clock
OF_OWN = {
    "hbase.client.keyvalue.maxsize": str(MOST_BYTES),
    "hbase.regionserver.thrift.framed": "true",
    "hbase.regionserver.thrift.compact": "true",
    "hbase.hregion.keyvalue.timestamp.slop.millisecs": "60000",
}


class Store(Target):
    """A table of one's own, as a sink and as any reader sees it."""

    def __init__(self, server):
        super().__init__("hbase", server.url)
        self.server = server

    def leads(self, **more):
        return HBaseTable(self.name, LEADS, **{"at": "hbase", "prefix": "", **SAID, **more})

    def asked(self, ask):
        at = address_of(Server(self.server.url), "hbase")
        connection = happybase.Connection(
            at.host, at.port, transport=at.transport, protocol=at.protocol
        )
        try:
            return ask(connection)
        finally:
            connection.close()

    def row(self, key, **more):
        return self.asked(lambda line: line.table(self.name).row(key.encode(), **more))

    def city(self, key):
        return self.row(key).get(b"d:city")

    def rows(self):
        return dict(self.asked(lambda line: list(line.table(self.name).scan())))


@pytest.fixture
def store(hbase):
    return Store(hbase)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory, hbase_jars):
    """A server of these tests' own, which they may kill, with settings that are not the usual."""
    folder = tmp_path_factory.mktemp("own")
    with EmbeddedHBase(folder, *free_ports(1), settings=OF_OWN) as server:
        yield server


@pytest.fixture
def own(own_server):
    return Store(own_server)


def codes(errors):
    return [error and error.code for error in errors]


# --- what readers find


def test_each_kind_of_value_is_a_text_at_its_timestamp_and_nulls_are_not_there(store):
    columns = {
        "tenant": "text",
        "day": "date",
        "number": "bigint",
        "at": "timestamp",
        "price": "decimal(10, 2)",
        "share": "double",
        "paid": "boolean",
        "raw": "bytes",
        "empty": "text",
        "note": "text",
    }
    key = ("tenant", "day", "number")
    sink = HBaseTable(store.name, columns, key=key, newest_by="at", at="hbase", family="of_rows")
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, dt.UTC)
    table = pa.table(
        {
            "tenant": ["a:b%"],
            "day": [dt.date(2026, 1, 31)],
            "number": [-5],
            "at": pa.array([moment], pa.timestamp("us", "UTC")),
            "price": [Decimal("0.10")],
            "share": [0.1],
            "paid": [True],
            "raw": [b"\x00\xff"],
            "empty": [""],
            "note": pa.nulls(1, pa.string()),
        }
    )
    assert store.write(store.prepared(sink), table) == [None]
    found = store.row("t0:a%3Ab%25:2026-01-31:-5", include_timestamp=True)
    assert {at for _, at in found.values()} == {1_769_860_800_123_456}
    assert {name.removeprefix(b"of_rows:"): value for name, (value, _) in found.items()} == {
        b"tenant": b"a:b%",
        b"day": b"2026-01-31",
        b"number": b"-5",
        b"at": b"2026-01-31T12:00:00.123456Z",
        b"price": b"0.10",
        b"share": b"0.1",
        b"paid": b"true",
        b"raw": b"\x00\xff",
        b"empty": b"",
    }


def test_two_tenants_have_no_row_in_common(store):
    sink = store.prepared(store.leads(prefix="{tenant}:"))
    assert store.write(sink, one("a", "Rome", 1), one("a", "Oslo", 1)) == [None, None]
    assert [store.city(f"{tenant}:a") for tenant in ("t0", "t1")] == [b"Rome", b"Oslo"]


def test_a_null_hides_what_an_older_row_had_whenever_that_comes(store):
    sink = store.prepared(store.leads())
    store.write(sink, one("a", "Rome", 1))
    assert store.write(sink, one("a", None, 3)) == [None]
    assert store.row("a") == {b"d:lead": b"a", b"d:size": b"1", b"d:changed": b"3"}
    store.write(sink, one("a", "Bonn", 2))
    assert store.city("a") is None
    store.write(sink, one("a", "Oslo", 4))
    assert store.city("a") == b"Oslo"


def test_what_is_gone_comes_back_by_what_is_newer_alone_and_of_equals_the_delete_stays(store):
    sink = store.prepared(store.leads())
    store.write(sink, one("a", "Rome", 1))
    store.write(sink, one("a", None, 5, gone=True))
    assert store.row("a") == {}
    for city, version in (("Bonn", 4), ("Kyiv", 5)):
        assert store.write(sink, one("a", city, version)) == [None]
        assert store.row("a") == {}
    store.write(sink, one("a", "Oslo", 6))
    assert store.city("a") == b"Oslo"


def test_of_what_is_as_new_the_later_stays(store):
    sink = store.prepared(store.leads())
    store.write(sink, one("a", "Rome", 1))
    store.write(sink, one("a", "Oslo", 1))
    assert store.city("a") == b"Oslo"


def test_versions_of_any_depth_are_told_apart(store):
    sink, high = store.prepared(store.leads()), version_of(60_000, 2**46)
    for version, city in ((high + 1, "new"), (high, "old"), (0, "first")):
        assert store.write(sink, one("a", city, version)) == [None]
    assert store.city("a") == b"new"


# --- what it does not take


def test_a_row_that_the_server_finds_too_large_is_named_and_the_others_are_there(own):
    rows = pa.table(
        {
            "lead": ["a", "b", "c"],
            "city": ["x", "y" * MOST_BYTES, "z"],
            "size": [1, 1, 1],
            "changed": [7, 7, 7],
            "gone": [False] * 3,
        }
    )
    sink = own.prepared(own.leads())
    [told] = own.told(sink, effect(rows))
    assert [(row.row, row.error.code) for row in told.refused] == [(1, "SinkRefused")]
    assert "larger than HBase takes" in told.refused[0].error.message
    assert sorted(own.rows()) == [b"a", b"c"]


def test_over_framed_connections_many_large_rows_are_there_and_one_that_fits_none_is_named(own):
    cities = {f"k{n}": "x" * 400_000 for n in range(20)} | {"large": "x" * 3_000_000, "last": "x"}
    rows = of_leads(*((lead, city, 1, 7, False) for lead, city in cities.items()))
    sink = own.prepared(own.leads())
    [told] = own.told(sink, effect(rows))
    assert [(row.row, row.error.code) for row in told.refused] == [(20, "SinkRefused")]
    assert "max_frame_size_in_mb" in told.refused[0].error.message
    assert sorted(own.rows()) == sorted(lead.encode() for lead in cities if lead != "large")


def test_a_server_that_forbids_timestamps_of_the_future_stops_and_no_record_is_to_blame(own):
    sink = own.prepared(own.leads())
    [error] = own.write(sink, one("a", "Rome", int(time.time() * 1_000_000)))
    assert (error.code, "timestamp.slop" in error.message) == ("TargetMissing", True)


@pytest.mark.parametrize(
    ("lead", "version", "said"),
    [
        ("a", -1, "column 'changed', row 0: it is no timestamp"),
        ("a", 2**63 - 1, "column 'changed', row 0: it is no timestamp"),
        ("", 1, "row 0: its key has 0 bytes"),
        ("k" * 40_000, 1, "row 0: its key has 40000 bytes"),
    ],
)
def test_what_no_row_of_hbase_can_have_is_refused_by_name(store, lead, version, said):
    [error] = store.write(store.leads(), one(lead, "Rome", version))
    assert error.code == "SinkRefused"
    assert said in error.message


def test_a_table_or_a_family_that_is_gone_stops_and_no_record_is_to_blame(store):
    sink = store.leads()
    [error] = store.write(sink, one("a", "Rome", 1))
    assert (error.code, "there is no such table" in error.message) == ("TargetMissing", True)
    store.asked(lambda line: line.create_table(store.name, {"other": {}}))
    [error] = store.write(sink, one("a", "Rome", 1))
    assert (error.code, "no such column family" in error.message) == ("TargetMissing", True)
    with pytest.raises(ConfigError, match=rf"alter '{store.name}', NAME => 'd'"):
        sink.prepare(store.site)


def test_a_family_whose_cells_go_is_refused_at_deploy(store):
    store.asked(lambda line: line.create_table(store.name, {"d": {"time_to_live": 60}}))
    with pytest.raises(ConfigError, match=r"go after 60 s.*TTL => 'FOREVER'"):
        store.leads().prepare(store.site)


def test_a_namespace_that_is_not_there_is_told_at_deploy(store):
    sink = HBaseTable(f"none:{store.name}", LEADS, at="hbase", **SAID)
    with pytest.raises(ConfigError, match="NamespaceNotFoundException"):
        sink.prepare(store.site)


# --- kills, and what is away


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(store):
    sink = store.prepared(store.leads())
    due, seed = due_after_zombies(sink, store.site, lanes=4, waves=12)
    found = {key: (store.city(key) or b"").decode() or None for key in due}
    assert found == due, seed


@pytest.mark.slow
def test_what_was_answered_is_there_after_a_kill_in_a_write(own):
    sink = own.prepared(own.leads())
    taken = taken_before_a_kill(own, sink, own.server, least=500, within_s=120)
    assert {name.encode() for name in taken} <= set(own.rows())


def test_a_thrift_server_that_says_nothing_is_given_up_and_all_is_offered_again(own, monkeypatch):
    sink = own.prepared(own.leads())
    rows = of_leads(*((f"k{n}", "x", 1, n, False) for n in range(500)))
    monkeypatch.setattr(own_servers, "ALONE", (0.3, 0.3))
    monkeypatch.setattr(servers._clusters, "held", {})
    os.kill(own.server.thrift_pid, signal.SIGSTOP)
    try:
        [told] = own.told(sink, effect(rows))
    finally:
        os.kill(own.server.thrift_pid, signal.SIGCONT)
    assert told.error.code == "SinkUnavailable"
    monkeypatch.undo()
    assert own.write(sink, rows) == [None]
    assert len(own.rows()) == 500


def test_a_cluster_that_is_away_is_no_mistake_of_a_deploy_and_no_records(store):
    [port] = free_ports(1)
    away = Site(Connections({}, "", servers={"hbase": Server(f"hbase://127.0.0.1:{port}")}), None)
    with pytest.raises(SinkUnavailable):
        store.leads().prepare(away)
    assert codes(store.write(store.leads(), one("a", "x", 1), site=away)) == ["SinkUnavailable"]


# --- a server for each tenant


def test_each_tenant_has_its_own_server_and_one_that_is_away_costs_the_others_nothing(store):
    [port] = free_ports(1)
    named = {
        "hbase-t0": Server(store.server.url),
        "hbase-t2": Server(f"hbase://127.0.0.1:{port}"),
    }
    site = Site(Connections({}, "", servers=named), None, in_company=True)
    sink = store.leads(at="hbase-{tenant}")
    sink.prepare(site)
    give_up_s = time.monotonic() + 30
    while True:
        # To make a table may take longer than others wait.
        told = store.write(sink, *(one(lead, "x", 1) for lead in "abc"), site=site)
        if told[0] is None:
            break
        assert time.monotonic() < give_up_s
    assert codes(told) == [None, "TargetMissing", "SinkUnavailable"]
    assert store.city("a") == b"x"
