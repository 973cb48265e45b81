"""Whether a process lives and whether it is ready, for whoever asks by HTTP.

A loop that hangs does not crash, and a driver that is still starting does no work; neither can be
seen from outside. So each driver and each supervisor can answer ``GET /livez`` and ``GET /readyz``,
with 200 or 503 and a small JSON object. The names are Kubernetes'.

*Live*: the loop has turned within `LIVE_S`. While a process starts there is no loop yet, so it has
`START_S` for its first turn. *Ready* is said by the loop in each turn, and is true only while live.

There is no authentication and nothing secret is shown; it listens on 127.0.0.1 unless told
otherwise. So whoever reaches the port may open as many connections as there are files. Each has
`_REQUEST_S` in all, and there are `_CONNECTIONS` at most: the oldest makes room for a new one,
which may be the probe of a supervisor. Metrics are another matter, and are not here.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from headrace.errors import ServerError

#: a loop that has not turned for so long hangs
LIVE_S = 60.0
#: Spark on a busy cluster may take minutes to give a driver its executors
START_S = 600.0
#: an answer takes no work, so a process that needs longer has trouble
_ANSWER_S = 2.0
#: connections at a time; who asks is a supervisor, and a person perhaps
_CONNECTIONS = 32
#: seconds for a connection, from its beginning to its end
_REQUEST_S = 5.0
#: of an answer that is read
_MOST_BYTES = 65_536

#: an answer: 200 or not, and the facts
Answer = tuple[bool, Mapping[str, object]]


class Pulse:
    """What a loop tells of itself; one thread turns, others ask."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to live now, under a name that the answers carry; the clock is monotonic."""
        self._name = name
        self._clock = clock
        self._turned_s = clock()
        self._most_s = START_S
        self._ready = False
        self._facts: Mapping[str, object] = {}

    def turned(self, *, ready: bool, facts: Mapping[str, object] | None = None) -> None:
        """A turn has ended; ``facts`` are shown with the answers."""
        self._turned_s, self._most_s, self._ready = self._clock(), LIVE_S, ready
        self._facts = facts or {}

    def live(self) -> Answer:
        """Whether the loop turns."""
        silent_s = self._clock() - self._turned_s
        return silent_s < self._most_s, {"name": self._name, "turned_s_ago": round(silent_s, 1)}

    def ready(self) -> Answer:
        """Whether there is work being done, or could be."""
        live, facts = self.live()
        return live and self._ready, {**facts, **self._facts, "ready": self._ready}


@contextmanager
def answering(pulse: Pulse, port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """Answer for ``pulse`` as long as the block runs.

    Raises:
        ServerError: the port cannot be had.
    """
    answers = {"/livez": pulse.live, "/readyz": pulse.ready}

    class Handler(_Handler):
        paths = answers

    try:
        server = _Server((host, port), Handler)
    except (OSError, OverflowError) as exc:
        raise ServerError(
            f"health cannot be answered on {host}:{port}: {exc}; choose another --health-port"
        ) from exc
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HealthAnswer(NamedTuple):
    """What a process answers."""

    status: int
    facts: Mapping[str, object]


def ask(port: int, path: str, host: str = "127.0.0.1") -> HealthAnswer | None:
    """What a process answers; None if it does not."""
    connection = HTTPConnection(host, port, timeout=_ANSWER_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return HealthAnswer(response.status, _facts(response.read(_MOST_BYTES)))
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def _facts(body: bytes) -> Mapping[str, object]:
    """Of what is no JSON object only the status counts."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class _Server(ThreadingHTTPServer):
    """Has few connections at a time, and none of them for long."""

    daemon_threads = True
    #: that the kernel keeps until they are accepted
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        """Listen."""
        #: since when each is open, monotonic; the oldest first
        self._open: dict[socket.socket, float] = {}
        self._room = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if there is room or can be made."""
        if not self._room.acquire(blocking=False):
            for oldest in list(self._open)[:1]:
                _hang_up(oldest)
            if not self._room.acquire(timeout=_ANSWER_S):
                self.shutdown_request(request)
                return
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close it; called once it is over, however that went."""
        super().shutdown_request(request)
        if self._open.pop(request, None) is not None:
            self._room.release()

    def service_actions(self) -> None:
        """Called several times a second: whoever takes too long is not waited for."""
        for connection, since_s in list(self._open.items()):
            if time.monotonic() - since_s > _REQUEST_S:
                _hang_up(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who went away, or was hung up on, is not worth a line."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _hang_up(connection: socket.socket) -> None:
    """Have its thread read the end, and close it."""
    with suppress(OSError):  # it is over just now
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Answers two paths, and nothing else."""

    paths: Mapping[str, Callable[[], Answer]] = {}
    server_version = "headrace"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer; the name is http.server's."""
        answer = self.paths.get(self.path.partition("?")[0])
        good, facts = answer() if answer else (False, {"paths": sorted(self.paths)})
        body = json.dumps(facts).encode() + b"\n"
        self.send_response(200 if good else 503 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's word
        """Somebody asks every second, which is not worth a line."""
