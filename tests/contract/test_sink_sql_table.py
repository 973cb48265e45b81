"""The laws of a sink, on a table in SQLite and in PostgreSQL."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import Tenant
from headrace.ports import Connections, Effect, Sink, Site
from headrace.sinks import SqlTable
from headrace.store import SqlStore, open_store
from headrace.testing.sink_contract import USE_CASE, Seen, SinkContract


class TestSqlTable(SinkContract):
    @pytest.fixture(autouse=True)
    def _store(self, store_url):
        self.url = store_url
        self.store: SqlStore = open_store(self.url)
        self.store.deploy(Deployment(USE_CASE, "contract.py", "0", "{tenant}.visits"))
        yield
        self.store.close()

    def make_sink(self) -> Sink:
        return SqlTable("things", {"value": "text", "size": "bigint"}, key=("value",))

    def site(self) -> Site:
        return Site(Connections({}, self.url), self.store.positions)

    def table(self, values):
        schema = pa.schema([("size", pa.int32()), ("value", pa.string())])
        return pa.table({"value": list(values), "size": [1] * len(values)}, schema=schema)

    def refused_table(self):
        return pa.table({"value": pa.array([None], pa.string()), "size": [1]})

    def wrong_table(self):
        return pa.table({"value": [1], "size": [1]})

    def read_back(self):
        engine = create_engine(self.url)
        with engine.connect() as connection:
            # Where the row lies: rows that were never changed lie in the order they came.
            place = "rowid" if connection.dialect.name == "sqlite" else "ctid"
            rows = connection.execute(text(f"SELECT value FROM things ORDER BY {place}")).all()
        engine.dispose()
        return [Seen(row.value, row.value) for row in rows]

    def place(self, effect: Effect) -> None:
        lane = effect.slices[0].lane
        if lane.tenant not in {tenant.name for tenant in self.store.tenants()}:
            self.store.add_tenant(Tenant(lane.tenant))
            self.store.hold([lane.stream])
        if lane not in {each.lane for each in self.store.load_positions()}:
            self.store.start_lanes([LaneStart(lane.stream, "id", {lane.partition: 0})])
        (held,) = {e.epoch for e in self.store.load_positions() if e.lane == lane}
        assert held == effect.slices[0].epoch, "the suite takes the first epoch to be 1"
