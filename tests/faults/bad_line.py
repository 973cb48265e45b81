"""A TCP line to a server that can be cut, swallow everything, or be slow."""

import contextlib
import socket
import struct
import threading
import time

SLOW_S, SLOW_BYTES = 0.05, 8_192


class BadLine:
    """Listens on ``port``; ``mode`` is through, cut, hole or slow, and may change at any moment."""

    def __init__(self, server_port):
        self.mode = "through"
        self._server_port = server_port
        self._open = set()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._welcome, daemon=True).start()

    def close(self):
        self._door.close()
        self.cut()

    def set(self, mode):
        """What was swallowed can never be made good, so leaving a hole cuts what was in it."""
        before, self.mode = self.mode, mode
        if mode == "cut" or before == "hole":
            self.cut()

    def cut(self):
        """End every connection without a farewell."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)

    def _welcome(self):
        while True:
            try:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except ConnectionError:
                client.close()
                continue
            except OSError:
                return
            if self.mode == "cut":
                client.close()
                server.close()
                continue
            for pair in ((client, server), (server, client)):
                self._open.add(pair[0])
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(SLOW_BYTES if self.mode == "slow" else 65_536):
                if self.mode == "slow":
                    time.sleep(SLOW_S)
                if self.mode != "hole":
                    target.sendall(piece)
        self._open.discard(source)
        for side in (source, target):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        source.close()
