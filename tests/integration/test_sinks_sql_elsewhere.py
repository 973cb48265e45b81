"""A table in a PostgreSQL that is not the store's: two attempts at once, kills, rights, outages."""

import re
import signal
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import nullcontext
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest

from headrace.databases.addresses import parse
from headrace.databases.engines import Waits, engine_of, writer_of
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

SUMS = SqlTable(
    "sums",
    {"lead": "text", "total": "bigint"},
    key=("lead",),
    update={"total": "sums.total + excluded.total"},
    at="history",
)
STALLS = """
import pyarrow as pa, sys, time
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

class Asleep:
    def advance(self, moves):
        print("written", flush=True)
        time.sleep(60)

sink = SqlTable("sums", {"lead": "text", "total": "bigint"}, ("lead",), at="history")
servers = {"history": Server(sys.argv[1])}
site = Site(Connections({}, "", servers=servers), Asleep(), wave_id="w-1", fence="run-0")
piece = Slice(LaneId("keep", "acme", 0), "acme.visits", 0, 10, epoch=1)
sink.open(site).write([Effect((piece,), (10,), pa.table({"lead": ["a"], "total": [1]}))])
"""


class Store:
    """Where all lanes are, and under which epoch; may be slow to answer."""

    def __init__(self, *, epoch=1, sleeps=False):
        self.epoch = epoch
        self.asked, self.answers = threading.Event(), threading.Event()
        if not sleeps:
            self.answers.set()

    def advance(self, moves):
        self.asked.set()
        assert self.answers.wait(60)
        return [(move.from_offset, move.epoch) == (0, self.epoch) for move in moves]


class Anywhere:
    """Every lane stands where a slice of it begins."""

    def advance(self, moves):
        return [True] * len(moves)


@pytest.fixture
def url(empty_postgres):
    return empty_postgres


def site(url, store, **server):
    servers = {"history": Server(url, **server)}
    return Site(
        Connections({}, "sqlite:////nowhere/store.db", servers=servers), store, "w-1", "run-0"
    )


@pytest.fixture
def prepared(url):
    SUMS.prepare(site(url, Store()))
    return url


def effect(epoch=1, lanes=("acme",), lead="a"):
    table = pa.table({"lead": [lead], "total": [1]})
    piece = Slice(LaneId("keep", lanes[0], 0), f"{lanes[0]}.visits", 0, 10, epoch)
    return Effect((piece,), (10,), table)


def write(url, store, *effects):
    return SUMS.open(site(url, store)).write(effects)


def asked(url, query):
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query)
        return found.fetchall() if found.description else []


def total(url):
    return [row[0] for row in asked(url, "SELECT total FROM sums")]


@pytest.mark.parametrize(("epoch_now", "first_counts"), [(1, True), (2, False)])
def test_an_attempt_waits_for_one_that_is_writing_and_the_effect_is_there_once(
    prepared, epoch_now, first_counts
):
    slow = Store(epoch=epoch_now, sleeps=True)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(write, prepared, slow, effect(epoch=1))
        assert slow.asked.wait(60)
        second = threads.submit(write, prepared, Store(epoch=epoch_now), effect(epoch_now))
        with pytest.raises(NotYet):
            second.result(1.0)
        slow.answers.set()
        (was,), (then,) = first.result(60), second.result(60)
    assert (was.superseded, then.reached) == (not first_counts, (10,) if first_counts else None)
    assert (was.error, then.error, then.superseded) == (None, None, False)
    assert total(prepared) == [1]


def test_a_task_that_is_killed_while_it_writes_leaves_nothing_and_holds_nobody_up(prepared):
    given = [sys.executable, "-c", STALLS, prepared]
    with subprocess.Popen(given, stdout=subprocess.PIPE) as task:
        assert task.stdout.readline() == b"written\n"
        task.send_signal(signal.SIGKILL)
    (again,) = write(prepared, Store(epoch=2), effect(epoch=2))
    assert (again.error, again.superseded, again.reached) == (None, False, None)
    assert total(prepared) == [1]


def test_a_commit_that_is_refused_costs_whose_row_it_is_alone(prepared):
    asked(prepared, "CREATE TABLE leads (lead text PRIMARY KEY)")
    asked(prepared, "INSERT INTO leads VALUES ('a'), ('c')")
    asked(
        prepared,
        "ALTER TABLE sums ADD FOREIGN KEY (lead) REFERENCES leads DEFERRABLE INITIALLY DEFERRED",
    )
    three = [effect(lanes=(tenant,), lead=lead) for tenant, lead in zip("tuv", "abc", strict=True)]
    for again in (False, True):
        told = write(prepared, Anywhere(), *three)
        assert [written.error and written.error.code for written in told] == [
            None,
            "SinkRefused",
            None,
        ]
        assert [written.reached for written in told[::2]] == [(10,) if again else None] * 2
    assert asked(prepared, "SELECT lead, total FROM sums ORDER BY 1") == [("a", 1), ("c", 1)]


