"""Many seeds on several processes, in no order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.testing.simulation.run import (
    ACTIONS,
    SQLITE,
    Outcome,
    on_sqlite,
    silent,
    simulate,
)

_CHUNK = 16
#: a folder in memory, where there is one
_MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How seeds are to be run."""

    #: on the real store in a file, not on the one in memory
    sqlite: bool = False
    actions: int = ACTIONS
    #: how often some faults come, whatever else is drawn
    odds: Mapping[str, float] = field(default_factory=dict)

    def one(self, seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
        """Run one seed."""
        with silent():
            play = partial(simulate, seed, actions=self.actions, tell=tell, odds=self.odds)
            if not self.sqlite:
                return play()
            with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
                return replace(play(on_sqlite(Path(folder))), store=SQLITE)


def outcomes(seeds: range, jobs: int, asked: RunOptions) -> Iterator[Outcome]:
    """What became of each seed, as they end."""
    if jobs == 1:
        yield from map(asked.one, seeds)
        return
    # A fork would take over locks that other threads hold.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(asked.one, seeds, chunksize=_CHUNK)
