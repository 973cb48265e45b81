"""The laws of a sink, on a table that is not in the store: SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from newest_rows import NewestRows
from sqlalchemy import NullPool, create_engine, make_url, text

from headrace.connectors.sql.servers import Target, target_of
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import SqlTable
from headrace.testing.sink_contract import InBuckets, Seen, SinkContract

#: in the order in which rows came
PLACES = {"sqlite": "rowid", "postgresql": "ctid", "mysql": "came"}
KEY = "VARCHAR(255) COLLATE utf8mb4_nopad_bin NOT NULL PRIMARY KEY"


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def empty_url(request, tmp_path):
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    name = "postgres_url" if request.param == "postgresql" else "empty_mariadb"
    return request.getfixturevalue(name)


class Everywhere:
    """Positions of lanes that are wherever somebody believes them to be."""

    def advance(self, moves):
        return [True] * len(moves)


class TestSqlTableElsewhere(SinkContract):
    """Recorded waves, and a table without a key: a row that is written again is there twice."""

    fence = "run-0"
    key: tuple[str, ...] = ()
    where = ""
    #: as they are in MariaDB, which keeps rows in the order of their keys
    columns = "value LONGTEXT, size BIGINT"

    @pytest.fixture(autouse=True)
    def _server(self, empty_url, tmp_path):
        url = make_url(empty_url)
        self.url, self.name = url, f"history-{uuid.uuid4().hex}"
        if url.drivername == "mariadb":
            self.url = url.set(drivername="mysql+pymysql")
            came = "came BIGINT NOT NULL AUTO_INCREMENT, KEY (came)"
            with create_engine(self.url, poolclass=NullPool).begin() as connection:
                connection.execute(text(f"CREATE TABLE things ({self.columns}, {came})"))
        # Credentials stand apart from the address, and those in it are not used.
        apart = url.set(username="nobody") if url.username else url
        server = Server(apart.render_as_string(hide_password=False), url.username, url.password)
        self.connections = Connections(
            {},
            f"sqlite:///{tmp_path}/the-store.db",
            servers={self.name: server},
            seal_key=b"secret",
        )
        yield
        # Each test has a name of its own, and so a pool: together more than a server lets in.
        target_of(self.connections, self.name).close()

    def make_sink(self) -> Sink:
        return SqlTable("things", {"value": "text", "size": "bigint"}, key=self.key, at=self.name)

    def site(self) -> Site:
        return Site(self.connections, Everywhere(), wave_id="w-1", fence=self.fence)

    def table(self, values):
        schema = pa.schema([("size", pa.int32()), ("value", pa.string())])
        return pa.table({"value": list(values), "size": [1] * len(values)}, schema=schema)

    def refused_table(self):
        offsets = pa.array([0, 1], pa.int32()).buffers()[1]
        no_text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff"))
        return pa.table({"value": no_text, "size": [1]})

    def wrong_table(self):
        return pa.table({"value": [1], "size": [1]})

    @contextmanager
    def losing_an_answer(self):
        target, loses = target_of(self.connections, self.name), [True]
        begin = target.begin

        @contextmanager
        def unheard():
            with begin() as connection:
                yield connection
            if loses:
                loses.clear()
                raise OutcomeUnknown("the answer to a commit was lost")

        target.begin = unheard
        yield
        del target.begin
        assert not loses, "nothing was committed"

    @contextmanager
    def refusing_for_now(self):
        target = target_of(self.connections, self.name)

        def away():
            raise StoreUnavailable("it is away")

        target.begin = away
        yield
        del target.begin

    def forgetting(self):
        with target_of(self.connections, self.name).begin() as connection:
            return connection.execute(text("DELETE FROM headrace_written")).rowcount > 0

    def read_back(self):
        engine = create_engine(self.url)
        with engine.connect() as connection:
            # Where the row lies: rows that were never changed lie in the order they came.
            place = PLACES[connection.dialect.name]
            query = f"SELECT value FROM things {self.where} ORDER BY {place}"
            rows = connection.execute(text(query)).all()
        engine.dispose()
        return [Seen(row.value, row.value) for row in rows]


class TestSqlTableElsewhereInBuckets(InBuckets, TestSqlTableElsewhere):
    """Notes that are of buckets."""


class TestKeyedSqlTableElsewhere(TestSqlTableElsewhere):
    """Without recorded waves, as with at-least-once: a row of the same key is written over."""

    fence = ""
    key = ("value",)
    columns = f"value {KEY}, size BIGINT"
    writes_once = False
    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "nothing is noted without recorded waves"
    }

    def refused_table(self):
        return pa.table({"value": pa.array([None], pa.string()), "size": [1]})


class TestNewestOfSqlTableElsewhere(NewestRows, TestKeyedSqlTableElsewhere):
    """A table that keeps the newest row of a key, by a column of the data."""

    columns = f"`key` {KEY}, value LONGTEXT, gone BOOLEAN, changed BIGINT NOT NULL"

    def make_sink(self) -> Sink:
        return SqlTable(
            "things",
            {"key": "text", "value": "text", "gone": "boolean", "changed": "bigint"},
            key=("key",),
            newest_by="changed",
            delete_by="gone",
            at=self.name,
        )

    def rows(self, states):
        changed = pa.array([state.version for state in states], pa.int64())
        return super().rows(states).append_column("changed", changed)


class TestNewestOfSqlTableElsewhereOnce(TestNewestOfSqlTableElsewhere):
    """The same with recorded waves: where the notes are gone, the rows still tell."""

    fence = "run-0"
    writes_once = True
    cannot_have: ClassVar[Mapping[str, str]] = {}


class TestSqlTableOfTenants(SinkContract):
    """Each tenant's rows in a database of its own."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path / "of"
        server = Server(f"sqlite:///{self.folder}/{{tenant}}/history.db")
        store = f"sqlite:///{tmp_path}/the-store.db"
        self.connections = Connections({}, store, servers={"history": server})

    def make_sink(self) -> Sink:
        return SqlTable("things", {"value": "text", "size": "bigint"}, at="history")

    def site(self) -> Site:
        return Site(self.connections, Everywhere(), wave_id="w-1", fence="run-0")

    table = TestSqlTableElsewhere.table
    refused_table = TestSqlTableElsewhere.refused_table
    wrong_table = TestSqlTableElsewhere.wrong_table

    @contextmanager
    def losing_an_answer(self):
        begin, loses = Target.begin, [True]

        @contextmanager
        def unheard(target):
            with begin(target) as connection:
                yield connection
            # Of what it writes, not of what it makes.
            if loses and target.fitted:
                loses.clear()
                raise OutcomeUnknown("the answer to a commit was lost")

        with mock.patch.object(Target, "begin", unheard):
            yield
        assert not loses, "nothing was committed"

    @contextmanager
    def refusing_for_now(self):
        with mock.patch.object(Target, "begin", side_effect=StoreUnavailable("it is away")):
            yield

    def forgetting(self):
        found = 0
        for database in self._databases():
            with database.begin() as connection:
                found += connection.execute(text("DELETE FROM headrace_written")).rowcount
        return found > 0

    def read_back(self):
        query = text("SELECT value FROM things ORDER BY rowid")
        rows = []
        for database in self._databases():
            with database.connect() as connection:
                rows += connection.execute(query).scalars().all()
        return [Seen(value, value) for value in rows]

    def _databases(self):
        for path in sorted(self.folder.glob("*/history.db")):
            yield create_engine(f"sqlite:///{path}", poolclass=NullPool)
