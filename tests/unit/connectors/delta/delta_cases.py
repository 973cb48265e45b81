"""Effects and writers that the tests of Delta tables share."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable as Library

from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import DeltaTable

SCHEMA = pa.schema([("tenant", pa.string()), ("value", pa.int64())])


class Places:
    """The store's answer to whether lanes stand where slices begin: yes, but for some tenants."""

    def __init__(self, gone=()):
        self.gone, self.asked = set(gone), 0

    def advance(self, moves):
        self.asked += 1
        return [move.lane.tenant not in self.gone for move in moves]


def rows_of(values, tenant="acme"):
    return pa.table({"tenant": [tenant] * len(values), "value": list(values)}, schema=SCHEMA)


def effect(values, *, tenant="acme", start=0, lanes=1, reached=None, epoch=1, may_repeat=True):
    """Records whose values are their offsets, or what else is given."""
    slices = tuple(
        Slice(LaneId("copy", tenant, f"{tenant}.visits[{n}]"), "v", start, start + 9, epoch)
        for n in range(lanes)
    )
    ends = (start + 9 if reached is None else reached,) * lanes
    return Effect(slices, ends, rows_of(values, tenant), may_repeat=may_repeat)


def site(folder, *, wave="", places=None):
    """Where a recorded wave works, or one that nobody wrote down."""
    connections = Connections({}, "", warehouse=str(folder), seal_key=b"store")
    return Site(connections, places or Places(), wave, "fence" if wave else "")


def write(folder, effects, *, wave="", places=None, sink=None):
    """What becomes of effects that one bin writes."""
    sink = sink or DeltaTable("visits", SCHEMA)
    sink.prepare(site(folder))
    writer = sink.open(site(folder, wave=wave, places=places))
    try:
        return list(writer.write(effects))
    finally:
        writer.close()


def found(folder, name="visits"):
    """The values in the table, as its client library reads them, sorted."""
    return sorted(Library(str(folder / name)).to_pyarrow_table()["value"].to_pylist())
