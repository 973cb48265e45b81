"""A tenant's own MariaDB that lets in and then answers byte by byte, while others wait."""

import struct
import time

import pyarrow as pa
import pymysql  # noqa: F401 - to import it takes its time
import pytest

from dripping import dripping
from headrace.connectors import tenants
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

MOMENT_S = 0.4


def packet(number, said):
    return struct.pack("<I", len(said))[:3] + bytes([number]) + said


GREETING = packet(
    0,
    b"\x0a11.4.0-MariaDB\0"
    + struct.pack("<I8sxHBHHB", 1, b"a" * 8, 0xF7FF, 33, 2, 0x81BF, 21)
    + bytes(10)
    + b"b" * 12
    + b"\0mysql_native_password\0",
)
OK = b"\0\0\0\2\0\0\0"
LET_IN = packet(2, OK)
DONE = packet(1, OK)


@pytest.mark.parametrize("statements", [0, 2, 3])
def test_a_database_that_answers_byte_by_byte_has_its_moment_and_no_more(monkeypatch, statements):
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    drips = packet(1, OK + b"a" * 200)
    answers = (LET_IN, *(DONE,) * statements)
    with dripping(drips, greeting=GREETING, answers=answers) as port:
        server = Server(f"mariadb://me:secret@127.0.0.1:{port}/db")
        connections = Connections({}, "sqlite:////nowhere/store.db", servers={"c-slow": server})
        slices = (Slice(LaneId("keep", "slow", 0), "visits", 0, 9, epoch=1),)
        effect = Effect(slices, (9,), pa.table({"id": pa.array([1], pa.int64())}))
        sink = SqlTable("leads", {"id": "bigint"}, at="c-{tenant}")
        began_s = time.monotonic()
        [told] = sink.open(Site(connections, None, in_company=True)).write([effect])
        took_s = time.monotonic() - began_s
    assert took_s < 10 * MOMENT_S
    assert told.error.code == "TenantsSinkSlow"
