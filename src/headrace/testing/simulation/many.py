"""Many seeds on several processes, in no order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.testing.simulation.run import ACTIONS, Outcome, on_sqlite, silent, simulate

_CHUNK = 16
#: a folder in memory, where there is one
_MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How seeds are to be run."""

    #: on the real store in a file, not on the one in memory
    sqlite: bool = False
    actions: int = ACTIONS

    def one(self, seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
        """Run one seed."""
        with silent():
            if not self.sqlite:
                return simulate(seed, actions=self.actions, tell=tell)
            with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
                return simulate(seed, on_sqlite(Path(folder)), actions=self.actions, tell=tell)


def outcomes(seeds: range, jobs: int, asked: RunOptions) -> Iterator[Outcome]:
    """What became of each seed, as they end."""
    if jobs == 1:
        yield from map(asked.one, seeds)
        return
    # A fork would take over locks that other threads hold.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(asked.one, seeds, chunksize=_CHUNK)
