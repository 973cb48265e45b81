"""Bodies and requests are bounded, whatever the application does with them."""

import asyncio

import pytest

from headrace.doors.bounds import Bounds


def scope_of(*headers):
    return {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}


def run(bounds, messages, *headers):
    """Send a request through, in these messages; a number is a pause in seconds."""
    sent, left = [], list(messages)

    async def receive():
        while left and isinstance(left[0], float):
            await asyncio.sleep(left.pop(0))
        if not left:
            return {"type": "http.disconnect"}
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    asyncio.run(bounds(scope_of(*headers), receive, send))
    body = b"".join(part.get("body", b"") for part in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body, left


async def echo(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def swallowing(scope, receive, send):
    """An application that makes something else of what is raised while it reads."""
    try:
        await echo(scope, receive, send)
    except Exception:
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"mine"})


async def never(scope, receive, send):
    raise AssertionError("the application was asked")


def test_a_body_up_to_the_limit_passes():
    assert run(Bounds(echo, 6), [b"abc", b"def"])[::2] == (200, b"abcdef")


@pytest.mark.parametrize("announced", [b"7", b"1000000000000"])
def test_an_announced_body_beyond_it_is_refused_unread(announced):
    answer = run(Bounds(never, 6), [b""], (b"content-length", announced))
    assert answer[0] == 413
    assert answer[1][b"connection"] == b"close"
    assert b'"max_bytes":6' in answer[2]


@pytest.mark.parametrize("app", [echo, swallowing])
def test_a_chunked_body_beyond_it_is_refused_while_it_comes(app):
    status, _, body, _ = run(Bounds(app, 6), [b"abc"] * 5)
    assert status == 413
    assert b"too-large" in body
    assert b"mine" not in body


@pytest.mark.parametrize("app", [echo, swallowing])
def test_a_body_that_does_not_come_is_not_waited_for(app):
    status, headers, body, _ = run(Bounds(app, body_deadline_s=0.01), [b"a", 0.05, b"b"])
    assert (status, headers[b"connection"]) == (408, b"close")
    assert b"too-slow" in body


def test_the_deadline_is_for_the_whole_body_and_not_for_each_part():
    parts = [part for _ in range(10) for part in (0.01, b"a")]
    assert run(Bounds(echo, body_deadline_s=0.05), parts)[0] == 408


def test_after_the_body_an_application_may_wait_for_the_client_to_go():
    async def live(scope, receive, send):
        await receive()
        assert (await receive())["type"] == "http.disconnect"
        await echo(scope, receive, send)

    assert run(Bounds(live, body_deadline_s=0.01), [b""])[0] == 200


def test_beyond_the_most_requests_the_next_is_told_to_come_again():
    async def scene():
        go = asyncio.Event()
        answers = []

        async def slow(scope, receive, send):
            await go.wait()
            await echo(scope, receive, send)

        bounds = Bounds(slow, most_requests=2)

        async def receive():
            return {"type": "http.request", "body": b""}

        async def ask():
            async def send(message):
                if message["type"] == "http.response.start":
                    answers.append((message["status"], dict(message["headers"])))

            await bounds(scope_of(), receive, send)

        running = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(0)
        await ask()
        assert [status for status, _ in answers] == [503]
        assert answers[0][1][b"retry-after"] == b"1"
        go.set()
        await asyncio.gather(*running)
        await ask()
        assert [status for status, _ in answers] == [503, 200, 200, 200]

    asyncio.run(scene())


def test_an_error_of_the_application_stays_one():
    async def broken(scope, receive, send):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run(Bounds(broken), [b""])
