"""What is counted while waves come back: by stream, by use case, and in all.

A commit passes here for every slice, so counting has to cost next to nothing, and it must not grow
with time. So everything is counted in windows of half a minute that begin at whole half-minutes;
two of them are a minute of history. Of older ones nothing is left but totals.

Delays go into sketches (`sketches.py`). A delay is from the record's Kafka timestamp to
its durable commit; the clocks of producers are trusted for nothing but this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.model.receipts import Receipt
from headrace.telemetry.sketches import FINE, Sketch, merged
from headrace.telemetry.writers import SeenWriters

WINDOW_S = 30.0
#: windows remembered: the one that runs, the one before it, and a minute that is to be told
_KEPT = 4
#: of so few values numpy would take longer than a loop
_FEW = 4
#: how long it is told of what is over, such as a record that was set aside
NOTED_S = 60.0
#: a rate over less than this says nothing
_LEAST_SPAN_S = 0.5


@dataclass(slots=True)
class MeterWindow:
    """What was counted in one half-minute."""

    #: half-minutes since 1970
    number: int
    records_in: int = 0
    records_out: int = 0
    task_s: float = 0.0
    #: the largest that was seen
    lag_records: int = 0
    lag_s: float = 0.0
    delays: Sketch | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say about it."""
        return not (self.records_in or self.records_out or self.task_s or self.lag_records)


@dataclass(slots=True)
class Meter:
    """What one stream went through, or all streams together."""

    records_total: int = 0
    #: records that went to the dead letters
    dead_letters: int = 0
    #: records that Kafka removed before they were read, as far as their offsets are known
    lost_records: int = 0
    #: records that were passed over unread, as too old of a stream that was left alone
    passed_over_records: int = 0
    last_wave: str = ""
    _note: str = ""
    _noted_at_s: float = -math.inf
    #: grows with each receipt
    version: int = 0
    #: the last few, newest first
    windows: list[MeterWindow] = field(default_factory=list)
    #: who wrote its records, if these ever said so
    writers: SeenWriters | None = None
    _since_s: float = math.inf

    def add(self, receipt: Receipt, committed_s: float) -> NDArray[np.float32]:
        """Count a receipt whose effects were durable then; return the delays of its records."""
        window = self.window(committed_s)
        self.version += 1
        self.records_total += receipt.records
        self.dead_letters += receipt.dead_letters
        window.records_out += receipt.records
        window.task_s += receipt.seconds
        if receipt.slice.is_open:
            window.records_in += receipt.records  # that they came is known when they were read
        if receipt.writers:
            self.writers = self.writers or SeenWriters()
            self.writers.add(receipt.writers, committed_s)
        delays = _delays(receipt, committed_s)
        if len(delays):
            if window.delays is None:
                window.delays = Sketch(FINE)
            window.delays.update(delays)
        return delays

    def note(self, text: str, now_s: float) -> None:
        """Take down what happened and is over: a record was set aside, or was lost."""
        self._note, self._noted_at_s = text, now_s

    def noted(self, now_s: float) -> str:
        """What happened lately; nobody can mend it, so it goes by itself."""
        is_fresh = self._note and abs(now_s - self._noted_at_s) < NOTED_S
        return self._note if is_fresh else ""

    def window(self, now_s: float) -> MeterWindow:
        """The window of this time, in seconds since 1970; begun if need be."""
        number = int(now_s // WINDOW_S)
        if self.windows and number < self.windows[0].number - 1:
            # The clock was set back, and what was counted lies in the future.
            self.windows, self._since_s = [], now_s
        if not self.windows or self.windows[0].number < number:
            self._since_s = min(self._since_s, now_s)
            self.windows.insert(0, MeterWindow(number))
            del self.windows[_KEPT:]
        # A clock that was set back a little goes on in the newest.
        return self.windows[0]

    def recent(self, now_s: float) -> list[MeterWindow]:
        """The windows of the last one to two half-minutes."""
        first = int(now_s // WINDOW_S) - 1
        return [window for window in self.windows[:2] if window.number >= first]

    def span_s(self, now_s: float) -> float:
        """How long the recent windows span, or since when there is anything to count."""
        began_s = (now_s // WINDOW_S - 1) * WINDOW_S
        return max(_LEAST_SPAN_S, now_s - max(began_s, self._since_s))

    def rate_per_s(self, now_s: float) -> float:
        """Records committed a second, over the recent windows."""
        return sum(window.records_out for window in self.recent(now_s)) / self.span_s(now_s)

    def delays(self, now_s: float) -> Sketch:
        """The delays of the recent windows."""
        return merged_of(self.recent(now_s))

    def quantiles_s(self, now_s: float, *shares: float) -> tuple[float | None, ...]:
        """The delays that these shares of the recent records stayed under; None without records."""
        both = self.delays(now_s)
        if both.is_empty():
            return (None,) * len(shares)
        return tuple(float(quantile) for quantile in both.get_quantiles(list(shares)))


def merged_of(windows: list[MeterWindow]) -> Sketch:
    """The delays of some windows, as one sketch; not to be added to."""
    found = [window.delays for window in windows if window.delays is not None]
    return found[0] if len(found) == 1 else merged(found)


def _delays(receipt: Receipt, committed_s: float) -> NDArray[np.float32]:
    """One for each record: what is between two timestamps of a receipt is like them."""
    stamps = receipt.timestamps_s
    if len(stamps) <= _FEW:
        delays = np.array([max(0.0, committed_s - stamp) for stamp in stamps], np.float32)
    else:
        delays = np.maximum(committed_s - np.array(stamps), 0.0).astype(np.float32)
    alike = receipt.records // max(1, len(stamps))
    return np.repeat(delays, alike) if alike > 1 else delays
