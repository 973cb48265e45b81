"""Servers that answer on and on: what is kept of an answer has a size, whatever it is made of."""

import gzip
import itertools
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from headrace.connectors.hbase import servers as hbase
from headrace.connectors.redis import servers as redis
from headrace.connectors.search import servers as search
from headrace.connectors.solr import servers as solr
from headrace.connectors.sql import servers as sql
from headrace.databases.addresses import parse_elsewhere
from headrace.databases.engines import Waits
from headrace.errors import SinkUnavailable
from headrace.ports import Server

#: in place of what an answer may have
MOST = 2**20
PIECE = b"a" * 65_536
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


@contextmanager
def flooding(begins, piece, answers=(), greeting=b""):
    """Its port, and a list of how many bytes each connection took after it began."""
    taken = []

    def talk(one):
        with one, suppress(OSError):
            one.sendall(greeting)
            for answer in answers:
                one.recv(65_536)
                one.sendall(answer)
            one.recv(65_536)
            one.sendall(begins)
            taken.append(0)
            for number in itertools.count(1):
                one.sendall(piece)
                taken[-1] = number * len(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take():
            with suppress(OSError):
                while True:
                    one, _ = listening.accept()
                    threading.Thread(target=talk, args=(one,), daemon=True).start()

        threading.Thread(target=take, daemon=True).start()
        yield listening.getsockname()[1], taken
        listening.shutdown(socket.SHUT_RDWR)


def of_redis(port):
    cache = redis.Cache("c", redis.Address("127.0.0.1", port, 0, tls=False), (5.0, 20.0))
    return cache, lambda: cache.asked("GET", "a")


def of_search(port):
    url = Server(f"http://127.0.0.1:{port}")
    cluster = search.Cluster("c", search.address_of(url, "c"))
    return cluster, lambda: cluster.asked("GET", "/")


def of_solr(port):
    url = Server(f"http://127.0.0.1:{port}")
    there = solr.Solr("c", solr.address_of(url, "c"))
    return there, lambda: there.asked("/visits")


def of_hbase(port):
    at = hbase.address_of(Server(f"hbase://127.0.0.1:{port}"), "c")
    cluster = hbase.Cluster("c", at, (5.0, 20.0))
    return cluster, lambda: cluster.asked(lambda line: line.tables())


GREETED = (b"+OK\r\n",) * 2
#: an answer to getTableNames: a list of a thousand million names, each of 64 KB
NAMES = (
    b"\x80\x01\x00\x02\x00\x00\x00\x0dgetTableNames\x00\x00\x00\x00\x0f\x00\x00\x0b\x3b\x9a\xca\x00"
)
NAME = b"\x00\x01\x00\x00" + PIECE


@pytest.mark.parametrize(
    ("module", "opened", "begins", "piece", "answers"),
    [
        (redis, of_redis, b"+", PIECE, GREETED),
        (redis, of_redis, b"$4000000000\r\n", PIECE, GREETED),
        (redis, of_redis, b"*1000000000\r\n", b"$-1\r\n" * 10_000, GREETED),
        (search, of_search, OK + b"Content-Length: 4000000000\r\n\r\n", PIECE, ()),
        (search, of_search, OK + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK, ()),
        (solr, of_solr, OK + b"Content-Length: 4000000000\r\n\r\n", PIECE, ()),
        (solr, of_solr, OK + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK, ()),
        (hbase, of_hbase, NAMES, NAME, ()),
    ],
    ids=["line", "text", "answers", "search", "chunks", "solr", "solr chunks", "hbase"],
)
def test_an_answer_that_goes_on_is_given_up_when_it_has_its_size(
    monkeypatch, module, opened, begins, piece, answers
):
    module.library()  # to import it takes its time
    monkeypatch.setattr(module, "ANSWER_BYTES", MOST)
    with flooding(begins, piece, answers) as (port, taken):
        there, ask = opened(port)
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable):
            ask()
        assert time.monotonic() - began_s < 10
        there.close()
        # Beyond that is only what both sides of a socket keep, once for each connection.
        assert max(taken) < 16 * MOST


@pytest.mark.parametrize(("module", "opened"), [(search, of_search), (solr, of_solr)])
def test_an_answer_that_is_packed_is_not_unpacked_to_whatever_size(monkeypatch, module, opened):
    module.library()
    monkeypatch.setattr(module, "ANSWER_BYTES", MOST)
    packed = gzip.compress(gzip.compress(b" " * 64 * MOST + b"{}"))
    head = b"Content-Encoding: gzip, gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with flooding(OK + head + packed, b"a") as (port, _):
        there, ask = opened(port)
        with pytest.raises(SinkUnavailable):
            ask()
        there.close()


def said(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def packet(number, body):
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


POSTGRESQL = "postgresql://u:p@127.0.0.1:{}/db?sslmode=disable&gssencmode=disable"
NOT_ASKED_FOR_A_PASSWORD = said(b"R", bytes(4))
LET_IN = (
    NOT_ASKED_FOR_A_PASSWORD
    + said(b"S", b"client_encoding\0UTF8\0")
    + said(b"K", bytes(8))
    + said(b"Z", b"I")
)
COLUMN = said(b"1", b"") + said(b"2", b"") + said(b"T", b"\0\1x\0" + bytes(18))
ROW = said(b"D", struct.pack("!HI", 1, len(PIECE)) + PIECE)
TOLD = said(b"N", b"SNOTICE\0M" + PIECE + b"\0\0")
GREETING = packet(
    0,
    b"\x0a11.4.0-MariaDB\0"
    + struct.pack("<I8sxHBHHB", 1, b"a" * 8, 0xF7FF, 33, 2, 0x81BF, 21)
    + bytes(10)
    + b"b" * 12
    + b"\0mysql_native_password\0",
)
DONE = packet(2, b"\0\0\0\2\0\0\0")


@pytest.mark.parametrize(
    ("url", "begins", "piece", "answers", "greeting"),
    [
        (POSTGRESQL, COLUMN, ROW, (LET_IN,), b""),
        (POSTGRESQL, NOT_ASKED_FOR_A_PASSWORD, TOLD, (), b""),
        ("mariadb://u:p@127.0.0.1:{}/db", b"\xff\xff\xff\1", PIECE, (DONE,), GREETING),
    ],
    ids=["rows", "before it lets in", "mariadb"],
)
def test_a_database_that_goes_on_is_given_up_when_its_answer_has_its_size(
    monkeypatch, url, begins, piece, answers, greeting
):
    monkeypatch.setattr(sql, "ANSWER_BYTES", MOST)
    monkeypatch.setattr(sql, "_POSTGRESQL_BYTES", MOST)
    with flooding(begins, piece, answers, greeting) as (port, taken):
        there = sql.Target("c", parse_elsewhere(url.format(port), "c"), Waits(), set())
        with (
            pytest.raises(SinkUnavailable, match="answer of more than 1 MB"),
            there.until(time.monotonic() + 5).begin(),
        ):
            pass
        there.close()
        assert max(taken) < 16 * MOST
