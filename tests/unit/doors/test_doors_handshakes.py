"""Who never ends the handshake of TLS is in the crowd, and his time is up as anybody's."""

import socket
import ssl
import time
from contextlib import ExitStack

import pytest
import trustme

from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serving
from own_tls import tls_files

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
MOST = 20
PATIENCE = ClientTimeouts(header_s=60, most_connections=MOST)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority, tmp_path_factory):
    return tls_files(authority, tmp_path_factory.mktemp("tls"), "localhost")


@pytest.fixture
def context(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def door(tls):
    """Opens a door whose clients have this much patience, and says its port."""
    with ExitStack() as stack:

        def opened(patience=PATIENCE, drain_s=1):
            listening = Listening("127.0.0.1", 0, tls, drain_s=drain_s, patience=patience)
            url = stack.enter_context(serving(_app, listening))
            return int(url.rpartition(":")[2])

        yield opened


async def _app(scope, receive, send):
    if scope["type"] != "http":
        return
    got = (await receive())["body"]
    headers = [(b"scheme", scope["scheme"].encode()), (b"content-length", b"%d" % len(got))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": got})


@pytest.fixture
def crowd():
    with ExitStack() as stack:

        def comes(port, address, count, said=b""):
            clients = []
            for _ in range(count):
                client = socket.create_connection(("127.0.0.1", port), 60, (address, 0))
                clients.append(stack.enter_context(client))
                client.sendall(said)
            return clients

        yield comes


def answer(port, address, context):
    with socket.create_connection(("127.0.0.1", port), 60, (address, 0)) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(REQUEST)
                return client.recv(1000)
        except OSError:
            return b""


def is_closed(client, within_s):
    client.settimeout(within_s)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half"])
def test_handshakes_that_hang_give_way_to_another_address(door, crowd, context, said):
    port = door()
    silent = crowd(port, "127.0.0.1", 2 * MOST, said)
    assert answer(port, "127.0.0.2", context).startswith(b"HTTP/1.1 200")
    assert answer(port, "127.0.0.3", context).startswith(b"HTTP/1.1 200")
    assert sum(not is_closed(client, 0.01) for client in silent) <= MOST


def test_who_has_fewer_connections_loses_none(door, crowd, context):
    port = door()
    with socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0)) as plain:
        crowd(port, "127.0.0.1", 2 * MOST)
        with context.wrap_socket(plain, server_hostname="localhost") as client:
            crowd(port, "127.0.0.3", 2 * MOST)
            client.sendall(REQUEST)
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_a_handshake_has_the_time_of_a_header(door, crowd):
    port = door(ClientTimeouts(header_s=0.5))
    (silent,) = crowd(port, "127.0.0.1", 1)
    assert is_closed(silent, 60)


def test_those_that_ended_leave_room(door, crowd, context):
    port = door()
    for client in crowd(port, "127.0.0.1", 2 * MOST):
        client.close()
    for client in crowd(port, "127.0.0.1", MOST - 1, b"no TLS at all\r\n\r\n"):
        assert is_closed(client, 60)
    for _ in range(2 * MOST):
        assert answer(port, "127.0.0.1", context).startswith(b"HTTP/1.1 200")


def test_a_request_that_comes_with_the_end_of_the_handshake_is_heard(door, context):
    """The client's last word of the handshake and its request are in one segment."""
    port = door()
    with socket.create_connection(("127.0.0.1", port), 60) as plain:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        client.write(REQUEST)
        plain.sendall(outgoing.read())
        heard = b""
        while not heard.endswith(b"abc"):
            try:
                heard += client.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(plain.recv(65536))
    assert heard.startswith(b"HTTP/1.1 200")
    assert b"scheme: https" in heard


def test_a_door_that_ends_does_not_wait_for_handshakes(tls):
    listening = Listening("127.0.0.1", 0, tls, drain_s=30, patience=PATIENCE)
    with serving(_app, listening) as url:
        client = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 10)
        time.sleep(0.2)
        since = time.monotonic()
    assert time.monotonic() - since < 20
    with client:
        assert is_closed(client, 60)
