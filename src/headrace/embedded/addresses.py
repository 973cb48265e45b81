"""Ports on this machine.

An embedded server listens on 127.0.0.1 only: it has no password, so nobody else may reach it. It
takes a free port unless one is asked for, and then a taken port must be a clear error, which names
who has it, instead of a server that dies with a page of log.

A port that is to be the same for days is none of those that the kernel gives to whoever connects
somewhere: one of these is taken sooner or later by a browser.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Collection
from contextlib import suppress

import psutil

from headrace.errors import ServerError, plain

HOST = "127.0.0.1"
#: below what Linux and macOS give to clients
_FIRST_LASTING, _LAST_LASTING = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment, all different.

    Another process may take one before the caller does; a caller that fails should ask again.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind((HOST, 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def refuse_taken_port(port: int, server: str) -> None:
    """Make sure that ``server`` can listen on ``port``.

    Raises:
        ServerError: somebody listens there, or the port may not be used.
    """
    with socket.socket() as probe:
        # as servers do it: a port is not taken by connections that linger after their server
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except (OSError, OverflowError) as exc:
            raise ServerError(
                f"{server} cannot listen on {HOST}:{port} ({exc}); "
                "choose another port, or none to get a free one"
            ) from exc


def lasting_port(seed: str, avoided: Collection[int] = ()) -> int:
    """A port that nobody listens on, for a server that is to keep it; the same seed begins alike.

    Raises:
        ServerError: all of them are taken.
    """
    count = _LAST_LASTING - _FIRST_LASTING
    begin = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) % count
    for step in range(count):
        port = _FIRST_LASTING + (begin + step) % count
        if port not in avoided and is_free(port):
            return port
    raise ServerError(f"no port between {_FIRST_LASTING} and {_LAST_LASTING} is free")


def is_free(port: int) -> bool:
    """Whether a server could listen on ``port`` now."""
    try:
        refuse_taken_port(port, "a server")
    except ServerError:
        return False
    return True


def taken_by(port: int) -> str:
    """Who listens on a port, as far as we may know: a process, and where it was started.

    Not its command line: passwords stand there.
    """
    with suppress(psutil.Error, OSError):
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                for found in process.net_connections("tcp"):
                    if found.status == psutil.CONN_LISTEN and found.laddr.port == port:
                        where = plain(f"{process.name()} in {process.cwd()}")
                        return f"process {process.pid} ({where})"
    return "a process that is not ours to see"


def answers(port: int) -> bool:
    """Whether somebody accepts connections on ``port``."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
