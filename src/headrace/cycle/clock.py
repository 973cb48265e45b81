"""The real time. Tests bring their own clock, so nothing else in this room asks the system."""

from __future__ import annotations

import time


class SystemClock:
    """Implements ``headrace.ports.Clock``."""

    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()
