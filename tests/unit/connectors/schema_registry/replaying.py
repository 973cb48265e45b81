"""A small server that says what registries, proxies and half-dead machines say."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INT = {"schema": '"int"'}
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema 7 not found"})


class ReplayServer:
    """Answers each path with what ``says`` holds for it; 404 as registries do for all others."""

    def __init__(self, tls=None):
        self.says: dict[str, object] = {}
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        handler = type("Handler", (_Handler,), {"replay": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def paths(self):
        return [path for path, _, _ in self.heard]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    replay: ReplayServer
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.replay.heard.append((self.path, dict(self.headers), body))
        said = self.replay.says.get(self.path, NOT_FOUND)
        if isinstance(said, Callable):
            said(self)
            return
        status, told = said if isinstance(said, tuple) else (200, said)
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Location", "http://elsewhere.invalid/")
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the name that the library calls

    def log_message(self, *said):
        pass


def hangs(handler):
    """Takes the question and says nothing, for longer than anybody waits."""
    time.sleep(30)


def drips(handler):
    """Comes byte by byte, its first line too."""
    _drip(handler, b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b" " * 20)


def drips_its_body(handler):
    """Comes byte by byte when its length was told."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")
    _drip(handler, b" " * 200)


def _drip(handler, content):
    for byte in content:
        try:
            handler.wfile.write(bytes([byte]))
        except OSError:
            return
        time.sleep(0.2)


def cuts(handler):
    """Ends in the middle."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"sch')
    handler.close_connection = True


def closes(handler):
    """Says nothing at all."""
    handler.close_connection = True
