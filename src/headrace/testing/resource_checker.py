"""Whether a process leaks files, threads or memory while it runs.

A leak of one file in a wave is invisible in a test of ten waves and ends a driver after a day. A
single look before and after cannot tell it from caches that fill. So many samples are taken under
steady load, and what counts is their slope, as the median of the slopes between all pairs of
samples: a few high samples, such as before a garbage collection, do not move it (Theil 1950, Sen
1968). The first part of the run is left out, while caches fill.

It reads ``/proc`` and so works on Linux only. It cannot say who leaks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

from headrace.testing.findings import Report

_KIB_PER_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds at one moment."""

    #: of whatever is constant when all is well: seconds, waves, records
    at: float
    open_files: float
    threads: float
    memory_mib: float


def usage(at: float, pid: int | None = None) -> Usage:
    """Look at a process, by default this one.

    Raises:
        FileNotFoundError: there is no such process, or no ``/proc``.
    """
    folder = Path("/proc") / str(pid or os.getpid())
    lines = (line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    status = dict(lines)
    return Usage(
        at,
        float(len(list((folder / "fd").iterdir()))),
        float(status["Threads"]),
        float(status["VmRSS"].split()[0]) / _KIB_PER_MIB,
    )


@dataclass(slots=True)
class Leaks:
    """Takes samples, and says what grew.

    Attributes:
        most_growth: what each of ``open_files``, ``threads`` and ``memory_mib`` may grow by over
            the whole run.
        warm_up: the part of the run that does not count.
        look: takes a sample; a test plants a leak here.
    """

    most_growth: Mapping[str, float] = field(
        default_factory=lambda: {"open_files": 2.0, "threads": 2.0, "memory_mib": 16.0}
    )
    warm_up: float = 0.25
    look: Callable[[float], Usage] = usage
    _samples: list[Usage] = field(default_factory=list)

    def sample(self, at: float) -> None:
        """Look once."""
        self._samples.append(self.look(at))

    def growth(self, what: str) -> float:
        """How much of something the run added, once it was warm, if it went on at its slope."""
        warm = self._samples[int(len(self._samples) * self.warm_up) :]
        slopes = [
            (getattr(later, what) - getattr(sooner, what)) / (later.at - sooner.at)
            for sooner, later in combinations(warm, 2)
            if later.at > sooner.at
        ]
        return median(slopes) * (warm[-1].at - warm[0].at) if slopes else 0.0

    def report(self) -> Report:
        """What grew by more than it may."""
        found = [
            f"{what} grew by {self.growth(what):.1f}, at most {most:g} is allowed"
            for what, most in self.most_growth.items()
            if self.growth(what) > most
        ]
        return Report("leaks", len(self._samples), tuple(found))
