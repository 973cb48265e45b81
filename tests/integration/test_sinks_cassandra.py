"""A table in a real Cassandra: what is there after nulls, deletes, others, silence and kills."""

import datetime as dt
import os
import signal
import time
from collections import Counter

import pyarrow as pa
import pytest
from leads import LEADS, SAID, Target, due_after_zombies, of_leads, taken_before_a_kill, until_taken

from headrace.connectors.cassandra import history, rows
from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.servers import cluster_of
from headrace.embedded import EmbeddedCassandra
from headrace.embedded.addresses import free_ports
from headrace.errors import ConfigError, SinkUnavailable, TargetMissing
from headrace.ports import Server
from headrace.sinks import CassandraTable

VISITS = {"tenant": "text", "at": "timestamp", "number": "bigint", "page": "text"}
MONDAY = dt.datetime(2026, 2, 2, tzinfo=dt.UTC)


def leads(name, **more):
    return CassandraTable(name, LEADS, at="history", **{**SAID, **more})


def visits(name, **more):
    said = {"key": ("tenant", "at", "number"), "newest_by": "at", "by_time": "at"}
    return CassandraTable(name, VISITS, at="history", **{**said, **more})


def of_visits(*found):
    tenants, moments, numbers = zip(*found, strict=True)
    return pa.table(
        {
            "tenant": list(tenants),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "number": list(numbers),
            "page": ["/"] * len(tenants),
        }
    )


class Database(Target):
    """Tables of one's own in a cluster, as a sink and as its owner see them."""

    def __init__(self, url):
        super().__init__("history", url)
        self.cluster = cluster_of(self.connections, "history")

    def asked(self, statement, *values):
        return self.cluster.asked(statement.format(f"headrace.{self.name}"), *values)

    def prepared(self, sink, made=None):
        if made is not None:
            self.asked(made)
        return super().prepared(sink)


@pytest.fixture
def database(cassandra):
    return Database(cassandra.url)


# --- tables


def test_a_table_that_is_made_is_found_right_again(database):
    for sink in (leads(database.name), visits(f"{database.name}_v", bucket="week")):
        database.prepared(sink)
        database.prepared(sink)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("lead text PRIMARY KEY, city text, size bigint", "without column 'changed'"),
        ("lead text PRIMARY KEY, city text, size float, changed bigint", "'size' as float"),
        ("lead text, city text, size bigint, changed bigint, PRIMARY KEY (lead, city)", "as its"),
        (
            "lead text, n int, city text static, size bigint, changed bigint, PRIMARY KEY(lead, n)",
            "as its",
        ),
    ],
)
def test_a_table_that_is_not_right_is_refused_with_what_makes_a_right_one(database, made, said):
    sink = leads(database.name)
    with pytest.raises(ConfigError, match=said) as told:
        database.prepared(sink, f"CREATE TABLE {{}} ({made})")
    database.asked("DROP TABLE {}")
    create = str(told.value).partition("let it be made: '")[2].rstrip("'")
    database.asked(create.replace("{", "{{").replace("}", "}}"))
    database.prepared(sink)


def test_a_keyspace_that_is_not_there_is_told_with_what_makes_it(cassandra):
    elsewhere = Database(cassandra.url.replace("/headrace?", "/nowhere?"))
    with pytest.raises(ConfigError, match=r"no keyspace nowhere.*CREATE KEYSPACE nowhere"):
        elsewhere.prepared(leads("leads"))


def test_a_datacenter_that_is_not_there_is_nobody_who_answers(cassandra):
    elsewhere = Database(cassandra.url.replace("datacenter1", "dc9"))
    with pytest.raises(SinkUnavailable, match="dc9"):
        elsewhere.prepared(leads("leads"))


def test_a_table_that_goes_away_stops_its_lanes_and_comes_back_with_a_deploy(database):
    sink = database.prepared(leads(database.name))
    assert database.write(sink, of_leads(("a", "Rome", 1, 1, False))) == [None]
    database.asked("DROP TABLE {}")
    [error] = database.write(sink, of_leads(("a", "Rome", 1, 2, False)))
    assert error.code == "TargetMissing", error
    database.prepared(sink)
    assert database.write(sink, of_leads(("a", "Rome", 1, 3, False))) == [None]


