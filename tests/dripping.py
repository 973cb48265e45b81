"""A server that answers so much at once, and then byte by byte."""

import socket
import threading
from contextlib import contextmanager

EVERY_S = 0.05


@contextmanager
def dripping(drips, *, greeting=b"", answers=(), unasked=False):
    """Its port.

    Args:
        drips: what it says byte by byte, of the first request beyond the answers.
        greeting: said to who connects.
        answers: to each of the first requests, at once.
        unasked: waits for no request before it begins to drip.
    """
    over, held = threading.Event(), []

    def talk(one):
        try:
            one.sendall(greeting)
            for answer in answers:
                _request(one)
                one.sendall(answer)
            if not unasked:
                _request(one)
            for byte in drips:
                one.sendall(bytes([byte]))
                if over.wait(EVERY_S):
                    return
        except OSError:
            return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_take, args=(listening, held, talk), daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()


def _take(listening, held, talk):
    while True:
        try:
            one, _ = listening.accept()
        except OSError:
            return
        held.append(one)
        threading.Thread(target=talk, args=(one,), daemon=True).start()


def _request(one):
    """Take a whole request, if it is one of HTTP: its body may come apart from its head."""
    taken = one.recv(65536)
    if not taken.startswith((b"GET ", b"POST ", b"PUT ")):
        return
    while b"\r\n\r\n" not in taken and (more := one.recv(65536)):
        taken += more
    head, _, body = taken.partition(b"\r\n\r\n")
    fields = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    left = int({name: told for name, _, told in fields}.get(b"content-length", 0)) - len(body)
    while left > 0 and (more := one.recv(left)):
        left -= len(more)
