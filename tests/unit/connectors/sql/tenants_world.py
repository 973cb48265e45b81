"""A sink whose table each tenant has in a database of its own, and effects for it."""

import sqlite3
from contextlib import closing, contextmanager

import pyarrow as pa

from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

COLUMNS = {"lead": "text", "size": "bigint"}


class Store:
    """Every lane stands where a slice of it begins."""

    def advance(self, moves):
        return [True] * len(moves)


class World:
    def __init__(self, folder, at="history", **connections):
        self.folder = folder
        named = connections or {"history": f"sqlite:///{folder}/{{tenant}}/history.db"}
        servers_ = {name.replace("_", "-"): Server(url) for name, url in named.items()}
        self.connections = Connections({}, f"sqlite:///{folder}/store.db", servers=servers_)
        self.sink = SqlTable("leads", COLUMNS, key=("lead",), at=at)

    def site(self, *, in_company=False):
        return Site(self.connections, Store(), "w-1", "run-0", in_company=in_company)

    def write(self, *effects, in_company=False):
        return self.sink.open(self.site(in_company=in_company)).write(effects)

    @contextmanager
    def locked(self, tenant):
        """Somebody else writes to the tenant's database, and does not come to an end."""
        with closing(sqlite3.connect(self.folder / tenant / "history.db")) as database:
            database.execute("BEGIN IMMEDIATE")
            yield
            database.rollback()

    def rows(self, tenant):
        with closing(sqlite3.connect(self.folder / tenant / "history.db")) as database:
            return database.execute("SELECT lead, size FROM leads ORDER BY lead").fetchall()


def effect(tenant, lead="a", first=0):
    table = pa.table({"lead": [lead], "size": pa.array([1], pa.int64())})
    piece = Slice(LaneId("keep", tenant, 0), f"{tenant}.visits", first, first + 9, epoch=1)
    return Effect((piece,), (first + 9,), table)