def test_who_writes_without_timestamps_is_told_at_deploy(database, capsys):
    sink = database.prepared(leads(database.name))
    database.write(sink, of_leads(("a", "Rome", 1, 9, False)))
    sink.prepare(database.site)
    assert "without timestamps" not in capsys.readouterr().out
    database.asked("INSERT INTO {} (lead, city) VALUES ('b', 'Oslo')")
    sink.prepare(database.site)
    assert "without timestamps" in capsys.readouterr().out
    # As it says, theirs stays.
    database.write(sink, of_leads(("b", "Rome", 1, 2**50, False)))
    assert database.asked("SELECT city FROM {} WHERE lead = 'b'") == [("Oslo",)]


def test_time_windows_are_told_to_be_none_for_versions(database, capsys):
    made = leads(database.name)._described("headrace").create
    windows = " WITH compaction = {{'class': 'TimeWindowCompactionStrategy'}}"
    database.prepared(leads(database.name), made.replace("{", "{{") + windows)
    assert "TimeWindowCompactionStrategy" in capsys.readouterr().out


# --- rows


def test_a_newer_row_hides_all_of_an_older_one_its_nulls_too(database):
    sink = database.prepared(leads(database.name))
    assert database.write(sink, of_leads(("a", "Rome", 1, 1, False))) == [None]
    assert database.write(sink, of_leads(("a", None, 2, 2, False))) == [None]
    assert database.asked("SELECT city, size FROM {}") == [(None, 2)]
    assert database.write(sink, of_leads(("a", "Rome", 1, 1, False))) == [None]
    assert database.asked("SELECT city, size FROM {}") == [(None, 2)]


def test_rows_that_are_written_once_have_no_tombstones_for_nulls(database):
    columns = {**VISITS, "note": "text"}
    said = {"key": ("tenant", "at", "number"), "newest_by": "at", "by_time": "at"}
    sink = database.prepared(CassandraTable(database.name, columns, at="history", **said))
    table = of_visits(("acme", MONDAY, 1)).append_column("note", pa.nulls(1, pa.string()))
    assert database.write(sink, table) == [None]
    # What is there already stays: a tombstone of the same time would hide it.
    database.asked(
        "INSERT INTO {} (tenant, bucket, at, number, note) VALUES ('acme', '2026-02-02', "
        f"{int(MONDAY.timestamp() * 1000)}, 1, 'x') USING TIMESTAMP "
        f"{int(MONDAY.timestamp() * 1_000_000)}"
    )
    assert database.write(sink, table) == [None]
    assert database.asked("SELECT note FROM {}") == [("x",)]


