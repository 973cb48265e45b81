"""A table in a real MariaDB: nothing is merged, cut or half done in silence."""

import datetime as dt
import re
import signal
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pymysql
import pytest
import trustme
from sqlalchemy import make_url

import mariadb_server
from headrace.connectors.sql import servers
from headrace.databases import engines
from headrace.databases.engines import Waits
from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable
from mariadb_server import MariaDbServer
from own_tls import tls_files

LEADS = {"lead": "text", "size": "bigint"}
KEYED = SqlTable("leads", LEADS, key=("lead",), at="history")
PLAIN = SqlTable("leads", LEADS, at="history")


class Store:
    """Every lane stands where a slice of it begins; may be slow to say so."""

    def __init__(self, sleeps=None):
        self.sleeps = sleeps

    def advance(self, moves):
        if self.sleeps is not None:
            self.sleeps()
        return [True] * len(moves)


class Database:
    """An empty one, as a sink and as its owner see it."""

    def __init__(self, server, url):
        self.server, self.url = server, make_url(url)
        self.name = f"history-{uuid.uuid4().hex}"
        self.user = {}

    def site(self, store=None, fence="run-0"):
        text = self.url.render_as_string(hide_password=False)
        servers_ = {"history": Server(text, **self.user)}
        connections = Connections({}, "sqlite:////nowhere/store.db", servers=servers_)
        return Site(connections, store or Store(), "w-1", fence)

    def rival(self):
        """Another connection, which commits when it is told to."""
        return pymysql.connect(
            host=self.url.host,
            port=self.url.port,
            user=self.url.username,
            password=self.url.password,
            database=self.url.database,
            # It locks what it changes alone.
            init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        )

    def asked(self, statement):
        return self.server.asked(statement, self.url.database)

    def write(self, sink, *tables, store=None, first=0):
        """What became of each table, each of a tenant of its own."""
        effects = [
            Effect(
                (Slice(LaneId("keep", f"t{n}", 0), f"t{n}.visits", first, first + 9, epoch=1),),
                (first + 9,),
                table,
            )
            for n, table in enumerate(tables)
        ]
        writer = sink.open(self.site(store))
        return [one.error for one in writer.write(effects)]

    def prepared(self, sink, made=None):
        if made is not None:
            self.asked(made)
        sink.prepare(self.site())
        return self

    def limited(self, *tables):
        """Have the sink be a user who may do no more than write to these; its name."""
        user = f"u{uuid.uuid4().hex[:20]}"
        self.asked(f"CREATE USER {user} IDENTIFIED BY 'hunter2'")
        for table in tables:
            self.asked(f"GRANT SELECT, INSERT, UPDATE ON {table} TO {user}")
        self.user = {"user": user, "password": "hunter2"}
        return user

    def mended(self, sink, made, said):
        """A table that is refused; the statement in the message mends it."""
        with pytest.raises(ConfigError, match=said) as refused:
            self.prepared(sink, made)
        self.asked(re.search("'(ALTER TABLE .*?)'", str(refused.value))[1])
        sink.prepare(self.site())


@pytest.fixture
def database(mariadb, empty_mariadb):
    return Database(mariadb, empty_mariadb)


def leads(*names, size=1):
    return pa.table(
        {"lead": pa.array(names, pa.string()), "size": pa.array([size] * len(names), pa.int64())}
    )


def kept(database):
    return [row[0] for row in database.asked("SELECT lead FROM leads ORDER BY lead")]


def test_keys_that_differ_in_case_accents_or_blanks_are_different_keys(database):
    names = ["a", "A", "a ", "a  ", "ä", "á", "\u0041\u030a", "Å", "", " ", "ß", "ss"]
    database.prepared(KEYED)
    for _ in range(2):
        assert database.write(KEYED, leads(*names)) == [None]
    assert sorted(kept(database)) == sorted(names)


