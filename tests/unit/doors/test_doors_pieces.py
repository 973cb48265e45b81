"""What a body costs to read is bounded, and what is no body is told."""

import socket
from contextlib import suppress

import pytest
from test_doors_trailers import CHUNKED, telling, told

from headrace.doors.protocol import DoorProtocol
from headrace.doors.serving import Listening, serving


@pytest.fixture
def address():
    with serving(telling, Listening("127.0.0.1", 0, drain_s=1)) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


@pytest.fixture
def client(address):
    with socket.create_connection(address, timeout=60) as client:
        yield client


def everything(client):
    answer = b""
    while got := client.recv(65_536):
        answer += got
    return answer


def chunk(size):
    return b"%x\r\n%s\r\n" % (size, b"a" * size)


@pytest.mark.parametrize(("count", "size"), [(900, 1), (10_000, 16), (1, 100_000)])
def test_chunks_of_a_size_that_somebody_has_reason_for_are_taken(client, count, size):
    client.sendall(CHUNKED + chunk(size) * count + b"0\r\n\r\n")
    assert told(client)[1] == count * size


@pytest.mark.parametrize(("count", "size"), [(1_100, 1), (100_000, 10)])
def test_a_body_in_crumbs_is_refused_and_the_connection_ends(client, count, size):
    answer = b""
    # what it sends behind the refusal may cut it off from the answer
    with suppress(ConnectionError):
        client.sendall(CHUNKED + chunk(size) * count)
        answer = everything(client)
    assert b" 200 " not in answer
    assert size == 10 or b"pieces-too-small" in answer


def test_one_after_the_other_may_come_in_as_many_pieces(client):
    for _ in range(5):
        client.sendall(CHUNKED + chunk(1) * 900 + b"0\r\n\r\n")
        assert told(client)[1] == 900


def test_who_sends_crumbs_costs_others_nothing(address, client, monkeypatch):
    read, whole = [], DoorProtocol.on_body

    def counted(protocol, body):
        read.append(body)
        whole(protocol, body)

    monkeypatch.setattr(DoorProtocol, "on_body", counted)
    with socket.create_connection(address, timeout=60) as other:
        for _ in range(20):
            crumbs = socket.create_connection(address, timeout=60)
            with crumbs, suppress(OSError):  # it is cut off somewhere on the way
                crumbs.sendall(CHUNKED + chunk(1) * 40_000 + b"0\r\n\r\n")
                crumbs.shutdown(socket.SHUT_WR)
                everything(crumbs)
        other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert told(other) == [["host"], 0]
    # a little more than a thousand of forty thousand
    assert 20_000 < len(read) < 20 * 2_000


@pytest.mark.parametrize("bad", [b"zz\r\nhello\r\n", b"-1\r\n", b"5\r\nhello world\r\n"])
def test_what_is_no_chunk_is_told(client, bad):
    client.sendall(CHUNKED + bad)
    assert everything(client).startswith(b"HTTP/1.1 400 ")


def test_an_answer_that_was_begun_is_not_spoilt_by_what_comes_behind_it(client):
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert told(client) == [["host"], 0]
    client.sendall(CHUNKED + b"5\r\nhello\r\n0\r\n\r\nrubbish\r\n\r\n")
    assert everything(client).count(b"HTTP/1.1 ") <= 2