def test_what_a_commit_refused_is_looked_at_without_one(prepared):
    asked(prepared, "CREATE TABLE leads (lead text PRIMARY KEY)")
    asked(
        prepared,
        "ALTER TABLE sums ADD FOREIGN KEY (lead) REFERENCES leads DEFERRABLE INITIALLY DEFERRED",
    )
    writer = SUMS.open(site(prepared, Store()))
    writer.check_effect(effect(lead="a"))
    assert writer.write([effect(lead="a")])[0].error.code == "SinkRefused"
    with pytest.raises(SinkRefused, match="foreign key"):
        writer.check_effect(effect(lead="a"))
    asked(prepared, "INSERT INTO leads VALUES ('a')")
    writer.check_effect(effect(lead="a"))
    assert asked(prepared, "SELECT count(*) FROM sums") == [(0,)]


@pytest.mark.parametrize(
    ("kind", "compares"),
    [
        ("citext", "citext"),
        ("name", "name"),
        ('text COLLATE "C"', None),
        ("text", None),
    ],
)
def test_a_table_that_takes_two_keys_for_one_is_not_used(url, kind, compares):
    if kind == "citext":
        asked(url, "CREATE EXTENSION citext")
    asked(url, f"CREATE TABLE sums (lead {kind} PRIMARY KEY, total bigint)")
    expected = pytest.raises(ConfigError, match=f"column 'lead' compares by {compares}")
    with expected if compares else nullcontext():
        SUMS.prepare(site(url, Store()))


def test_a_key_that_is_checked_at_the_commit_is_not_used(url):
    asked(url, "CREATE TABLE sums (lead text PRIMARY KEY DEFERRABLE, total bigint)")
    with pytest.raises(ConfigError, match="is DEFERRABLE"):
        SUMS.prepare(site(url, Store()))
    asked(url, "CREATE UNIQUE INDEX leads ON sums (lead) INCLUDE (total)")
    SUMS.prepare(site(url, Store()))


@pytest.mark.parametrize(("said", "kept"), [("off", "on"), ("local", "local"), ("on", "on")])
def test_what_is_committed_is_on_the_disk_whatever_the_database_says(url, said, kept):
    database = url.rpartition("/")[2]
    asked(url, f"ALTER DATABASE {database} SET synchronous_commit = {said}")
    engine = writer_of(engine_of(parse(url), Waits()))
    with engine.begin() as connection:
        told = connection.exec_driver_sql("SHOW synchronous_commit").scalar()
    engine.dispose()
    assert told == kept