def test_a_key_that_the_server_could_number_is_written_as_it_is(database):
    made = "CREATE TABLE leads (size BIGINT AUTO_INCREMENT PRIMARY KEY, `lead` LONGTEXT)"
    sink = SqlTable("leads", LEADS, key=("size",), at="history")
    told = database.prepared(sink, made).write(
        sink, leads("a", size=1), leads("none", size=None), leads("zero", size=0)
    )
    assert [error and error.code for error in told] == [None, "SinkRefused", None]
    assert database.asked("SELECT size, `lead` FROM leads ORDER BY size") == [(0, "zero"), (1, "a")]


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin", "latin1_swedish_ci"])
def test_a_key_that_takes_two_texts_for_one_is_refused_with_what_mends_it(database, collation):
    charset = collation.partition("_")[0]
    made = (
        f"CREATE TABLE leads (lead VARCHAR(100) CHARACTER SET {charset} COLLATE {collation} "
        "PRIMARY KEY, size BIGINT)"
    )
    database.mended(KEYED, made, f"'lead' compares by {collation}")
    assert database.write(KEYED, leads("a", "A", "a ")) == [None]
    assert len(kept(database)) == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("size BIGINT UNIQUE", "another unique key, size"),
        ("size BIGINT, UNIQUE two (size, `lead`(3))", "compares the beginnings of texts"),
        ("size BIGINT, n INT AUTO_INCREMENT UNIQUE", "another unique key, n"),
    ],
)
def test_a_table_with_another_unique_key_is_refused(database, more, said):
    key = "lead VARCHAR(100) COLLATE utf8mb4_nopad_bin PRIMARY KEY"
    with pytest.raises(ConfigError, match=said):
        database.prepared(KEYED, f"CREATE TABLE leads ({key}, {more})")
    # Rows that are always new meet an error there, and no row of another.
    database.prepared(PLAIN)


def test_a_key_of_beginnings_is_refused(database):
    lead = "lead TEXT COLLATE utf8mb4_nopad_bin"
    made = f"CREATE TABLE leads ({lead}, size BIGINT, UNIQUE k (`lead`(3)))"
    with pytest.raises(ConfigError, match="unique key k compares the beginnings of texts"):
        database.prepared(KEYED, made)


def test_a_key_that_is_a_part_of_another_one_is_no_matter(database):
    key = "lead VARCHAR(100) COLLATE utf8mb4_nopad_bin PRIMARY KEY"
    made = f"CREATE TABLE leads ({key}, size BIGINT, UNIQUE (lead, size), KEY (size))"
    database.prepared(KEYED, made)


@pytest.mark.parametrize("engine", ["MyISAM", "MEMORY", "Aria TRANSACTIONAL=1"])
def test_an_engine_that_cannot_roll_back_is_refused_with_what_mends_it(database, engine):
    columns = "lead VARCHAR(100) COLLATE utf8mb4_nopad_bin PRIMARY KEY, size BIGINT"
    database.mended(KEYED, f"CREATE TABLE leads ({columns}) ENGINE={engine}", "rolled back")
    assert database.write(KEYED, leads("a")) == [None]


def test_notes_that_take_two_lanes_for_one_are_refused(database):
    database.asked(
        "CREATE TABLE headrace_written (installation VARCHAR(32), use_case VARCHAR(96), "
        "tenant VARCHAR(96), lane VARCHAR(500), epoch BIGINT, wave VARCHAR(255), from_offset "
        "VARCHAR(255), reached VARCHAR(255), PRIMARY KEY (installation, use_case, tenant, lane))"
    )
    with pytest.raises(ConfigError, match="headrace_written: column 'installation' compares by"):
        database.prepared(PLAIN)


