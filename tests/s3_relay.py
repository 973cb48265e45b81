"""An HTTP server between a client and an S3 server, that answers in its place where it is told."""

import http.client
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: what becomes of a request: nothing is said for ``silence_s``; the server is asked, and its answer
#: not passed on; or a part of it is; or it is asked after ``silence_s``, and nothing is said
SILENT, LOST, HALF, LATE = "silent", "lost", "half", "late"
_OF_THE_WAY = {"content-length", "transfer-encoding", "connection", "date", "server"}
_OF_A_FILE = {
    "ETag": '"1"',
    "Last-Modified": "Thu, 26 Nov 2026 06:00:00 GMT",
    "Content-Range": "bytes 0-0/8",
}


def said(status, code, told=""):
    """An answer as stores give it: a status, and a code in XML."""
    return status, f"<?xml version='1.0'?><Error><Code>{code}</Code>{told}</Error>".encode()


class Relay:
    """Listens on ``port``; a context manager.

    ``fates`` are those of the next requests, then comes ``always``: one of the above, an answer
    that is given without asking the server, or None. Of requests for other than ``of``, a method
    and a part of a path, only the latter counts.
    """

    def __init__(self, server_port=None, tls=None):
        self.fates, self.always, self.of = deque(), None, ("", "")
        self.methods, self.paths, self.headers, self.silence_s = [], [], [], 1.0
        self.server_port = server_port
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.relay = self
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()

    def fate(self, method, path):
        """That of a request."""
        meant = self.fates and method.startswith(self.of[0]) and self.of[1] in path
        return self.fates.popleft() if meant else self.always


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def handle_one_request(self):
        """Whatever the method is."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        relay = self.server.relay
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        relay.methods.append(self.command)
        relay.paths.append(self.path)
        relay.headers.append(self.headers)
        fate = relay.fate(self.command, self.path)
        if fate == SILENT:
            time.sleep(relay.silence_s)
            self.close_connection = True
        elif fate == LATE:
            time.sleep(relay.silence_s)
            self._ask(body, LOST)
        elif isinstance(fate, tuple):
            self._answer(*fate, _OF_A_FILE)
        else:
            self._ask(body, fate)
        self.wfile.flush()

    def _ask(self, body, fate):
        asked = http.client.HTTPConnection("127.0.0.1", self.server.relay.server_port)
        asked.request(self.command, self.path, body, dict(self.headers))
        answer = asked.getresponse()
        told, headers = answer.read(), dict(answer.getheaders())
        asked.close()
        self.close_connection = fate is not None
        if fate == HALF:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif fate is None:
            self._answer(answer.status, told, headers)

    def _answer(self, status, told, headers):
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OF_THE_WAY:
                self.send_header(name, value)
        length = headers.get("Content-Length", 0) if self.command == "HEAD" else len(told)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    def log_message(self, *_):
        """Nothing."""
