"""What the waves of each use case were like: the figures that Spark's own pages show for batches.

How long its tasks worked, how long a wave was under way without any task of it at work (handed
over, scheduled, its results fetched), and how old records were when their effect was durable: each
as a sketch over the last two and a half to five minutes, since a use case with large waves has few
of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.model.receipts import Receipt
from headrace.model.statistics import UseCaseFigures
from headrace.ports import WaveResult
from headrace.telemetry.sketches import FINE, Sketch, merged, spread_of

_WINDOW_S = 150.0
_LEAST_SPAN_S = 0.5


@dataclass(slots=True)
class _Count:
    began_s: float
    waves: int = 0
    records: int = 0
    bytes_in: int = 0
    #: None as long as nobody says
    bytes_out: int | None = None
    processing: Sketch = field(default_factory=lambda: Sketch(FINE))
    scheduling: Sketch = field(default_factory=lambda: Sketch(FINE))
    delays: Sketch = field(default_factory=lambda: Sketch(FINE))
    #: not in the sketch yet: many small additions cost more than a large one
    new: list[NDArray[np.float32]] = field(default_factory=list)

    def settle(self) -> None:
        """Bring what is new into the sketch."""
        if self.new:
            self.delays.update(np.concatenate(self.new))
            self.new = []


@dataclass(slots=True)
class UseCaseMeter:
    """Counts the waves of one use case."""

    waves_total: int = 0
    state_hits_total: int = 0
    state_misses_total: int = 0
    _counts: list[_Count] = field(default_factory=list)

    def add(self, receipt: Receipt, delays: NDArray[np.float32], now_s: float) -> None:
        """Count a receipt that was committed."""
        count = self._count(now_s)
        count.records += receipt.records
        count.bytes_in += receipt.bytes
        if receipt.output_bytes is not None:
            count.bytes_out = (count.bytes_out or 0) + receipt.output_bytes
        count.new.append(delays)
        self.state_hits_total += receipt.state_hits
        self.state_misses_total += receipt.state_misses

    def returned(self, result: WaveResult, now_s: float) -> None:
        """Count a wave that came back."""
        self.waves_total += 1
        if not result.receipts:
            return
        count = self._count(now_s)
        count.waves += 1
        worked_s = _longest_s(result)
        count.processing.update(worked_s)
        count.scheduling.update(max(0.0, result.seconds - worked_s))

    def figures(self, use_case: str, pace_per_s: float | None, now_s: float) -> UseCaseFigures:
        """What is told of it."""
        self._count(now_s)
        for count in self._counts:
            count.settle()
        span_s = max(_LEAST_SPAN_S, now_s - self._counts[-1].began_s)
        out = [count.bytes_out for count in self._counts if count.bytes_out is not None]
        return UseCaseFigures(
            use_case=use_case,
            waves_total=self.waves_total,
            processing=spread_of(merged(count.processing for count in self._counts)),
            scheduling=spread_of(merged(count.scheduling for count in self._counts)),
            delay=spread_of(merged(count.delays for count in self._counts)),
            records_per_s=sum(count.records for count in self._counts) / span_s,
            bytes_in_per_s=sum(count.bytes_in for count in self._counts) / span_s,
            bytes_out_per_s=sum(out) / span_s if out else None,
            pace_per_s=pace_per_s,
            state_hits_total=self.state_hits_total,
            state_misses_total=self.state_misses_total,
        )

    def _count(self, now_s: float) -> _Count:
        if self._counts and now_s < self._counts[0].began_s - 1.0:
            self._counts = []  # the clock was set back
        counts = self._counts
        if not counts or now_s - counts[0].began_s >= _WINDOW_S:
            self._counts = [_Count(now_s), *counts[:1]]
            if counts and now_s - counts[0].began_s >= 2 * _WINDOW_S:
                self._counts = self._counts[:1]
        return self._counts[0]


def _longest_s(result: WaveResult) -> float:
    """Seconds that the task that worked longest worked."""
    if len(result.wave.bins) == 1:
        return sum(receipt.seconds for receipt in result.receipts)
    seconds = {receipt.slice.lane: receipt.seconds for receipt in result.receipts}
    return max(
        _sum(seconds.get(piece.lane, 0.0) for piece in bin_.slices) for bin_ in result.wave.bins
    )


def _sum(seconds: Iterable[float]) -> float:
    return float(sum(seconds))