WRONG = {
    "too long": ("VARCHAR(3)", "abcd"),
    "with blanks at its end": ("VARCHAR(3)", "abc  "),
    "of letters that the column has none of": ("VARCHAR(9) CHARACTER SET latin1", "a\u0142"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_text_is_refused_and_never_cut_however_lax_the_server_is(database, what):
    kind, wrong = WRONG[what]
    database.server.asked("SET GLOBAL sql_mode = ''")
    database.prepared(PLAIN, f"CREATE TABLE leads (lead {kind}, size BIGINT)")
    good, bad, last = database.write(PLAIN, leads("a"), leads("b", wrong), leads("c"))
    assert (good, last) == (None, None)
    assert (bad.code, bad.temporary) == ("SinkRefused", False)
    assert "'lead'" in bad.message or "`lead`" in bad.message
    assert wrong not in bad.message
    assert kept(database) == ["a", "c"]


@pytest.mark.parametrize("kind", ["INT", "BIGINT UNSIGNED", "DECIMAL(5, 0)", "VARCHAR(2)"])
def test_a_number_is_refused_and_never_the_nearest_that_fits(database, kind):
    database.prepared(PLAIN, f"CREATE TABLE leads (lead TEXT, size {kind})")
    size = -(2**40)
    good, bad = database.write(PLAIN, leads("a"), leads("b", size=size))
    assert good is None
    assert bad.code == "SinkRefused"
    assert kept(database) == ["a"]


def test_a_column_that_may_have_no_null_is_given_none(database):
    made = "CREATE TABLE leads (lead VARCHAR(9) NOT NULL, size BIGINT NOT NULL)"
    database.prepared(PLAIN, made)
    bad, good = database.write(PLAIN, leads("a", None), leads("b"))
    assert (bad.code, good) == ("SinkRefused", None)
    assert kept(database) == ["b"]


def test_a_row_beyond_the_largest_packet_is_refused_alone_and_many_rows_are_packed(database):
    least = 1 << 20
    (before,) = database.server.asked("SELECT @@global.max_allowed_packet")[0]
    database.server.asked(f"SET GLOBAL max_allowed_packet = {least}")
    try:
        database.prepared(PLAIN)
        many = leads(*(str(number) * 200_000 for number in range(9)))
        good, bad, last = database.write(PLAIN, many, leads("b" * least), leads("c"))
    finally:
        database.server.asked(f"SET GLOBAL max_allowed_packet = {before}")
    assert (good, last) == (None, None)
    assert bad.code == "SinkRefused"
    assert "max_allowed_packet of the server is 1048576" in bad.message
    assert [len(name) for name in kept(database)] == [200_000] * 9 + [1]


EVERYTHING = SqlTable(
    "everything",
    {
        "n": "bigint",
        "t": "text",
        "d": "double",
        "o": "boolean",
        "b": "bytes",
        "s": "timestamp",
        "a": "date",
        "m": "decimal(38, 9)",
    },
    at="history",
)
ODD_TEXT = "'\"`\\ %s %% {} \0 \n \x1a \u20ac \U0001f600 ; -- */"


def test_values_come_back_as_they_were_given(database):
    utc = dt.UTC
    rows = {
        "n": [2**63 - 1, -(2**63), 2**53 + 1],
        "t": [ODD_TEXT, "x" * 100_000, ""],
        "d": [5e-324, 1.7976931348623157e308, 0.1],
        "o": [True, False, None],
        "b": [bytes(range(256)), b"", None],
        "s": [
            dt.datetime(1, 1, 1, tzinfo=utc),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=utc),
            dt.datetime(2026, 3, 29, 1, 30, 0, 1, tzinfo=utc),
        ],
        "a": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
        "m": [Decimal("1E-9"), Decimal("9" * 29 + "." + "9" * 9), Decimal("-0.5")],
    }
    table = pa.table(
        {
            **rows,
            "s": pa.array(rows["s"], pa.timestamp("us", "UTC")),
            "m": pa.array(rows["m"], pa.decimal128(38, 9)),
        }
    )
    database.server.asked("SET GLOBAL time_zone = '+09:00'")
    try:
        database.prepared(EVERYTHING)
        assert database.write(EVERYTHING, table) == [None]
    finally:
        database.server.asked("SET GLOBAL time_zone = SYSTEM")
    found = list(zip(*database.asked("SELECT n, t, d, o, b, s, a, m FROM everything"), strict=True))
    assert [list(column) for column in found] == [
        rows["n"],
        rows["t"],
        rows["d"],
        [1, 0, None],
        rows["b"],
        [moment.replace(tzinfo=None) for moment in rows["s"]],
        rows["a"],
        rows["m"],
    ]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_there_is_refused_by_its_column_and_row(database, number):
    database.prepared(EVERYTHING)
    columns = {name: pa.nulls(2) for name in EVERYTHING.columns}
    table = pa.table({**columns, "d": [1.0, number]})
    (bad,) = database.write(EVERYTHING, table)
    assert bad.code == "SinkRefused"
    assert re.search(r"'d'.*row 1: it is (NaN|-?inf), which MySQL has none of", bad.message)


def summing(expression):
    return SqlTable("leads", LEADS, ("lead",), {"size": expression}, at="history")


def test_an_update_reads_what_comes_and_what_is_there(database):
    sums = summing("(leads.size + excluded.size) % 100 + length('excluded.size')")
    database.prepared(sums)
    assert database.write(sums, leads("a", size=7), leads("a", "b", size=98)) == [None, None]
    found = database.asked("SELECT lead, size FROM leads ORDER BY lead")
    assert found == [("a", 5 + 13), ("b", 98)]


@pytest.mark.parametrize(
    "expression", ["leads.size / (excluded.size - 1)", "leads.size + 9223372036854775807"]
)
def test_an_update_that_comes_to_no_number_costs_its_own_tenant_alone(database, expression):
    sums = summing(expression)
    database.prepared(sums)
    assert database.write(sums, leads("a"), leads("b")) == [None, None]
    bad, good = database.write(sums, leads("a"), leads("c"), first=9)
    assert (bad.code, good) == ("SinkRefused", None)
    assert kept(database) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("expression", "size"), [("leads.size / 10", 11), ("leads.size DIV 10", 10)]
)
def test_what_an_update_comes_to_is_rounded_and_whole_numbers_are_divided_if_that_is_said(
    database, expression, size
):
    sums = summing(expression)
    database.prepared(sums)
    assert database.write(sums, leads("a", "a", size=105)) == [None]
    assert database.asked("SELECT size FROM leads") == [(size,)]


