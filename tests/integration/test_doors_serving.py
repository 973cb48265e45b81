"""A door against clients that mean harm, on real sockets."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest
from door_app import PATIENCE, made
from door_clients import all_of, opened, quick

from headrace.doors.serving import Listening, serving

MEGABYTE = 1024 * 1024


@pytest.fixture
def url():
    with serving(made(), Listening("127.0.0.1", 0, patience=PATIENCE)) as url:
        yield url


# slow and silent clients


def test_a_client_that_sends_its_header_byte_by_byte_is_closed_and_others_are_served(url):
    slow = [opened(url) for _ in range(30)]
    begun_s = time.monotonic()
    header = b"GET /quick HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * 1000
    stop = threading.Event()

    def drip():
        for at in range(len(header)):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.send(header[at : at + 1])
            if stop.wait(0.05):
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert all(quick(url) for _ in range(20))
        answers = [all_of(connection) for connection in slow]
        took_s = time.monotonic() - begun_s
    finally:
        stop.set()
        dripping.join()
        for connection in slow:
            connection.close()
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)
    assert PATIENCE.header_s * 0.9 < took_s < 10 * PATIENCE.header_s


@pytest.mark.parametrize("before", [b"", b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_client_that_says_nothing_more_is_closed(url, before):
    with opened(url) as connection:
        connection.sendall(before)
        answer = all_of(connection)
    assert (b"quick" in answer) is bool(before)


def test_a_request_that_came_in_time_is_answered_though_the_server_reads_it_late():
    app, loops, busy, go_on = made(), [], threading.Event(), threading.Event()

    @app.get("/first")
    async def first() -> None:
        loops.append(asyncio.get_running_loop())

    def others():
        busy.set()
        assert go_on.wait(60)
        loops[0].remove_reader(theirs)

    patience = replace(PATIENCE, idle_s=3.0)
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        serving(app, Listening("127.0.0.1", 0, patience=patience)) as url,
        opened(url, 60) as connection,
    ):
        connection.sendall(b"GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(65536)
        loops[0].call_soon_threadsafe(loops[0].add_reader, theirs, others)
        ours.sendall(b"x")
        assert busy.wait(60)
        connection.sendall(b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(patience.idle_s + 0.5)
        go_on.set()
        assert b"200 OK" in connection.recv(65536)


def test_the_second_header_of_a_connection_has_a_deadline_too(url):
    with opened(url) as connection:
        connection.sendall(b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\nGET /quick HT")
        answer = all_of(connection)
    assert answer.count(b"HTTP/1.1 200") == 1


def test_a_slow_answer_does_not_suffer_from_the_next_request_being_slow(url):
    with opened(url) as connection:
        both = b"GET /slow?wait_s=3 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /qu"
        connection.sendall(both)
        connection.sendall(b"ick HT")
        answer = all_of(connection)
    assert b'"slow"' in answer


def test_a_body_that_comes_too_slowly_is_refused(url):
    with opened(url) as connection:
        header = b"POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        connection.sendall(header)
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 408")


UNREAD = b"GET /quick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param([b"x" * 1000], id="the rest comes late"),
        pytest.param([b"x"] * 999, id="the rest never ends"),
        pytest.param([b"x" * 1000 + b"GET /qu"], id="half a header comes behind the rest"),
    ],
)
def test_a_body_that_was_answered_unread_keeps_no_connection(url, rest):
    with opened(url) as connection:
        connection.sendall(UNREAD)
        assert b"200 OK" in connection.recv(65536)
        stop = threading.Event()

        def drip():
            for part in rest:
                with contextlib.suppress(OSError):
                    connection.sendall(part)
                if stop.wait(0.2):
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            all_of(connection)
        finally:
            stop.set()
            dripping.join()


def test_a_body_that_was_answered_unread_and_is_whole_in_time_leaves_the_connection(url):
    with opened(url) as connection:
        connection.sendall(UNREAD)
        assert b"200 OK" in connection.recv(65536)
        connection.sendall(b"x" * 1000 + b"GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(65536)


def test_connections_beyond_the_most_are_closed_unheard():
    # None of those before it is closed for its silence.
    patience = replace(PATIENCE, header_s=120)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(serving(made(), Listening("127.0.0.1", 0, patience=patience)))
        held = [stack.enter_context(opened(url)) for _ in range(PATIENCE.most_connections)]
        beyond = stack.enter_context(opened(url))
        assert all_of(beyond) == b""
        for connection in held:
            connection.close()
        assert quick(url)


def test_more_connections_are_possible_than_files_are_by_default():
    with Process(files=64) as process, contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(opened(process.url))
        assert quick(process.url)


# large and deep requests


@pytest.mark.parametrize("line", [b"GET /" + b"x" * 40_000, b"GET / HTTP/1.1\r\nX-A: "])
def test_a_header_that_does_not_end_is_refused(url, line):
    with opened(url) as connection:
        connection.sendall(line)
        with contextlib.suppress(OSError):
            for _ in range(1000):
                connection.sendall(b"x" * 10_000)
        answer = all_of(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    assert quick(url)


def test_what_is_not_http_is_refused(url):
    with opened(url) as connection:
        connection.sendall(b"\x16\x03\x01 is not HTTP\r\n\r\n")
        assert all_of(connection).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("deep", ["[" * 900_000, '{"a":' * 150_000, "{" * 900_000])
def test_json_that_is_nested_too_deep_is_refused(url, deep):
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{url}/body", content=deep, headers=headers, timeout=60)
    assert answer.status_code in (400, 422)
    assert quick(url)


class Process:
    """The server as a process."""

    def __init__(self, drain_s=5.0, files=1024):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = str(Path(__file__).with_name("door_app.py"))
        command = [sys.executable, app, str(self.port), str(drain_s)]
        self.process = subprocess.Popen(
            ["bash", "-c", f'ulimit -Sn {files}; exec "$@"', "bash", *command],
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            with contextlib.suppress(httpx.TransportError):
                assert quick(self.url)
                return self
        raise AssertionError("the server did not start")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def memory(self):
        return psutil.Process(self.process.pid).memory_info().rss


@pytest.fixture(scope="module")
def process():
    with Process() as process:
        yield process


def sent_until_closed(connection, part, bytes_total):
    sent = 0
    with contextlib.suppress(OSError):
        while sent < bytes_total:
            connection.sendall(part)
            sent += len(part)
    return sent


def test_a_gigabyte_that_is_announced_is_refused_before_it_comes(process):
    before = process.memory()
    with opened(process.url) as connection:
        length = b"Content-Length: %d\r\n\r\n" % 1024**3
        connection.sendall(b"POST /body HTTP/1.1\r\nHost: localhost\r\n" + length)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
        sent_until_closed(connection, b"x" * MEGABYTE, 1024**3)
    assert process.memory() - before < 50 * MEGABYTE
    assert quick(process.url)


def test_a_gigabyte_in_chunks_is_refused_while_it_comes(process):
    before = process.memory()
    chunk = b"%x\r\n" % MEGABYTE + b"x" * MEGABYTE + b"\r\n"
    begun_s = time.monotonic()
    with opened(process.url) as connection:
        coding = b"Transfer-Encoding: chunked\r\n\r\n"
        connection.sendall(b"POST /body HTTP/1.1\r\nHost: localhost\r\n" + coding)
        connection.sendall(chunk * 2)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
        sent_until_closed(connection, chunk, 50 * 1024**3)
    assert time.monotonic() - begun_s < 60, "it is not listened to for ever"
    assert process.memory() - before < 50 * MEGABYTE
    assert quick(process.url)


def test_a_client_that_sends_a_little_too_much_reads_why(process):
    answer = httpx.post(f"{process.url}/body", content=b"x" * 3 * MEGABYTE, timeout=60)
    assert (answer.status_code, answer.json()["max_bytes"]) == (413, 1_000_000)


def test_clients_that_do_not_read_their_answer_cost_bounded_memory_and_are_closed(process):
    before = process.memory()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(opened(process.url))
            connection.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert quick(process.url)
        served = psutil.Process(process.process.pid)
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            ours = [
                connection
                for connection in served.net_connections()
                if connection.status == "ESTABLISHED"
            ]
            if len(ours) < 5:
                break
            time.sleep(0.1)
        assert len(ours) < 5
        assert process.memory() - before < 100 * MEGABYTE


# the end


def begun(process):
    assert "begun\n" in iter(process.process.stdout.readline, "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_to_end_answers_what_runs_and_lets_nobody_in(how):
    answers = []
    with Process() as process:
        asking = threading.Thread(
            target=lambda: answers.append(httpx.get(f"{process.url}/slow?wait_s=1.5", timeout=60))
        )
        asking.start()
        begun(process)
        process.process.send_signal(how)
        time.sleep(0.5)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{process.url}/quick")
        asking.join()
        assert process.process.wait(60) == 0
        assert process.process.stdout.read() == "ended\n"
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, "slow")]


def test_a_request_that_does_not_end_is_cancelled_after_the_drain():
    with Process(drain_s=1.0) as process, opened(process.url, 30) as connection:
        connection.sendall(b"GET /slow?wait_s=600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        begun(process)
        begun_s = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(60) == 0
        assert time.monotonic() - begun_s < 30


def test_a_connection_that_is_idle_does_not_hold_up_the_end():
    with Process(drain_s=60.0) as process, opened(process.url):
        begun_s = time.monotonic()
        os.kill(process.process.pid, signal.SIGTERM)
        assert process.process.wait(60) == 0
        assert time.monotonic() - begun_s < 30
