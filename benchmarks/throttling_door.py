"""A door before a search node that lets in so many documents a second, and refuses the others.

Of each bulk request it hands on the first documents for which there is room, and answers the others
with 429, item by item, in the words of OpenSearch. All else goes through as it is. It is a process
of its own; ``GET /_counts`` says what it let in and what it refused.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

COUNTS = "/_counts"
_REFUSED = {"type": "es_rejected_execution_exception", "reason": "too many requests"}


@contextmanager
def throttled(url: str, documents_per_s: float) -> Iterator[str]:
    """Stand before a node; yields the URL of the door."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    door = context.Process(target=_serve, args=(url, documents_per_s, its), daemon=True)
    door.start()
    try:
        assert ours.poll(60), "the door did not open"
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        door.terminate()
        door.join(30)


def counts(door: str) -> dict[str, int]:
    """Documents ``let_in`` and ``refused`` so far."""
    with urllib.request.urlopen(door + COUNTS, timeout=30) as answer:
        found: dict[str, int] = json.load(answer)
    return found


class _Room:
    """What may still come in, and what came."""

    def __init__(self, documents_per_s: float) -> None:
        self._per_s = self._room = documents_per_s  # as much as comes in within a second
        self._at_s = time.monotonic()
        self._asking = threading.Lock()
        self.let_in = self.refused = 0

    def take(self, documents: int) -> int:
        """How many of these come in now."""
        with self._asking:
            before_s, self._at_s = self._at_s, time.monotonic()
            room = min(self._per_s, self._room + (self._at_s - before_s) * self._per_s)
            taken = min(documents, int(room))
            self._room = room - taken
            self.let_in += taken
            self.refused += documents - taken
        return taken


def _serve(url: str, documents_per_s: float, tells: Any) -> None:
    room, node = _Room(documents_per_s), urlsplit(url)
    sys.setswitchinterval(0.001)

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path == COUNTS:
                told = {"let_in": room.let_in, "refused": room.refused}
                self._answer(200, json.dumps(told).encode())
            elif self.path.startswith("/_bulk"):
                self._answer(200, self._bulk(body.splitlines(keepends=True)))
            else:
                self._answer(*self._of_node(body))

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

        def _bulk(self, lines: list[bytes]) -> bytes:
            # Each is two lines: nothing is deleted here.
            actions = [next(iter(json.loads(line).items())) for line in lines[::2]]
            taken = room.take(len(actions))
            status, told = self._of_node(b"".join(lines[: 2 * taken])) if taken else (200, b"")
            assert status == 200, told
            items = json.loads(told)["items"] if taken else []
            refused = [
                {kind: {"_id": named["_id"], "status": 429, "error": _REFUSED}}
                for kind, named in actions[taken:]
            ]
            answer = {"took": 1, "errors": bool(refused), "items": [*items, *refused]}
            return json.dumps(answer).encode()

        def _of_node(self, body: bytes) -> tuple[int, bytes]:
            asked = http.client.HTTPConnection(str(node.hostname), node.port, timeout=60)
            try:
                headers = {"content-type": self.headers.get("content-type") or "application/json"}
                asked.request(self.command, self.path, body or None, headers)
                answer = asked.getresponse()
                return answer.status, answer.read()
            finally:
                asked.close()

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        server.daemon_threads = True
        tells.send(server.server_address[1])
        server.serve_forever()
