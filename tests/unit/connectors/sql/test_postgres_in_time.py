"""A tenant's own PostgreSQL that lets in and then answers byte by byte, or without end."""

import struct
from types import SimpleNamespace

import pyarrow as pa
import pytest

from dripping import dripping
from headrace.connectors import tenants
from headrace.databases import patience
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

MOMENT_S = 0.4


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


SETTINGS = {b"server_version": b"16.0", b"client_encoding": b"UTF8"}
LET_IN = (
    message(b"R", struct.pack("!I", 0))
    + b"".join(message(b"S", name + b"\0" + value + b"\0") for name, value in SETTINGS.items())
    + message(b"K", bytes(8))
    + message(b"Z", b"I")
)
DRIPS = message(b"N", b"SNOTICE\0" + b"M" + b"a" * 200 + b"\0\0")


def test_a_database_that_answers_byte_by_byte_has_its_moment_and_no_more(monkeypatch):
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    drips = iter(DRIPS)
    with dripping(drips, answers=(LET_IN,)) as port:
        place = f"127.0.0.1:{port}/db?sslmode=disable&gssencmode=disable"
        server = Server(f"postgresql://me:secret@{place}")
        connections = Connections({}, "sqlite:////nowhere/store.db", servers={"c-slow": server})
        slices = (Slice(LaneId("keep", "slow", 0), "visits", 0, 9, epoch=1),)
        effect = Effect(slices, (9,), pa.table({"id": pa.array([1], pa.int64())}))
        sink = SqlTable("leads", {"id": "bigint"}, at="c-{tenant}")
        [told] = sink.open(Site(connections, None, in_company=True)).write([effect])
        assert next(drips, None) is not None, "all of its answer was waited for"
    assert told.error.code == "TenantsSinkSlow"


@pytest.mark.parametrize("ready", [0, 1])
def test_an_exchange_is_over_when_its_time_is_whatever_is_ready(monkeypatch, ready):
    now_s = 100.0
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: now_s))

    def endless():
        while True:
            yield 1

    exchange = patience._ended(endless(), patience_s=60.0, until_s=102.0, count=lambda: None)
    next(exchange)
    for _ in range(20):
        exchange.send(ready)
        now_s += 0.1
    now_s += 0.1
    with pytest.raises(patience._GivenUp, match="within the time"):
        exchange.send(ready)