def test_an_update_that_reads_what_was_set_before_is_refused(database):
    sink = SqlTable(
        "leads",
        {"lead": "text", "last": "bigint", "before": "bigint"},
        ("lead",),
        {"last": "excluded.last", "before": "leads.last"},
        at="history",
    )
    with pytest.raises(ConfigError, match="put 'before' before it in update"):
        database.prepared(sink)


def test_of_two_that_lock_each_other_out_one_is_tried_again(database):
    sums = summing("leads.size + excluded.size")
    database.prepared(sums)
    assert database.write(sums, leads("a", "b", *map(str, range(500)))) == [None]
    with (
        database.rival() as rival,
        rival.cursor() as cursor,
        ThreadPoolExecutor() as threads,
    ):
        # It has changed more, so it is not the one that is undone.
        cursor.execute("UPDATE leads SET size = size + 10 WHERE lead <> 'a'")
        written = threads.submit(database.write, sums, leads("a", "b"), first=9)
        waiting = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        while not database.asked(waiting):
            threading.Event().wait(0.05)
        cursor.execute("UPDATE leads SET size = size + 10 WHERE lead = 'a'")
        rival.commit()
        (error,) = written.result(60)
    assert error.temporary
    assert "Deadlock" in error.message or "SAVEPOINT" in error.message
    assert database.write(sums, leads("a", "b"), first=9) == [None]
    found = database.asked("SELECT size FROM leads WHERE lead IN ('a', 'b')")
    assert found == [(12,), (12,)]


def test_a_lock_that_is_not_to_be_had_is_waited_for_and_tried_again(database, monkeypatch):
    monkeypatch.setattr(servers, "Waits", lambda: Waits(lock_s=1.0))
    database.prepared(KEYED)
    assert database.write(KEYED, leads("a")) == [None]
    with database.rival() as rival:
        rival.cursor().execute("UPDATE leads SET size = 2")
        (error,) = database.write(KEYED, leads("a"), first=9)
    assert error.temporary
    assert "Lock wait timeout" in error.message
    assert database.write(KEYED, leads("a"), first=9) == [None]


def test_a_server_that_may_only_be_read_is_waited_for_and_sets_no_record_aside(database):
    database.prepared(PLAIN)
    user = database.limited("*")
    assert database.write(PLAIN, leads("a")) == [None]
    database.server.asked("SET GLOBAL read_only = 1")
    try:
        (error,) = database.write(PLAIN, leads("b"), first=9)
    finally:
        database.server.asked("SET GLOBAL read_only = 0")
    assert error.code == "SinkUnavailable"
    assert "read-only" in error.message
    assert database.write(PLAIN, leads("b"), first=9) == [None]
    database.asked("DROP TABLE leads")
    (error,) = database.write(PLAIN, leads("c"), first=18)
    assert error.code == "TargetMissing"
    database.asked(f"DROP USER {user}")
    (error,) = database.write(PLAIN, leads("d"), first=27)
    assert "hunter2" not in error.message


