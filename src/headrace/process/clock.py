"""The real time. Tests bring a clock of their own wherever it matters what time it is."""

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
