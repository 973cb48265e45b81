"""What stands before a server whose program has no TLS, and takes it for it."""

import contextlib
import socket
import ssl
import threading


class Front:
    """Takes TLS, and hands on what comes to a port without it."""

    def __init__(self, authority, port):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.inside = port
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.open = [self.listening]
        self.threads = []
        self._begin(self._accept)

    def close(self):
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self.threads:
            thread.join()

    def _begin(self, run, *given):
        thread = threading.Thread(target=run, args=given)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                came, _ = self.listening.accept()
            except OSError:
                return
            try:
                outside = self.context.wrap_socket(came, server_side=True)
            except OSError:
                came.close()
                continue
            inside = socket.create_connection(("127.0.0.1", self.inside))
            self.open += [outside, inside]
            self._begin(_copy, outside, inside)
            self._begin(_copy, inside, outside)


def _copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
