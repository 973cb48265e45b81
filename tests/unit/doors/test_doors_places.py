"""Who keeps requests open has a part of the places, and the others are answered."""

import asyncio
import socket
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from starlette.requests import ClientDisconnect

from headrace.doors.bounds import Bounds
from headrace.doors.door import RequestLimits, install_door
from headrace.doors.guard import Guard, calling
from headrace.doors.places import let_in
from headrace.doors.serving import Listening, serving
from headrace.model.credentials import Caller, Role
from headrace.settings.doors import DoorsSettings

SECRET = b"a secret of thirty-two characters"
MOST = 8
BODY = b"Host: localhost\r\nContent-Length: 9999\r\n"


def app_of(keys):
    app = FastAPI()

    @app.post("/open")
    async def anybody(request: Request):
        with suppress(ClientDisconnect):
            await request.body()

    app.post("/own", dependencies=[Depends(calling)])(anybody)

    limits = RequestLimits(body_deadline_s=120, most_requests=MOST)
    install_door(app, Guard(keys, SECRET), DoorsSettings(), "127.0.0.1", limits)
    return app


@pytest.fixture
def url(store):
    with serving(app_of(store.keys), Listening("127.0.0.1", 0, drain_s=1)) as url:
        yield url


@pytest.fixture
def crowd(url):
    """Open many connections on which a request waits for its body."""
    with ExitStack() as stack:

        def comes(head):
            for _ in range(2 * MOST):
                address = ("127.0.0.1", int(url.rpartition(":")[2]))
                stack.enter_context(socket.create_connection(address)).sendall(head + b"\r\n")

        yield comes


def post(url, text=None):
    headers = {} if text is None else {"Authorization": f"Bearer {text}"}
    path = "/open" if text is None else "/own"
    return httpx.post(url + path, content=b"12345", headers=headers, timeout=60)


def refused(ask):
    """The first refusal; the crowd may still be on its way."""
    ends_s = time.monotonic() + 60
    while (answer := ask()).status_code == 200:
        assert time.monotonic() < ends_s, "everybody is answered"
        time.sleep(0.05)
    assert answer.status_code == 503
    return answer


def test_strangers_who_send_no_body_keep_nobody_out(url, crowd, give):
    (operator, _), (tenant, _) = give(), give(Role.TENANT, "acme")
    crowd(b"POST /open HTTP/1.1\r\n" + BODY)
    refused(lambda: post(url))
    assert post(url, operator).status_code == 200
    assert post(url, tenant).status_code == 200


@pytest.mark.parametrize(
    "whose", [{"role": Role.TENANT, "tenant": "acme"}, {"role": Role.SCHEMAS, "subjects": "acme.*"}]
)
def test_who_is_not_trusted_with_all_and_sends_no_body_keeps_no_other_out(url, crowd, give, whose):
    (operator, _), (held, _) = give(), give(**whose)
    other, _ = give(Role.SENDER, "bolt")
    crowd(b"POST /own HTTP/1.1\r\nAuthorization: Bearer " + held.encode() + b"\r\n" + BODY)
    answer = refused(lambda: post(url, held))
    assert answer.json()["type"] == "urn:headrace:problem:busy"
    assert answer.headers["retry-after"] == "1"
    assert post(url, operator).status_code == 200
    assert post(url, other).status_code == 200


async def at_once():
    return None


async def gone():
    return {"type": "http.disconnect"}


async def answering(scope, receive, send):
    if scope["path"] == "/own":
        let_in(Request(scope), Caller("key:1", Role.OPERATOR))
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


async def status_of(bounds, path, address, wait):
    """The status of an answer whose pieces are taken as ``wait`` has it."""
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))
        await wait()

    scope = {"type": "http", "path": path, "headers": [], "client": (address, 1)}
    await bounds(scope, gone, send)
    return statuses[0]


def test_strangers_who_read_no_answer_keep_nobody_out():
    async def play():
        bounds, read = Bounds(answering, most_requests=MOST), asyncio.Event()
        hung = [
            asyncio.create_task(status_of(bounds, "/", f"10.0.0.{number % 3}", read.wait))
            for number in range(2 * MOST)
        ]
        await asyncio.sleep(0.1)
        assert await status_of(bounds, "/own", "10.0.0.1", at_once) == 204
        assert await status_of(bounds, "/", "10.0.0.1", at_once) == 503
        read.set()
        answers = await asyncio.gather(*hung)
        assert 1 <= answers.count(204) <= MOST // 2
        assert await status_of(bounds, "/", "10.0.0.1", at_once) == 204

    asyncio.run(play())
