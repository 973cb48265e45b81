"""The laws of a sink, on a table in SQLite and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa
import pytest
from newest_rows import NewestRows
from sqlalchemy import create_engine, text

from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import Tenant
from headrace.ports import Connections, Effect, Sink, Site
from headrace.sinks import SqlTable
from headrace.store import SqlStore, open_store
from headrace.testing.sink_contract import USE_CASE, InBuckets, Seen, SinkContract


class Unanswered:
    """Positions of a real store, whose answer to a commit can be lost."""

    def __init__(self, real):
        self._real = real
        self.advance_in, self.advance = real.advance_in, real.advance
        self._loses = self._away = False

    @contextmanager
    def begin(self):
        if self._away:
            raise StoreUnavailable("it is away")
        with self._real.begin() as connection:
            yield connection
        if self._loses:
            self._loses = False
            raise OutcomeUnknown("the answer to a commit was lost")

    @contextmanager
    def losing_an_answer(self):
        self._loses = True
        yield
        assert not self._loses, "nothing was committed"

    @contextmanager
    def being_away(self):
        self._away = True
        yield
        self._away = False


class TestSqlTable(SinkContract):
    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "rows and positions are in one database: it knows both "
        "or neither"
    }
    where = ""

    @pytest.fixture(autouse=True)
    def _store(self, made_store_url):
        self.url = made_store_url
        self.store: SqlStore = open_store(self.url)
        self.positions = Unanswered(self.store.positions)
        self.store.registry.deploy(Deployment(USE_CASE, "contract.py", "0", "{tenant}.visits"))
        yield
        self.store.close()

    def make_sink(self) -> Sink:
        return SqlTable("things", {"value": "text", "size": "bigint"}, key=("value",))

    def site(self) -> Site:
        return Site(Connections({}, self.url), self.positions)

    def table(self, values):
        schema = pa.schema([("size", pa.int32()), ("value", pa.string())])
        return pa.table({"value": list(values), "size": [1] * len(values)}, schema=schema)

    def refused_table(self):
        return pa.table({"value": pa.array([None], pa.string()), "size": [1]})

    def wrong_table(self):
        return pa.table({"value": [1], "size": [1]})

    def losing_an_answer(self):
        return self.positions.losing_an_answer()

    def refusing_for_now(self):
        return self.positions.being_away()

    def read_back(self):
        engine = create_engine(self.url)
        with engine.connect() as connection:
            # Where the row lies: rows that were never changed lie in the order they came.
            place = "rowid" if connection.dialect.name == "sqlite" else "ctid"
            query = f"SELECT value FROM things {self.where} ORDER BY {place}"
            rows = connection.execute(text(query)).all()
        engine.dispose()
        return [Seen(row.value, row.value) for row in rows]

    def place(self, effect: Effect) -> None:
        lane = effect.slices[0].lane
        if lane.tenant not in {tenant.name for tenant in self.store.registry.tenants()}:
            self.store.registry.add_tenant(Tenant(lane.tenant))
            self.store.membership.hold([lane.stream])
        if lane not in {position.lane for position in self.store.progress.load_positions()}:
            self.store.progress.start_lanes([LaneStart(lane.stream, "id", {lane.name: 0})])
        (held,) = {e.epoch for e in self.store.progress.load_positions() if e.lane == lane}
        assert held == effect.slices[0].epoch, "the suite takes the first epoch to be 1"


class TestSqlTableInBuckets(InBuckets, TestSqlTable):
    """Positions that are those of buckets."""


class TestSqlTableWithoutKey(TestSqlTable):
    """Here a row that is written again is there twice."""

    def make_sink(self) -> Sink:
        return SqlTable("things", {"value": "text", "size": "bigint"})

    def refused_table(self):
        offsets = pa.array([0, 1], pa.int32()).buffers()[1]
        no_text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff"))
        return pa.table({"value": no_text, "size": [1]})


class TestNewestOfSqlTable(NewestRows, TestSqlTable):
    """A table that keeps the newest row of a key, by the versions of effects."""

    def make_sink(self) -> Sink:
        return SqlTable(
            "things",
            {"key": "text", "value": "text", "gone": "boolean", "version": "version"},
            key=("key",),
            newest_by="version",
            delete_by="gone",
            key_in_one_lane=True,
        )
