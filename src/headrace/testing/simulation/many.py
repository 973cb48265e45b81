"""Many seeds on several processes, in no order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

from headrace.testing.simulation.run import Outcome, silent, simulate

_CHUNK = 16


def outcomes(seeds: range, jobs: int, actions: int) -> Iterator[Outcome]:
    """What became of each seed, as they end."""
    asked = [(seed, actions) for seed in seeds]
    if jobs == 1:
        yield from map(_one, asked)
        return
    # A fork would take over locks that other threads hold.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_one, asked, chunksize=_CHUNK)


def _one(asked: tuple[int, int]) -> Outcome:
    seed, actions = asked
    with silent():
        return simulate(seed, actions=actions)
