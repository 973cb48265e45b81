"""A stranger does not fill the log."""

import logging
import socket
from contextlib import suppress

import pytest

from headrace.doors import seldom
from headrace.doors.seldom import Seldom
from headrace.doors.serving import Listening, serving
from headrace.testing.clock import FakeClock


def warning(words, level=logging.WARNING):
    return logging.LogRecord("uvicorn.error", level, "", 0, words, None, None)


def test_the_same_warning_is_written_once_in_some_seconds_with_a_count():
    clock = FakeClock()
    seldom, written = Seldom(clock.monotonic_s), []
    for words in ["bad", "bad", "other", "bad", None, "bad", "bad"]:
        if words is None:
            clock.move(10)
            continue
        record = warning(words)
        if seldom.filter(record):
            written.append(record.getMessage())
    assert written == ["bad", "other", "bad (2 more since the last such line)"]


def test_an_error_is_always_written():
    seldom = Seldom()
    assert all(seldom.filter(warning("broke", logging.ERROR)) for _ in range(3))


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_a_stranger_does_not_fill_the_log(sent, caplog, monkeypatch):
    async def app(scope, _receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    monkeypatch.setattr(seldom._warnings, "_written", {})
    with serving(app, Listening("127.0.0.1", 0)) as url:
        for _ in range(20):
            address = ("127.0.0.1", int(url.rpartition(":")[2]))
            with socket.create_connection(address, timeout=60) as connection:
                connection.sendall(sent)
                with suppress(ConnectionError):
                    connection.recv(100)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert 0 < len(warnings) == len(set(warnings))
