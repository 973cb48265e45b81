"""The last step: what each stream's records went through, as figures to look at.

Operators ask which tenant lags and by how much. An average hides exactly the tenants that suffer,
so delays go into mergeable quantile sketches (KLL: Karnin, Lang, Liberty 2016), one for each stream
and half minute. A delay is from the record's Kafka timestamp to its durable commit; the clocks of
producers are trusted for nothing but this.

Nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from datasketches import kll_floats_sketch

from headrace.cycle.board import Board, HeldStream
from headrace.model.receipts import Receipt
from headrace.model.streams import Order, StreamId

WINDOW_S = 30.0
_SKETCH_K = 200


@dataclass(slots=True)
class Meter:
    """One stream's figures over the last one to two windows."""

    records_total: int = 0
    #: records that went to the dead letters
    dead_letters: int = 0
    #: records that Kafka removed before they were read, as far as their offsets are known
    lost_records: int = 0
    last_wave: str = ""
    last_error: str = ""
    _now: kll_floats_sketch = field(default_factory=lambda: kll_floats_sketch(_SKETCH_K))
    _before: kll_floats_sketch = field(default_factory=lambda: kll_floats_sketch(_SKETCH_K))
    _rolled_s: float = float("-inf")
    _window_records: int = 0
    _window_before: tuple[int, float] = (0, 0.0)

    def add(self, receipt: Receipt, committed_s: float, now_s: float) -> None:
        """Count a receipt whose effects were durable at ``committed_s`` (seconds since 1970)."""
        self._roll(now_s)
        self.records_total += receipt.records
        self.dead_letters += receipt.dead_letters
        self._window_records += receipt.records
        if receipt.timestamps_s:
            delays = np.maximum(committed_s - np.array(receipt.timestamps_s, np.float64), 0.0)
            each = max(1, receipt.records // len(delays))
            self._now.update(np.repeat(delays, each).astype(np.float32))

    def quantiles_s(self, *shares: float) -> tuple[float | None, ...]:
        """The delays that these shares of the recent records stayed under; None without records."""
        both = kll_floats_sketch(_SKETCH_K)
        both.merge(self._now)
        both.merge(self._before)
        if both.is_empty():
            return (None,) * len(shares)
        return tuple(float(each) for each in both.get_quantiles(list(shares)))

    def rate_per_s(self, now_s: float) -> float:
        """Records committed a second, over the last one to two windows."""
        self._roll(now_s)
        records, seconds = self._window_before
        span = now_s - self._rolled_s + seconds
        return (self._window_records + records) / span if span > 0.5 else 0.0

    def _roll(self, now_s: float) -> None:
        if self._rolled_s == float("-inf"):
            self._rolled_s = now_s
        elapsed = now_s - self._rolled_s
        if elapsed < WINDOW_S:
            return
        idle = elapsed >= 2 * WINDOW_S
        self._before = kll_floats_sketch(_SKETCH_K) if idle else self._now
        self._window_before = (0, WINDOW_S) if idle else (self._window_records, elapsed)
        self._now, self._window_records = kll_floats_sketch(_SKETCH_K), 0
        self._rolled_s = now_s


_NOTHING = Meter()


@dataclass(frozen=True, slots=True)
class Row:
    """One stream as people see it."""

    stream: StreamId
    state: str
    lag_records: int
    records_total: int
    rate_per_s: float
    p50_s: float | None
    p99_s: float | None
    wave: str
    dead_letters: int
    note: str
    lost_records: int = 0


@dataclass(slots=True)
class Reporter:
    """Keeps a meter for each stream."""

    meters: dict[StreamId, Meter] = field(default_factory=dict)

    def meter(self, stream: StreamId) -> Meter:
        """The stream's meter, made at first use."""
        return self.meters.setdefault(stream, Meter())

    def rows(self, board: Board, now_s: float) -> list[Row]:
        """A row for each stream held, by use case and tenant."""
        return [self._row(held, now_s) for _, held in sorted(board.streams.items())]

    def _row(self, held: HeldStream, now_s: float) -> Row:
        # A stream that never did anything needs no sketches.
        meter = self.meters.get(held.stream.id) or _NOTHING
        p50_s, p99_s = meter.quantiles_s(0.5, 0.99)
        waves = sorted({lane.wave for lane in held.lanes.values() if lane.wave})
        return Row(
            stream=held.stream.id,
            state=shown_state(held, now_s),
            lag_records=held.lag_records,
            records_total=meter.records_total,
            rate_per_s=meter.rate_per_s(now_s),
            p50_s=p50_s,
            p99_s=p99_s,
            wave=waves[0] if waves else meter.last_wave,
            dead_letters=meter.dead_letters,
            note=held.stream.reason or held.waiting or meter.last_error,
            lost_records=meter.lost_records,
        )


def shown_state(held: HeldStream, now_s: float) -> str:
    """The state in one word, with what passes by itself told apart from what does not."""
    if held.state.value != "active":
        return held.state.value
    if held.waiting:
        return "waiting"
    lanes = held.lanes.values()
    stopped = sum(lane.failure is not None for lane in lanes)
    if stopped:
        whole = stopped == len(lanes) or held.deployment.order is Order.STREAM
        return "suspended" if whole else f"suspended {stopped}/{len(lanes)}"
    if any(lane.tries or lane.attempts or lane.not_before_s > now_s for lane in lanes):
        return "retrying"
    return "throttled" if held.throttled and held.lag_records else "active"