def test_tables_that_are_there_need_no_right_to_make_any(prepared):
    role = f"writer_{uuid.uuid4().hex}"
    asked(prepared, f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
    asked(prepared, f"GRANT SELECT, INSERT, UPDATE ON sums, headrace_written TO {role}")
    made = site(prepared, Store(), user=role, password="hunter2")
    SUMS.prepare(made)
    (written,) = SUMS.open(made).write([effect()])
    assert written.error is None
    asked(prepared, f"REVOKE INSERT ON sums FROM {role}")
    (refused,) = SUMS.open(made).write([effect()])
    asked(prepared, "DROP TABLE sums")
    with pytest.raises(ConfigError, match="table sums at history: permission denied") as denied:
        SUMS.prepare(made)
    asked(prepared, re.search("make it by hand: '(CREATE TABLE .*)'", str(denied.value))[1])
    asked(prepared, f"GRANT SELECT, INSERT, UPDATE ON sums TO {role}")
    SUMS.prepare(made)
    asked(prepared, f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert refused.reached == (10,), "what is there needs no right"


def test_a_right_that_one_tenants_rows_lack_costs_that_tenant_alone(prepared):
    role = f"writer_{uuid.uuid4().hex}"
    asked(prepared, f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
    asked(prepared, f"GRANT SELECT, INSERT, UPDATE ON sums, headrace_written TO {role}")
    asked(prepared, "ALTER TABLE sums ENABLE ROW LEVEL SECURITY")
    asked(prepared, "CREATE POLICY p ON sums USING (true) WITH CHECK (lead <> 'bolt')")
    made = site(prepared, Store(), user=role, password="hunter2")
    tenants = ("acme", "bolt", "cove")
    effects = [effect(lanes=(name,), lead=name) for name in tenants]
    codes = [one.error and one.error.code for one in SUMS.open(made).write(effects)]
    asked(prepared, f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert codes == [None, "TargetMissing", None]
    assert asked(prepared, "SELECT lead FROM sums ORDER BY 1") == [("acme",), ("cove",)]


def test_who_is_not_let_in_is_told_without_the_password_and_tried_again(url):
    made = site(url, Store(), password="hunter2")
    with pytest.raises(SinkUnavailable, match=r"connection history .* it is not reached") as told:
        SUMS.prepare(made)
    (written,) = SUMS.open(made).write([effect()])
    assert written.error.temporary
    assert "hunter2" not in str(told.value) + written.error.message


def test_credentials_that_expire_in_the_middle_leave_what_was_written(prepared):
    role = f"writer_{uuid.uuid4().hex}"
    asked(prepared, f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
    asked(prepared, f"GRANT SELECT, INSERT, UPDATE ON sums, headrace_written TO {role}")
    made = site(prepared, Store(), user=role, password="hunter2")
    first, later = effect(lanes=("acme",), lead="acme"), effect(lanes=("bolt",), lead="bolt")
    (written,) = SUMS.open(made).write([first])
    assert written.error is None
    asked(prepared, f"ALTER ROLE {role} VALID UNTIL '2001-01-01'")
    asked(
        prepared, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
    )
    for _ in range(2):
        (expired,) = SUMS.open(made).write([later])
        assert expired.error.temporary
        assert "hunter2" not in expired.error.message
    asked(prepared, f"ALTER ROLE {role} VALID UNTIL 'infinity'")
    told = SUMS.open(made).write([first, later])
    asked(prepared, f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert [(one.error, one.reached) for one in told] == [(None, (10,)), (None, None)]
    assert sorted(lead for (lead,) in asked(prepared, "SELECT lead FROM sums")) == ["acme", "bolt"]


def test_a_database_that_is_read_only_for_a_while_is_tried_again(prepared):
    role = f"writer_{uuid.uuid4().hex}"
    asked(prepared, f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
    asked(prepared, f"GRANT SELECT, INSERT, UPDATE ON sums, headrace_written TO {role}")
    asked(prepared, f"ALTER ROLE {role} SET default_transaction_read_only = on")
    made = site(prepared, Store(), user=role, password="hunter2")
    (refused,) = SUMS.open(made).write([effect()])
    assert (refused.error.code, refused.error.temporary) == ("SinkUnavailable", True)
    asked(prepared, f"ALTER ROLE {role} SET default_transaction_read_only = off")
    asked(
        prepared, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'"
    )
    outcomes = [SUMS.open(made).write([effect()])[0].error for _ in range(2)]
    asked(prepared, f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert outcomes[-1] is None
    assert total(prepared) == [1]


def test_many_lanes_are_locked_and_noted_in_one_statement_each(prepared):
    lanes = [f"t{number:04d}" for number in range(500)]
    effects = [effect(lanes=(lane,)) for lane in lanes]
    for reached in (None, (10,)):
        written = write(prepared, Store(), *effects)
        assert {(one.error, one.superseded, one.reached) for one in written} == {
            (None, False, reached)
        }
    assert total(prepared) == [500]
    assert asked(prepared, "SELECT count(*), min(reached) FROM headrace_written") == [(500, 10)]


WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


def test_notes_hold_places_of_any_width(prepared):
    """Beside others that are narrow, in one statement."""
    far = {"a": 5, "b": 2**63, "c": WIDE}
    effects = [effect(lanes=(name,), lead=name) for name in far]
    effects = [
        replace(
            one,
            slices=tuple(
                replace(piece, from_offset=at, until_offset=at + 3) for piece in one.slices
            ),
            reached=(at + 3,),
        )
        for one, at in zip(effects, far.values(), strict=True)
    ]
    for _ in range(2):
        written = write(prepared, Anywhere(), *effects)
        assert all(one.error is None for one in written)
    assert [one.reached for one in written] == [(at + 3,) for at in far.values()]
    order = "SELECT tenant FROM headrace_written ORDER BY reached DESC"
    assert [row[0] for row in asked(prepared, order)] == ["c", "b", "a"]


def test_notes_of_an_earlier_version_are_widened_by_hand_as_their_failure_says(prepared):
    for column in ("from_offset", "reached"):
        asked(prepared, f"ALTER TABLE headrace_written ALTER COLUMN {column} TYPE BIGINT")
    narrow = effect(lanes=("a",))
    assert write(prepared, Anywhere(), narrow)[0].error is None
    assert write(prepared, Anywhere(), narrow)[0].reached == (10,)
    (piece,) = narrow.slices
    wide = replace(
        narrow,
        slices=(replace(piece, from_offset=WIDE, until_offset=WIDE + 1),),
        reached=(WIDE + 1,),
    )
    other = replace(wide, slices=(replace(wide.slices[0], lane=piece.lane._replace(name="b")),))
    (stopped,) = write(prepared, Anywhere(), other)
    assert stopped.error.code == "TargetMissing"
    asked(prepared, re.search("ALTER TABLE .*numeric", stopped.error.message)[0])
    assert write(prepared, Anywhere(), other)[0].error is None
    assert write(prepared, Anywhere(), other)[0].reached == (WIDE + 1,)
