"""What stands behind a body is no header: it says nothing of who calls, and has an end."""

import json
import socket
import time
from contextlib import suppress

import pytest

from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serving

CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


async def telling(scope, receive, send):
    """Reads the body, then tells which headers there were, and how long the body was."""
    if scope["type"] != "http":
        return
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    told = json.dumps([sorted(name.decode() for name, _ in scope["headers"]), length]).encode()
    headers = [(b"content-length", str(len(told)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


@pytest.fixture
def client():
    patience = ClientTimeouts(header_bytes=4096)
    with (
        serving(telling, Listening("127.0.0.1", 0, drain_s=1, patience=patience)) as url,
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=60) as client,
    ):
        yield client


def told(client):
    answer = b""
    while b"]" not in answer:
        got = client.recv(65_536)
        assert got, answer
        answer += got
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def is_cut_off(client, endless):
    """Whether the server ends a connection on which this goes on, well before the test does."""
    ends_s = time.monotonic() + 60
    with suppress(ConnectionError):
        while time.monotonic() < ends_s:
            client.sendall(endless)
        return False
    return True


def test_a_trailer_is_no_header_of_the_request(client):
    trailers = b"Authorization: Bearer z\r\nX-Forwarded-Client-Cert: URI=spiffe://prod/acme\r\n"
    client.sendall(CHUNKED + b"5\r\nhello\r\n0\r\n" + trailers + b"\r\n")
    assert told(client) == [["host", "transfer-encoding"], 5]


def test_the_request_behind_trailers_has_its_own_headers(client):
    client.sendall(CHUNKED + b"5\r\nhello\r\n0\r\nX-A: b\r\n\r\n")
    told(client)
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-C: d\r\n\r\n")
    assert told(client) == [["host", "x-c"], 0]


@pytest.mark.parametrize(
    ("beginning", "endless"),
    [
        (b"0\r\n", b"X-A: b\r\n" * 100),
        (b"0\r\nX-A: ", b"b" * 1000),
        (b"5;", b"b" * 1000),
    ],
    ids=["trailers", "one trailer", "an extension of a chunk"],
)
def test_what_is_no_body_and_does_not_end_is_cut_off(client, beginning, endless):
    client.sendall(CHUNKED + beginning)
    assert is_cut_off(client, endless)


def test_a_body_in_small_chunks_may_be_long(client):
    client.sendall(CHUNKED + b"10\r\n0123456789abcdef\r\n" * 20_000 + b"0\r\n\r\n")
    assert told(client) == [["host", "transfer-encoding"], 320_000]
