"""What happened in each second of a run, as lists that a chart and a result file take as they are.

A list has one entry a second, from second 0; None is a second in which there was nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from benchmarks.charts import Line
from benchmarks.delays import Seen


def counts(at_s: np.ndarray, seconds: int) -> list[int]:
    """How many of these moments are in each second."""
    found: list[int] = np.histogram(at_s, bins=seconds, range=(0, seconds))[0].tolist()
    return found


def quantiles(seen: Seen, seconds: int, name: str) -> list[float | None]:
    """``p50_s``, ``p99_s`` or ``max_s`` of what was meant to be sent in each second."""
    found = [seen.delays(second, second + 1) for second in range(seconds)]
    return [one[name] if one["measured"] else None for one in found]


def means(points: Sequence[tuple[float, float]], seconds: int) -> list[float | None]:
    """The mean of the (second, number) in each second."""
    found: list[list[float]] = [[] for _ in range(seconds)]
    for at_s, number in points:
        if 0 <= at_s < seconds:
            found[int(at_s)].append(number)
    return [round(statistics.mean(numbers), 3) if numbers else None for numbers in found]


def line(name: str, values: Sequence[float | None]) -> Line:
    """One line of a chart, drawn through the seconds in which there was something."""
    points = [(at + 0.5, value) for at, value in enumerate(values) if value is not None]
    return Line(name, [at for at, _ in points], [value for _, value in points])
