"""Words to systemd: that the service is ready, what it does, and that it is alive.

systemd names a datagram socket in ``NOTIFY_SOCKET`` and reads lines such as ``READY=1`` from it.
That is the whole protocol (``sd_notify(3)``), so there is no library here. Without systemd nothing
is said. A word that does not get through is lost; systemd acts on silence by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Systemd:
    """The service manager that started us, if one did."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read where it listens, and how often it wants to hear of us."""
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of an abstract socket.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        wanted = environment.get("WATCHDOG_USEC", "")
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog_s = int(wanted) / 1e6 if wanted.isdigit() and for_us else None
        self._beat_at_s = float("-inf")
        self._said = ""

    def ready(self, text: str) -> None:
        """The service works now, also after a reload."""
        self._say(f"READY=1\nSTATUS={text}")

    def reloading(self) -> None:
        """A roll begins; ``ready`` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._say(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self, text: str) -> None:
        """The service drains."""
        self._say(f"STOPPING=1\nSTATUS={text}")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``."""
        if text != self._said:
            self._said = text
            self._say(f"STATUS={text}")

    def alive(self, now_s: float) -> None:
        """Feed the watchdog when half of its time is over; ``now_s`` is monotonic."""
        if self._watchdog_s is not None and now_s - self._beat_at_s >= self._watchdog_s / 2:
            self._beat_at_s = now_s
            self._say("WATCHDOG=1")

    def _say(self, text: str) -> None:
        if not self._address:
            return
        # A supervisor must not stand still because systemd does not listen.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as door,
        ):
            door.sendto(text.encode(), self._address)
