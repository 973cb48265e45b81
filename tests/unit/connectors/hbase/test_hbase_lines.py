"""Lines to a Thrift server: what is kept, what is given up, and what is sent at once."""

import contextlib
import queue
import socket
import threading
import time

import pyarrow as pa
import pytest

from dripping import dripping
from headrace.connectors.hbase import servers
from headrace.connectors.hbase.addresses import Address
from headrace.connectors.hbase.library import library
from headrace.connectors.hbase.servers import AT_ONCE, LINES, Cluster, Request
from headrace.connectors.tenants import MOMENT_S
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import HBaseTable

#: an answer to mutateRowsTs, of nothing: its version, name, number, and no fields
DONE = b"\x80\x01\x00\x02\x00\x00\x00\x0cmutateRowsTs\x00\x00\x00\x00\x00"
ROW = Request(b"t", [], 1)


class Thrift:
    """Answers each request that comes, as soon as it is let; counts connections and requests."""

    def __init__(self):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.lets, self.came, self.open, self.pause_s = threading.Event(), 0, [], 0.0
        self.lets.set()
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listening.accept()
                self.open.append(one)
                threading.Thread(target=self._talk, args=(one,), daemon=True).start()

    def _talk(self, one):
        due = queue.SimpleQueue()
        threading.Thread(target=self._answer, args=(one, due), daemon=True).start()
        with contextlib.suppress(OSError):
            while said := one.recv(65_536):
                self.came += said.count(b"mutateRowsTs")
                due.put(said.count(b"mutateRowsTs"))
        due.put(0)

    def _answer(self, one, due):
        with contextlib.suppress(OSError):
            while count := due.get():
                self.lets.wait(10)
                time.sleep(self.pause_s * count)  # however many of them came at once
                one.sendall(DONE * count)

    def close(self):
        self.lets.set()
        for one in [self.listening, *self.open]:
            one.close()


@pytest.fixture(autouse=True)
def _imported():
    library()  # to import it takes its time


@pytest.fixture
def thrift():
    made = Thrift()
    yield made
    made.close()


@pytest.fixture
def cluster(thrift):
    made = Cluster("c", Address("127.0.0.1", thrift.port, tls=False), (0.5, 0.5))
    yield made
    made.close()


def test_many_requests_are_on_their_way_before_the_first_is_answered(thrift, cluster):
    thrift.lets.clear()
    writing = threading.Thread(target=cluster.done, args=([ROW] * 1000,))
    writing.start()
    give_up_s = time.monotonic() + 0.4
    while thrift.came < LINES * AT_ONCE and time.monotonic() < give_up_s:
        time.sleep(0.005)
    assert thrift.came == LINES * AT_ONCE
    thrift.lets.set()
    writing.join()
    assert (thrift.came, len(thrift.open)) == (1000, LINES)


def test_lines_are_kept_for_who_comes_next_and_not_when_the_server_may_have_hung_up(
    thrift, cluster, monkeypatch
):
    assert cluster.done([ROW] * 9) == [None] * 9
    assert cluster.done([ROW]) == [None]
    assert len(thrift.open) == LINES
    monkeypatch.setattr(servers, "_KEPT_S", 0.0)
    assert cluster.done([ROW]) == [None]
    assert len(thrift.open) == LINES + 1


def test_what_was_not_answered_in_time_is_not_taken_for_the_next_answer(thrift, cluster):
    thrift.lets.clear()
    with pytest.raises(SinkUnavailable, match="may be written or not"):
        cluster.done([ROW])
    thrift.lets.set()
    assert cluster.done([ROW]) == [None]
    assert len(thrift.open) == 2


@pytest.mark.parametrize(
    "ask",
    [lambda cluster: cluster.done([ROW] * 9), lambda cluster: cluster.asked(lambda c: c.tables())],
    ids=["done", "asked"],
)
def test_a_server_that_answers_byte_by_byte_is_given_up_in_the_time_for_an_answer(ask):
    with dripping(b"\x80\x01\x00\x02\x00\x00\x00\xc8" + b"a" * 200) as port:
        cluster = Cluster("c", Address("127.0.0.1", port, tls=False), (0.4, 0.4))
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="may be written or not"):
            ask(cluster)
        assert time.monotonic() - began_s < 2.4
        cluster.close()


def test_requests_that_are_not_at_once_on_their_way_have_not_one_time_for_all(thrift):
    cluster = Cluster("c", Address("127.0.0.1", thrift.port, tls=False), (1.0, 1.0))
    thrift.pause_s, requests = 0.002, [ROW] * (40 * LINES * AT_ONCE)
    began_s = time.monotonic()
    assert cluster.done(requests) == [None] * len(requests)
    assert time.monotonic() - began_s > 1.0
    cluster.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3, b"\xff" * 64])
def test_a_server_that_answers_what_is_none_costs_its_own_tenant_a_moment(answer, monkeypatch):
    monkeypatch.setattr(servers._clusters, "held", {})
    sink = HBaseTable("x", {"id": "bigint"}, key=("id",), newest_by="id", at="c-{tenant}")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    effect = Effect((Slice(LaneId("keep", "odd", 0), "visits", 0, 9, epoch=1),), (9,), rows)
    with dripping(answer) as port:
        site = Site(
            Connections({}, "", servers={"c-odd": Server(f"hbase://127.0.0.1:{port}")}),
            None,
            in_company=True,
        )
        began_s = time.monotonic()
        [told] = sink.open(site).write([effect])
    assert time.monotonic() - began_s < 2 * MOMENT_S
    assert told.error.temporary
    assert "c-odd" in told.error.message