def test_where_tables_may_not_be_made_it_is_said_how_to_make_them_by_hand(database):
    user = database.limited("*")
    for _ in ("the notes", "the table"):
        with pytest.raises(ConfigError, match="denied") as refused:
            database.prepared(KEYED)
        database.asked(re.search("make it by hand: '(CREATE TABLE .*)'", str(refused.value))[1])
    database.prepared(KEYED)
    assert database.write(KEYED, leads("a")) == [None]
    database.asked(f"DROP USER {user}")


def test_tables_that_are_there_need_no_right_to_make_any(database):
    database.prepared(KEYED)
    user = database.limited("leads", "headrace_written")
    database.prepared(KEYED)
    assert database.write(KEYED, leads("a")) == [None]
    database.asked(f"REVOKE INSERT ON leads FROM {user}")
    (error,) = database.write(KEYED, leads("b"), first=9)
    database.asked(f"DROP USER {user}")
    assert error.code == "TargetMissing"
    assert "INSERT command denied" in error.message


def test_a_session_that_is_ended_in_the_write_leaves_nothing_and_it_is_tried_again(database):
    database.prepared(PLAIN)

    kills = iter([True])

    def killed():
        if not next(kills, False):
            return
        mine = "SELECT id FROM information_schema.processlist WHERE db = '{}' AND command = 'Sleep'"
        for (session,) in database.server.asked(mine.format(database.url.database)):
            database.server.asked(f"KILL {session}")

    assert database.write(PLAIN, leads("a"), store=Store(killed)) == [None], "it was looked for"
    assert kept(database) == ["a"]


def test_who_sleeps_in_a_transaction_is_ended_and_holds_nobody_up(database, monkeypatch):
    monkeypatch.setattr(engines, "_IDLE_WAIT_S", 2.0)
    database.prepared(PLAIN)
    store, naps = Store(), iter([5.0])
    store.sleeps = lambda: threading.Event().wait(next(naps, 0))
    assert database.write(PLAIN, leads("a"), store=store) == [None]
    assert kept(database) == ["a"]


def test_a_commit_that_is_not_answered_is_looked_for(database, monkeypatch):
    database.prepared(PLAIN)
    commit, lost = pymysql.connections.Connection.commit, []

    def unanswered(connection):
        commit(connection)
        if not lost:
            lost.append(True)
            connection._force_close()
            raise pymysql.err.OperationalError(2013, "Lost connection during query")

    monkeypatch.setattr(pymysql.connections.Connection, "commit", unanswered)
    assert database.write(PLAIN, leads("a")) == [None]
    assert lost
    assert kept(database) == ["a"]


def test_a_server_that_says_nothing_is_given_up(database, monkeypatch):
    monkeypatch.setattr(servers, "Waits", lambda: Waits(statement_s=3.0, silence_s=0.5))
    database.prepared(PLAIN)
    assert database.write(PLAIN, leads("a")) == [None]
    with database.server.hanging():
        (error,) = database.write(PLAIN, leads("b"), first=9)
    assert error.temporary
    assert database.write(PLAIN, leads("b"), first=9) == [None]
    assert kept(database) == ["a", "b"]


STALLS = """
import pyarrow as pa, sys, time
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

class Asleep:
    def advance(self, moves):
        print("written", flush=True)
        time.sleep(60)

sink = SqlTable("leads", {"lead": "text", "size": "bigint"}, at="history")
site = Site(Connections({}, "", servers={"history": Server(sys.argv[1])}), Asleep(), "w-1", "run-0")
piece = Slice(LaneId("keep", "t0", 0), "t0.visits", 0, 9, epoch=1)
sink.open(site).write([Effect((piece,), (9,), pa.table({"lead": ["a"], "size": [1]}))])
"""


