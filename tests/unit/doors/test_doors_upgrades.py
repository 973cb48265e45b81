"""Who asks for another protocol is answered in this one, body and all."""

import json
import socket
from contextlib import suppress

import pytest

from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serving

#: as Java's java.net.http.HttpClient writes it
ASKING = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"


async def telling(scope, receive, send):
    """Reads the body, then tells what it was asked."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    names = sorted(name.decode() for name, _ in scope["headers"])
    told = json.dumps([scope["method"], scope["path"], names, body.decode()]).encode()
    headers = [(b"content-length", str(len(told)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


@pytest.fixture
def client():
    patience = ClientTimeouts(header_bytes=4096, most_waiting=20)
    with (
        serving(telling, Listening("127.0.0.1", 0, drain_s=1, patience=patience)) as url,
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=60) as client,
    ):
        yield client


def answers(client, count):
    """So many of them, from one connection."""
    with client.makefile("rb") as stream:
        return [answer(stream) for _ in range(count)]


def answer(stream):
    assert b" 200 " in stream.readline()
    length = 0
    while line := stream.readline().strip():
        if line.lower().startswith(b"content-length"):
            length = int(line.split(b":")[1])
    return json.loads(stream.read(length))


def posted(body, path=b"/a"):
    head = b"POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n"
    return head % (path, ASKING, len(body)) + body


NAMES = ["connection", "content-length", "host", "http2-settings"]


def test_a_body_is_read(client):
    client.sendall(posted(b'{"dry_run": true}'))
    assert answers(client, 1) == [["POST", "/a", NAMES, '{"dry_run": true}']]


def test_however_it_comes_in_pieces(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in posted(b"hello"):
        client.sendall(bytes([byte]))
    assert answers(client, 1) == [["POST", "/a", NAMES, "hello"]]


def test_the_connection_goes_on(client):
    for number in range(3):
        client.sendall(posted(b"%d" % number))
        assert answers(client, 1)[0][3] == str(number)


def test_requests_behind_one_another_have_each_their_body(client):
    client.sendall(b"".join(posted(b"%d" % number, b"/%d" % number) for number in range(15)))
    assert [(path, body) for _, path, _, body in answers(client, 15)] == [
        (f"/{number}", str(number)) for number in range(15)
    ]


def test_too_many_behind_one_another_are_no_more_than_others(client):
    client.sendall(posted(b"x") * 500)
    assert len(answers(client, 21)) == 21
    # Where some of them come only after it has ended, the system says so.
    with suppress(ConnectionResetError):
        assert client.recv(1) == b""


def test_a_chunked_body_is_read_and_its_trailers_are_not(client):
    head = b"POST /a HTTP/1.1\r\nHost: a\r\n" + ASKING + b"Transfer-Encoding: chunked\r\n\r\n"
    client.sendall(head + b"5\r\nhello\r\n0\r\nX-A: b\r\n\r\n")
    names = ["connection", "host", "http2-settings", "transfer-encoding"]
    assert answers(client, 1) == [["POST", "/a", names, "hello"]]


def test_a_browser_that_asks_for_a_socket_is_answered_as_if_it_had_not(client):
    asking = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    client.sendall(b"GET /b HTTP/1.1\r\nHost: a\r\n" + asking + b"\r\n")
    assert answers(client, 1) == [["GET", "/b", ["connection", "host"], ""]]


def test_what_is_no_http_behind_it_is_refused(client):
    client.sendall(posted(b"x"))
    assert answers(client, 1)[0][3] == "x"
    client.sendall(b"\x16\x03\x01 what\r\n\r\n")
    assert client.recv(65_536).startswith(b"HTTP/1.1 400")


def test_a_tunnel_is_refused_and_ends(client):
    client.sendall(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\nhello")
    told = b""
    while got := client.recv(65_536):
        told += got
    assert told.startswith(b"HTTP/1.1 ")
