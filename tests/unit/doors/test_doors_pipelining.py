"""Who sends requests without waiting for answers fills no memory, and leaves nothing behind."""

import asyncio
import gc
import socket
import threading
import time
from contextlib import suppress

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serving

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def answering(scope, receive, send):
    if scope["type"] == "http":
        await asyncio.sleep(0.001)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


async def reading(scope, receive, send):
    """Reads a body, as a route does that takes one."""
    if scope["type"] == "http":
        await receive()
        await answering(scope, receive, send)


def waiting():
    return sum(isinstance(object_, RequestResponseCycle) for object_ in gc.get_objects())


def connected(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=60)


@pytest.mark.parametrize("app", [answering, reading])
def test_requests_that_wait_are_not_more_than_were_read_at_once(app):
    listening = Listening("127.0.0.1", 0, patience=ClientTimeouts(most_waiting=1_000_000))
    with serving(app, listening) as url, connected(url) as client:
        thread = threading.Thread(target=_send_all, args=(client, 60_000), daemon=True)
        thread.start()
        most, ends_s = 0, time.monotonic() + 3
        client.settimeout(0.5)
        while time.monotonic() < ends_s:
            with suppress(TimeoutError):
                client.recv(65_536)
            most = max(most, waiting())
    assert 0 < most < 15_000


@pytest.mark.parametrize("app", [answering, reading])
def test_of_too_many_those_that_wait_are_answered_and_the_connection_ends(app):
    listening = Listening("127.0.0.1", 0, patience=ClientTimeouts(most_waiting=10))
    with serving(app, listening) as url, connected(url) as client:
        client.sendall(REQUEST * 1000)
        answers = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answers.count(b"HTTP/1.1 204") == 11
    assert answers.count(b"connection: close") == 1
    assert answers.endswith(b"connection: close\r\n\r\n")


def test_a_body_behind_another_request_is_read():
    bodies = []

    async def app(scope, receive, send):
        if scope["type"] == "http":
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            bodies.append(len(body))
            await answering(scope, receive, send)

    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"
    with serving(app, Listening("127.0.0.1", 0)) as url, connected(url) as client:
        client.sendall(REQUEST + head + b"a" * 10)
        time.sleep(0.2)
        client.sendall(b"a" * 299_990 + REQUEST)
        answers = b""
        while answers.count(b"HTTP/1.1 204") < 3:
            answers += client.recv(65_536)
    assert bodies == [0, 300_000, 0]


def test_what_is_answered_is_told_that_the_client_is_gone_though_another_request_waits():
    gone = threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await receive()
            told = asyncio.ensure_future(receive())
            while not told.done():
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
                await asyncio.sleep(0.05)
            assert told.result()["type"] == "http.disconnect"
            gone.set()

    with serving(app, Listening("127.0.0.1", 0, drain_s=1)) as url:
        with connected(url) as client:
            client.sendall(REQUEST * 3)
            client.recv(100)
        assert gone.wait(60)


def _send_all(client, requests):
    with suppress(OSError):  # the test is over
        client.sendall(REQUEST * requests)
