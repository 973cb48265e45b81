"""Sockets whose waits are over when the time of their thread is.

A limit that a client gives its socket is one of each wait, and a server that sends a byte now and
then never lets one run out: an answer has no end at all. So each wait here has what is left of the
time that all of them have together (``deadline``), and what they bring is counted there.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import Any, Literal

from headrace.databases.deadline import Deadline


class SocketInTime:
    """A connected socket, with or without TLS; it is that one, but for how long it waits."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self._deadline = deadline
        self._most_s = self._set_s = connected.gettimeout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def settimeout(self, most_s: float | None) -> None:
        """Wait so long at most, also where there is more time."""
        self._most_s = self._set_s = most_s
        self._socket.settimeout(most_s)

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        """As of a socket, for reading; reads raise as ``recv`` does."""
        return io.BufferedReader(_Read(self._socket.makefile(mode, buffering=0), self._read))

    def recv(self, *args: Any) -> bytes:
        """As of a socket.

        Raises:
            TimeoutError: nothing came, or the time is over.
            OSError: more came than may.
        """
        self._hurry()
        received: bytes = self._socket.recv(*args)
        self._deadline.brought(len(received))
        return received

    def recv_into(self, *args: Any) -> int:
        """As of a socket; raises as ``recv`` does."""
        return self._read(self._socket.recv_into, *args) or 0

    def sendall(self, *args: Any) -> None:
        """As of a socket; raises as ``recv`` does."""
        self._hurry()
        self._socket.sendall(*args)

    def _read(self, read: Callable[..., int | None], *args: Any) -> int | None:
        self._hurry()
        count = read(*args)
        self._deadline.brought(count or 0)
        return count

    def _hurry(self) -> None:
        if self._most_s is None:
            return
        left_s = self._deadline.wait_s(self._most_s)
        if left_s != self._set_s:
            self._set_s = left_s
            self._socket.settimeout(left_s)


def connecting_in_time(kind: Any, deadline: Deadline) -> Any:
    """Connections like these, all of whose waits end with the time of their thread.

    Args:
        kind: a class of connections of ``http.client`` or ``urllib3``.
        deadline: of who uses them.
    """

    class InTime(kind):  # type: ignore[misc]
        sock: Any

        def connect(self) -> None:
            self.sock = SocketInTime(deadline.connected(self._connected), deadline)

        def _connected(self) -> Any:
            super().connect()
            return self.sock

    return InTime


class _Read(io.RawIOBase):
    """What a socket brings, each time with what is left."""

    def __init__(self, brought: Any, read: Callable[..., int | None]) -> None:
        self._brought = brought
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        return self._read(self._brought.readinto, into)

    def close(self) -> None:
        self._brought.close()
        super().close()
