"""One address that opens connections without end keeps no other one out."""

import socket
import threading
from contextlib import ExitStack

import pytest

from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serving

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
MOST = 20


@pytest.fixture
def held():
    """Requests for /held are answered when this is set."""
    return threading.Event()


@pytest.fixture
def begun():
    """That is set when one is read."""
    return threading.Event()


@pytest.fixture
def port(held, begun):
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        if scope["path"] == "/held":
            await receive()
            begun.set()
            while not held.is_set() and (await receive())["type"] != "http.disconnect":
                pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    patience = ClientTimeouts(header_s=60, most_connections=MOST)
    with serving(app, Listening("127.0.0.1", 0, drain_s=1, patience=patience)) as url:
        yield int(url.rpartition(":")[2])


def answer(port, address):
    with socket.create_connection(("127.0.0.1", port), 60, (address, 0)) as client:
        try:
            client.sendall(REQUEST)
            return client.recv(100)[:12]
        except ConnectionError:
            return b""


@pytest.fixture
def crowd(port):
    with ExitStack() as stack:

        def comes(address, count, said=b""):
            for _ in range(count):
                client = socket.create_connection(("127.0.0.1", port), 60, (address, 0))
                stack.enter_context(client).sendall(said)

        yield comes


@pytest.mark.parametrize("said", [b"", b"GET / HT", REQUEST], ids=["nothing", "half", "a request"])
def test_idle_connections_of_one_address_give_way_to_another(port, crowd, said):
    crowd("127.0.0.1", 2 * MOST, said)
    assert answer(port, "127.0.0.2") == b"HTTP/1.1 204"
    assert answer(port, "127.0.0.3") == b"HTTP/1.1 204"


def test_who_has_fewer_connections_loses_none(port, crowd):
    with socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0)) as client:
        crowd("127.0.0.1", 2 * MOST)
        crowd("127.0.0.3", 2 * MOST)
        client.sendall(REQUEST)
        assert client.recv(100).startswith(b"HTTP/1.1 204")


def test_a_request_that_is_answered_does_not_give_way(port, crowd, begun):
    with socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.1", 0)) as client:
        client.sendall(REQUEST.replace(b"/ ", b"/held ", 1))
        assert begun.wait(60)
        crowd("127.0.0.1", 2 * MOST)
        assert answer(port, "127.0.0.2") == b"HTTP/1.1 204"
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