def test_a_task_that_is_killed_while_it_writes_leaves_nothing_and_holds_nobody_up(database):
    database.prepared(PLAIN)
    url = database.url.render_as_string(hide_password=False)
    with subprocess.Popen([sys.executable, "-c", STALLS, url], stdout=subprocess.PIPE) as task:
        assert task.stdout.readline() == b"written\n"
        task.send_signal(signal.SIGKILL)
    assert database.write(PLAIN, leads("a")) == [None]
    assert kept(database) == ["a"]


def test_a_server_that_is_killed_is_waited_for_and_has_each_row_once(tmp_path):
    mariadb_server.needed()
    with MariaDbServer(tmp_path / "mariadb") as server:
        database = Database(server, server.url).prepared(PLAIN)

        def killed():
            if server.running:
                server.kill()

        (error,) = database.write(PLAIN, leads("a"), store=Store(killed))
        assert error.temporary
        (error,) = database.write(PLAIN, leads("a"))
        assert "it is not reached" in error.message
        server.start()
        for _ in range(2):
            assert database.write(PLAIN, leads("a")) == [None]
        assert kept(database) == ["a"]


def test_who_shows_another_certificate_is_not_spoken_to(tmp_path):
    mariadb_server.needed()
    ours, anothers = trustme.CA(), trustme.CA()
    files = tls_files(ours, tmp_path, "127.0.0.1")
    tls = ("--ssl", f"--ssl-cert={files.certificate_file}", f"--ssl-key={files.key_file}")
    with MariaDbServer(tmp_path / "mariadb", *tls) as server, server.empty() as url:
        errors = []
        for number, authority in enumerate((ours, anothers)):
            trusted = tmp_path / f"{number}.pem"
            authority.cert_pem.write_to_path(trusted)
            database = Database(server, f"{url}?ssl_ca={trusted}")
            if authority is ours:
                database.prepared(PLAIN)
            errors += database.write(PLAIN, leads("a"))
        assert kept(database) == ["a"]
    assert errors[0] is None
    assert errors[1].temporary
    assert "certificate verify failed" in errors[1].message
    assert mariadb_server.PASSWORD not in errors[1].message


WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


def test_notes_hold_places_of_any_width(database):
    database.prepared(PLAIN)
    assert database.write(PLAIN, leads("a"), first=WIDE) == [None]
    assert database.write(PLAIN, leads("a"), first=WIDE) == [None]
    assert database.asked("SELECT reached FROM headrace_written") == [(str(WIDE + 9),)]
    assert kept(database) == ["a"]


def test_notes_that_give_names_back_as_others_are_not_believed(database):
    database.prepared(PLAIN)
    database.asked("ALTER TABLE headrace_written MODIFY tenant VARBINARY(96)")
    database.prepared(PLAIN)
    (error,) = database.write(PLAIN, leads("a"))
    assert error.code == "TargetMissing"
    assert "have to be VARCHAR" in error.message


def test_notes_that_hold_narrow_places_say_what_to_do(database):
    database.prepared(PLAIN)
    database.asked("ALTER TABLE headrace_written MODIFY reached BIGINT")
    assert database.write(PLAIN, leads("a")) == [None]
    (error,) = database.write(PLAIN, leads("a"), first=WIDE)
    assert error.code == "TargetMissing"
    assert "rename it" in error.message


def test_a_lane_whose_name_is_too_long_for_a_key_stops_alone(database):
    database.prepared(PLAIN)
    lanes = [LaneId("keep", "acme", "x" * length) for length in (500, 501)]
    slices = [Slice(lane, "acme.visits", 0, 9, epoch=1) for lane in lanes]
    effects = [Effect((piece,), (9,), leads("a")) for piece in slices]
    told = PLAIN.open(database.site()).write(effects)
    assert [one.error and one.error.code for one in told] == [None, "TargetMissing"]


def test_many_lanes_are_locked_and_noted_at_once(database):
    database.prepared(PLAIN)
    tables = [leads("a")] * 500
    for _ in range(2):
        assert database.write(PLAIN, *tables) == [None] * 500
    assert len(kept(database)) == 500
    assert database.asked("SELECT COUNT(*), MIN(reached) FROM headrace_written") == [(500, "9")]
