"""A TCP proxy before PostgreSQL that cuts a connection around a COMMIT.

The outcome of a commit is unknown exactly when the connection goes between its request and its
answer, and no kill hits that moment on purpose. So the bytes pass through here, and on demand the
connection is cut just before the server hears of a COMMIT, or when its answer comes back.
"""

import contextlib
import socket
import struct
import threading
from collections import deque

#: the simple query COMMIT, and the tag of its answer, as they are on the wire
ASKED = b"Q\x00\x00\x00\x0bCOMMIT\x00"
ANSWERED = b"C\x00\x00\x00\x0bCOMMIT\x00"
MARKS = {"request": ASKED, "answer": ANSWERED}


class CuttingProxy:
    """Listens on ``port`` and passes everything on, but for what it was told to cut."""

    def __init__(self, server_port):
        self._server_port = server_port
        #: "request", "answer" or None for each of the next commits
        self.fates = deque()
        self.cuts = 0
        #: cleared: what is sent either way stays here, and nobody is told
        self.passes = threading.Event()
        self.passes.set()
        self._lock = threading.Lock()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._welcome, daemon=True).start()

    def close(self):
        self._door.close()
        self.passes.set()

    def _welcome(self):
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way, pair in (("request", (client, server)), ("answer", (server, client))):
                threading.Thread(target=self._pass_on, args=(way, *pair), daemon=True).start()

    def _pass_on(self, way, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65_536):
                if MARKS[way] in piece and self._is_cut(way):
                    self.cuts += 1
                    break
                self.passes.wait()
                target.sendall(piece)
        for side in (source, target):
            with contextlib.suppress(OSError):
                # no farewell: what was on its way is gone
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                side.shutdown(socket.SHUT_RDWR)
        source.close()

    def _is_cut(self, way):
        """Whether this is where the commit of the moment is cut; each has one fate."""
        with self._lock:
            fate = self.fates[0] if self.fates else None
            if fate == way or (way == "answer" and self.fates):
                self.fates.popleft()
            return fate == way