def test_every_kind_of_column_comes_back_as_it_was(database):
    columns = {
        "id": "text",
        "at": "timestamp",
        "amount": "decimal(12, 2)",
        "day": "date",
        "blob": "bytes",
        "share": "double",
        "good": "boolean",
        "count": "bigint",
    }
    sink = database.prepared(
        CassandraTable(
            database.name, columns, key=("id", "at"), newest_by="at", by_time="at", at="history"
        )
    )
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("at", pa.timestamp("ms", "UTC")),
            ("amount", pa.decimal128(12, 2)),
            ("day", pa.date32()),
            ("blob", pa.binary()),
            ("share", pa.float64()),
            ("good", pa.bool_()),
            ("count", pa.int64()),
        ]
    )
    edge = dt.timedelta(milliseconds=1)
    made = pa.table(
        {
            "id": ["ä\0"] * 3,
            "at": [MONDAY, MONDAY + edge, MONDAY + 2 * edge],
            "amount": [None, "12.50", "-9999999999.99"],
            "day": [None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
            "blob": [None, b"", b"\xff\0"],
            "share": [None, float("inf"), -0.0],
            "good": [None, True, False],
            "count": [None, 2**63 - 1, -(2**63)],
        }
    )
    made = made.set_column(5, "share", pa.array(made["share"].to_pylist(), pa.float64()))
    assert database.write(sink, made) == [None]
    found = pa.concat_tables(
        sink.read(database.connections, "ä\0", since=MONDAY, until=MONDAY + dt.timedelta(days=1))
    )
    expected = pa.table(
        {
            **{name: made[name] for name in columns},
            "amount": made["amount"].cast(pa.decimal128(12, 2)),
            "at": made["at"].cast(pa.timestamp("ms", "UTC")),
        }
    ).cast(schema)
    assert found.equals(expected)


@pytest.mark.parametrize("key", [("share",), ("id", "share")])
def test_of_doubles_in_a_key_the_two_zeros_are_two_and_no_number_is_one(database, key):
    columns = {"id": "text", "share": "double", "newness": "bigint"}
    sink = database.prepared(
        CassandraTable(database.name, columns, key=key, newest_by="newness", at="history")
    )
    shares = [-0.0, 0.0, float("nan"), float("nan")]
    table = pa.table({"id": ["a"] * 4, "share": shares, "newness": [1, 2, 3, 4]})
    assert database.write(sink, table) == [None]
    found = database.asked("SELECT share, newness FROM {}")
    assert sorted((str(share), newness) for share, newness in found) == [
        ("-0.0", 1),
        ("0.0", 2),
        ("nan", 4),
    ]


def test_a_row_stays_as_long_as_it_is_said(database):
    sink = database.prepared(leads(database.name, ttl=dt.timedelta(hours=2)))
    database.write(sink, of_leads(("a", "Rome", 1, 1, False)))
    [(left,)] = database.asked("SELECT TTL(city) FROM {}")
    assert 7100 < left <= 7200
    database.write(leads(database.name, ttl=None), of_leads(("a", "Rome", 1, 2, False)))
    assert database.asked("SELECT TTL(city) FROM {}") == [(None,)]


def test_the_largest_row_that_is_let_through_is_taken_and_a_larger_one_never(
    database,
):
    sink = database.prepared(leads(database.name))
    most = "x" * (rows.MOST_BYTES - 200)
    assert database.write(sink, of_leads(("a", most, 1, 1, False))) == [None]
    large = of_leads(("a", "x" * rows.MOST_BYTES, 1, 2, False))
    error, other = database.write(sink, large, of_leads(("b", "Rome", 1, 1, False)))
    assert (error.code, error.temporary, other) == ("SinkRefused", False, None)


# --- history


def test_history_is_read_back_by_tenant_and_range_over_all_buckets(database):
    for bucket in ("day", "week"):
        sink = database.prepared(visits(f"{database.name}_{bucket}", bucket=bucket))
        moments = [MONDAY + dt.timedelta(hours=7 * n) for n in range(-60, 60)]
        mine = [("acme", moment, n) for n, moment in enumerate(moments)]
        assert database.write(sink, of_visits(*mine, ("bolt", MONDAY, 1))) == [None]
        for since, until in ((moments[3], moments[111]), (moments[50], moments[50])):
            found = list(sink.read(database.connections, "acme", since=since, until=until))
            numbers = [n for table in found for n in table["number"].to_pylist()]
            assert numbers == list(range(moments.index(since), moments.index(until)))


def test_history_is_read_in_pages(database, monkeypatch):
    monkeypatch.setattr(history, "PAGE", 7)
    sink = database.prepared(visits(database.name))
    mine = [("acme", MONDAY + dt.timedelta(seconds=n), n) for n in range(50)]
    database.write(sink, of_visits(*mine))
    until = MONDAY + dt.timedelta(days=1)
    found = list(sink.read(database.connections, "acme", since=MONDAY, until=until))
    assert {table.num_rows for table in found} == {7, 1}
    assert pa.concat_tables(found)["number"].to_pylist() == list(range(50))


def test_history_is_in_the_order_of_its_time_however_the_table_is_ordered(database, monkeypatch):
    monkeypatch.setattr(history, "PAGE", 7)
    sink = visits(database.name)
    made = sink._described("headrace").create + ' WITH CLUSTERING ORDER BY ("at" DESC, number ASC)'
    database.prepared(sink, made)
    database.write(
        sink, of_visits(*(("acme", MONDAY + dt.timedelta(hours=n), n) for n in range(50)))
    )
    until = MONDAY + dt.timedelta(days=9)
    found = pa.concat_tables(sink.read(database.connections, "acme", since=MONDAY, until=until))
    assert found["number"].to_pylist() == list(range(50))


def test_an_edge_between_two_milliseconds_is_kept(database):
    sink = database.prepared(visits(database.name))
    database.write(sink, of_visits(("acme", MONDAY, 1)))
    half = dt.timedelta(microseconds=500)
    later, before = MONDAY + dt.timedelta(days=1), MONDAY - dt.timedelta(days=1)
    assert not list(sink.read(database.connections, "acme", since=MONDAY + half, until=later))
    assert list(sink.read(database.connections, "acme", since=before, until=MONDAY + half))


def test_what_is_no_question_to_history_is_refused(database):
    sink = visits(database.name)
    with pytest.raises(ConfigError, match="say tenant"):
        sink.read(database.connections, since=MONDAY, until=MONDAY)
    with pytest.raises(ConfigError, match="time zone"):
        sink.read(database.connections, "acme", since=MONDAY.replace(tzinfo=None), until=MONDAY)
    with pytest.raises(ConfigError, match="no by_time"):
        leads(database.name).read(database.connections, "a", since=MONDAY, until=MONDAY)
    with pytest.raises(TargetMissing):
        list(sink.read(database.connections, "acme", since=MONDAY, until=MONDAY + dt.timedelta(1)))


# --- faults


def test_attempts_of_all_kinds_at_once_and_late_leave_what_one_of_each_would(database):
    sink = database.prepared(leads(database.name))
    due, seed = due_after_zombies(sink, database.site, lanes=6, waves=20)
    found = dict(database.asked("SELECT lead, city FROM {}"))
    assert found == {key: value for key, value in due.items() if value}, seed


@pytest.fixture
def own(tmp_path, cassandra_jars):
    """A node that a test may stop and kill."""
    with EmbeddedCassandra(tmp_path / "cassandra", *free_ports(1)) as server:
        database = Database(server.url)
        yield server, database
        database.cluster.close()


@pytest.mark.slow
def test_a_node_that_says_nothing_or_goes_away_delays_and_loses_nothing(own):
    server, database = own
    sink = database.prepared(leads(database.name))
    many = of_leads(*((f"k{n}", "Rome", n, 1, False) for n in range(2_000)))
    assert database.write(sink, many) == [None]

    os.kill(server.pid, signal.SIGSTOP)
    [error] = database.write(sink, many)
    assert error.temporary
    os.kill(server.pid, signal.SIGCONT)
    until_taken(database, sink, of_leads(("k0", "Oslo", 0, 2, False)), within_s=120)

    server.kill()
    [error] = database.write(sink, many)
    assert error.temporary
    server.start()
    until_taken(database, sink, of_leads(("k1", "Oslo", 0, 2, False)), within_s=120)
    cities = Counter(city for (city,) in _until_answered(database, "SELECT city FROM {}"))
    assert cities == {"Rome": 1_998, "Oslo": 2}


def _until_answered(database, statement):
    """The client finds a node that is back by itself, which takes it a while."""
    give_up_s = time.monotonic() + 120
    while True:
        try:
            return database.asked(statement)
        except SinkUnavailable:
            assert time.monotonic() < give_up_s
            time.sleep(0.2)


@pytest.mark.slow
def test_what_was_answered_is_there_after_a_kill_in_a_write(own):
    server, database = own
    sink = database.prepared(leads(database.name))
    taken = taken_before_a_kill(database, sink, server, least=100, within_s=120)
    found = {lead for (lead,) in _until_answered(database, "SELECT lead FROM {}")}
    assert set(taken) <= found


def test_the_address_of_an_embedded_node_is_one_that_connections_take(cassandra):
    found = address_of(Server(cassandra.url), "history")
    assert found.hosts == (("127.0.0.1", cassandra.port),)
    assert found.keyspace == "headrace"
