"""Who ran where, for how long: the waves of the last minutes, on as many rows as there are slots.

Spark does not say which slot a task ran in, and for people it does not matter: a bin is given the
lowest row that is free when its wave starts, so two that run at once are never in the same.

What came back is looked through only when somebody is told of it: with hundreds of waves a minute
most are never shown.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.receipts import Receipt
from headrace.model.statistics import BinFigures, Outcome, WaveFigures
from headrace.model.streams import LaneId
from headrace.model.waves import Bin, Wave
from headrace.ports import WaveResult

#: waves shown, running ones included
MOST_WAVES = 200
#: those that ended longer ago are not shown
SHOWN_S = 300.0
#: tenants named of a bin
MOST_TENANTS = 20


@dataclass(slots=True)
class _Entry:
    wave: Wave
    started_at_s: float
    slots: list[int]
    #: until it was looked through
    result: WaveResult | None = None
    figures: WaveFigures | None = None


@dataclass(slots=True)
class Timeline:
    """Takes note of waves that start and end."""

    _running: dict[str, _Entry] = field(default_factory=dict)
    _ended: deque[tuple[float, _Entry]] = field(default_factory=lambda: deque(maxlen=MOST_WAVES))
    #: rows that are free, below those that were never used
    _free: list[int] = field(default_factory=list)
    _rows: int = 0

    def started(self, wave: Wave, at_s: float) -> None:
        """A wave was handed to the engine."""
        self._running[wave.id] = _Entry(wave, at_s, [self._row() for _ in wave.bins])

    def ended(self, result: WaveResult, now_s: float) -> None:
        """A wave came back; one that was not seen to start is let be."""
        entry = self._running.pop(result.wave.id, None)
        if entry is None:
            return
        for row in entry.slots:
            heapq.heappush(self._free, row)
        # When it ran out, not when the driver came to look.
        ended_at_s = entry.started_at_s + result.seconds if result.seconds else now_s
        entry.result, entry.figures = result, None
        self._ended.appendleft((max(entry.started_at_s, min(ended_at_s, now_s)), entry))

    def figures(self, now_s: float) -> tuple[WaveFigures, ...]:
        """The waves of the last minutes, newest first."""
        while self._ended and self._ended[-1][0] < now_s - SHOWN_S:
            self._ended.pop()
        told = [_told(entry, None) for entry in self._running.values()]
        told += [_told(entry, ended_at_s) for ended_at_s, entry in self._ended]
        told.sort(key=lambda wave: -wave.started_at_s)
        return tuple(told[:MOST_WAVES])

    def _row(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._rows += 1
        return self._rows - 1


def _told(entry: _Entry, ended_at_s: float | None) -> WaveFigures:
    if entry.figures is None:
        wave, result = entry.wave, entry.result
        found = {receipt.slice.lane: receipt for receipt in result.receipts} if result else {}
        failed = result is not None and result.error is not None
        bins = zip(entry.slots, wave.bins, strict=True)
        entry.figures = WaveFigures(
            wave=wave.id,
            use_case=wave.use_case,
            started_at_s=entry.started_at_s,
            ended_at_s=ended_at_s,
            bins=tuple(
                _bin(row, planned, found, Outcome.FAILED if failed else None)
                for row, planned in bins
            )
            if result
            else tuple(_running_bin(row, planned) for row, planned in bins),
            error=result.error.message if result is not None and result.error else "",
        )
        entry.result = None  # receipts hold records that failed
    return entry.figures


def _running_bin(row: int, planned: Bin) -> BinFigures:
    records: dict[str, int] = {}
    for piece in planned.slices:
        records[piece.lane.tenant] = records.get(piece.lane.tenant, 0) + piece.records
    return _figures(row, records, Outcome.RUNNING)


def _bin(
    row: int, planned: Bin, found: Mapping[LaneId, Receipt], outcome: Outcome | None
) -> BinFigures:
    records: dict[str, int] = {}
    worst = Outcome.DONE
    for piece in planned.slices:
        receipt = found.get(piece.lane)
        done = receipt.records if receipt is not None else 0
        records[piece.lane.tenant] = records.get(piece.lane.tenant, 0) + done
        if receipt is None or worst is Outcome.FAILED:
            continue
        if receipt.error is not None:
            worst = Outcome.FAILED
        elif _is_short(receipt) and not receipt.superseded:
            worst = Outcome.YIELDED
    return _figures(row, records, outcome or worst)


def _is_short(receipt: Receipt) -> bool:
    if receipt.slice.is_open:
        return receipt.behind is None
    return receipt.reached < receipt.slice.until_offset


def _figures(row: int, records: Mapping[str, int], outcome: Outcome) -> BinFigures:
    most = heapq.nlargest(MOST_TENANTS, records, key=lambda name: records[name])
    return BinFigures(row, tuple(most), len(records), sum(records.values()), outcome)
