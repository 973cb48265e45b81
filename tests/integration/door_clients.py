"""What clients of a door do, on sockets."""

import contextlib
import socket

import httpx


def opened(url, wait_s=60.0):
    at = httpx.URL(url)
    return socket.create_connection((at.host, at.port), timeout=wait_s)


def all_of(connection):
    """What comes until the other side closes; a reset is an end too."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def quick(url):
    return httpx.get(f"{url}/quick", timeout=60).text == '"quick"'
