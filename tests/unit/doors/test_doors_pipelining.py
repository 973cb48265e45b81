"""Who sends requests without waiting for answers fills no memory."""

import gc
import socket
import threading
import time
from contextlib import suppress

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from headrace.doors.serving import Listening, serving

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


def waiting():
    return sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())


def test_requests_that_wait_are_not_more_than_were_read_at_once():
    with serving(app, Listening("127.0.0.1", 0)) as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with socket.create_connection(address) as client:
            thread = threading.Thread(target=_send_all, args=(client, 60_000), daemon=True)
            thread.start()
            most, ends_s = 0, time.monotonic() + 3
            client.settimeout(0.5)
            while time.monotonic() < ends_s:
                with suppress(TimeoutError):
                    client.recv(65_536)
                most = max(most, waiting())
    assert 0 < most < 15_000


def _send_all(client, requests):
    with suppress(OSError):  # the test is over
        client.sendall(REQUEST * requests)
