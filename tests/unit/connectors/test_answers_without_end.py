"""Servers that answer on and on: what is kept of an answer has a size, whatever it is made of."""

import gzip
import itertools
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from headrace.connectors.hbase import servers as hbase
from headrace.connectors.redis import servers as redis
from headrace.connectors.search import servers as search
from headrace.connectors.solr import servers as solr
from headrace.errors import SinkUnavailable
from headrace.ports import Server

#: in place of what an answer may have
MOST = 2**20
PIECE = b"a" * 65_536
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNK = b"10000\r\n" + PIECE + b"\r\n"


@contextmanager
def flooding(begins, piece, answers=()):
    """Its port, and a list of how many bytes each connection took after it began."""
    taken = []

    def talk(one):
        with one, suppress(OSError):
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
