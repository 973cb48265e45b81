"""A sink against the call of the client's own that writes the same rows, in turn, in one process.

The table of each is named by who writes it, ``by_sink`` or ``by_client``; both are emptied before
each round, and counted and summed after it. Which server it is, and which call, is not known here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc

from benchmarks import harness
from headrace.ports import Effect, Sink, Site

#: how many rows, and the sum of a number in them
Counted = tuple[int, int]


def measured(
    waves: Sequence[Sequence[Effect]],
    rounds: int,
    contenders: dict[str, Callable[[], None]],
    empty: Callable[[], object],
    counted: Callable[[str], Counted],
) -> dict[str, Any]:
    """Seconds of each round, rows a second and the ratio of the two.

    Args:
        waves: what is written, a bin after the other.
        rounds: how many count; one before them warms up.
        contenders: how ``sink`` and ``client`` write all of it.
        empty: takes away what the last round wrote.
        counted: what is in a table.
    """
    due = _due(waves)
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        empty()
        for name in contenders if number % 2 else reversed(contenders):
            begun = time.perf_counter()
            contenders[name]()
            if number:  # the first one warms up
                took[name].append(round(time.perf_counter() - begun, 3))
        for name in contenders:
            assert counted(f"by_{name}") == due, f"the {name} has other rows"
    return {
        "seconds": took,
        "rows_per_s": {name: round(due[0] / statistics.median(took[name])) for name in took},
        "ratio": harness.ratio(took["client"], took["sink"]),
    }


def by_sink(sink: Sink, site: Site, waves: Sequence[Sequence[Effect]]) -> None:
    """Write all of it, each bin with a writer of its own, as a task does."""
    for effects in waves:
        writer = sink.open(site)
        assert all(not told.error and not told.refused for told in writer.write(effects))
        writer.close()


def _due(waves: Sequence[Sequence[Effect]]) -> Counted:
    tables = [effect.output for wave in waves for effect in wave]
    return sum(t.num_rows for t in tables), sum(pc.sum(t["bytes"]).as_py() for t in tables)
