"""Ports on this machine.

An embedded server listens on 127.0.0.1 only: it has no password, so nobody else may reach it. It
takes a free port unless one is asked for, and then a taken port must be a clear error instead of
a server that dies with a page of log.
"""

from __future__ import annotations

import socket

from headrace.errors import ServerError

HOST = "127.0.0.1"


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


def answers(port: int) -> bool:
    """Whether somebody accepts connections on ``port``."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
