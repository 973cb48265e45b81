"""A tenant's own MariaDB that greets, or answers, byte by byte, while others wait and alone."""

import struct
import threading
import time

import psutil
import pyarrow as pa
import pymysql  # noqa: F401 - to import it takes its time
import pytest

from dripping import dripping
from headrace.connectors import tenants
from headrace.connectors.sql import servers
from headrace.databases.engines import Waits
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


def written(port, *, in_company):
    """What became of a row of a tenant whose database is there."""
    server = Server(f"mariadb://me:secret@127.0.0.1:{port}/db")
    connections = Connections({}, "sqlite:////nowhere/store.db", servers={"c-slow": server})
    slices = (Slice(LaneId("keep", "slow", 0), "visits", 0, 9, epoch=1),)
    effect = Effect(slices, (9,), pa.table({"id": pa.array([1], pa.int64())}))
    sink = SqlTable("leads", {"id": "bigint"}, at="c-{tenant}")
    [told] = sink.open(Site(connections, None, in_company=in_company)).write([effect])
    return told.error


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    monkeypatch.setattr(servers, "Waits", lambda: Waits(connect_s=1))
    monkeypatch.setattr(servers._targets, "held", {})


@pytest.mark.parametrize("statements", [0, 2, 3])
def test_a_database_that_answers_byte_by_byte_has_its_moment_and_no_more(statements):
    drips = packet(1, OK + b"a" * 200)
    answers = (LET_IN, *(DONE,) * statements)
    with dripping(drips, greeting=GREETING, answers=answers) as port:
        began_s = time.monotonic()
        error = written(port, in_company=True)
        took_s = time.monotonic() - began_s
    assert took_s < 10 * MOMENT_S
    assert error.code == "TenantsSinkSlow"


@pytest.mark.parametrize("in_company", [True, False])
@pytest.mark.parametrize("greeting", [b"", GREETING], ids=["greeting", "login"])
def test_one_that_lets_in_byte_by_byte_leaves_no_thread_and_no_file(in_company, greeting):
    drips = packet(2 if greeting else 0, b"\x0a" + b"a" * 400)
    with dripping(drips, greeting=greeting, unasked=True) as port:
        for _ in range(3):
            began_s = time.monotonic()
            assert written(port, in_company=in_company).code == "TenantsSinkSlow"
            assert time.monotonic() - began_s < 5
        until_s = time.monotonic() + 5
        while (left := attempts(port)) != (0, 0):
            assert time.monotonic() < until_s, left
            time.sleep(0.05)


def attempts(port):
    """Threads that connect, and sockets of ours to a port."""
    threads = [one for one in threading.enumerate() if "_connect" in one.name]
    sockets = psutil.Process().net_connections()
    return len(threads), sum(bool(one.raddr) and one.raddr.port == port for one in sockets)
