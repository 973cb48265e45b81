"""What each stream's records went through, counted for people to look at.

Operators ask which tenant lags and by how much. What a driver knows of that is gathered here while
it works: a meter for each stream (`meters.py`), one for each use case, and a timeline of waves.
The live table reads it directly; everybody else reads what is told of it every other second
(`figures.py`, `publishing.py`).

Nothing here decides anything.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.board import Board, HeldStream, Lane
from headrace.model.lineage import waits_told
from headrace.model.parked import NOTHING_PARKED
from headrace.model.receipts import Receipt
from headrace.model.statistics import LagIs, ShownState
from headrace.model.streams import State, StreamId
from headrace.model.waves import Wave
from headrace.ports import Clock, WaveResult
from headrace.telemetry.long_runs import long_runs
from headrace.telemetry.meters import Meter
from headrace.telemetry.timeline import Timeline
from headrace.telemetry.tracing import Tracing
from headrace.telemetry.use_case_meters import UseCaseMeter

_NOTHING = Meter()


@dataclass(frozen=True, slots=True)
class StreamRow:
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
    passed_over_records: int = 0
    #: how its lag is known
    lag_is: LagIs = LagIs.EXACT


@dataclass(slots=True)
class Reporter:
    """Keeps a meter for each stream, and whatever else is counted."""

    meters: dict[StreamId, Meter] = field(default_factory=dict)
    #: records and task-seconds of all streams
    all: Meter = field(default_factory=Meter)
    use_cases: dict[str, UseCaseMeter] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    #: told of committed slices; None: nobody wants traces
    tracing: Tracing | None = None
    #: of tenants that were added under the name of an earlier one, by stream
    _generations: dict[StreamId, int] = field(default_factory=dict)

    def forget_earlier(self, held: HeldStream) -> bool:
        """Forget what was counted of a stream if that was an earlier tenant's; whether it was."""
        name, generation = held.stream.id, held.tenant.generation
        if self._generations.get(name, 0) == generation:
            return False
        self._generations[name] = generation
        self.meters.pop(name, None)
        return True

    def meter(self, stream: StreamId) -> Meter:
        """The stream's meter, made at first use."""
        found = self.meters.get(stream)
        if found is None:
            found = self.meters[stream] = Meter()
        return found

    def started(self, wave: Wave, now_s: float) -> None:
        """A wave was handed to the engine."""
        self.timeline.started(wave, now_s)

    def committed(self, receipt: Receipt, now_s: float, wave: str) -> None:
        """Count a receipt whose effects are durable since ``now_s``."""
        meter = self.meter(receipt.slice.lane.stream)
        meter.last_wave = wave
        delays = meter.add(receipt, now_s)
        self.all.window(now_s).task_s += receipt.seconds
        self.all.records_total += receipt.records
        self._use_case(receipt.slice.lane.use_case).add(receipt, delays, now_s)
        if self.tracing is not None and receipt.traceparents:
            self.tracing.committed(receipt, wave, now_s)

    def returned(self, result: WaveResult, now_s: float) -> None:
        """A wave came back and is settled, whatever became of it."""
        self.timeline.ended(result, now_s)
        self._use_case(result.wave.use_case).returned(result, now_s)

    def forget(self, here: Collection[StreamId], before: int) -> None:
        """Let go of streams that are not here any more, and of use cases that none of these is of.

        What was counted in the window of number ``before`` or later is still to be told.
        """
        for name in [name for name in self.meters if name not in here]:
            windows = self.meters[name].windows
            if not windows or windows[0].number < before:
                del self.meters[name]
        for name in self._generations.keys() - {*here, *self.meters}:
            del self._generations[name]
        use_cases = {name.use_case for name in here}
        for use_case in [use_case for use_case in self.use_cases if use_case not in use_cases]:
            del self.use_cases[use_case]

    def rows(self, board: Board, clock: Clock) -> list[StreamRow]:
        """A row for each stream held, by use case and tenant."""
        now_s, steady_s = clock.now_s(), clock.monotonic_s()
        long = long_runs(board, steady_s)
        return [self._row(held, now_s, steady_s, long) for _, held in sorted(board.streams.items())]

    def _use_case(self, name: str) -> UseCaseMeter:
        found = self.use_cases.get(name)
        if found is None:
            found = self.use_cases[name] = UseCaseMeter()
        return found

    def _row(
        self, held: HeldStream, now_s: float, steady_s: float, long: Mapping[StreamId, str]
    ) -> StreamRow:
        # A stream that never did anything needs no sketches.
        meter = self.meters.get(held.stream.id) or _NOTHING
        p50_s, p99_s = meter.quantiles_s(now_s, 0.5, 0.99)
        found = shown(held, meter, now_s, steady_s, long)
        lag, lag_is = held.told_lag
        return StreamRow(
            stream=held.stream.id,
            state=found.state,
            lag_records=lag,
            lag_is=lag_is,
            records_total=meter.records_total,
            rate_per_s=meter.rate_per_s(now_s),
            p50_s=p50_s,
            p99_s=p99_s,
            wave=shown_wave(held, meter),
            dead_letters=meter.dead_letters,
            note=found.note,
            lost_records=meter.lost_records,
            passed_over_records=meter.passed_over_records,
        )


def shown_wave(held: HeldStream, meter: Meter) -> str:
    """The wave that runs a stream, or the last one."""
    waves = [lane.wave for lane in held.lanes.values() if lane.wave]
    return min(waves) if waves else meter.last_wave


class Shown(NamedTuple):
    """How a stream stands, and why."""

    #: a ``ShownState``, or "suspended 1/4"
    state: str
    #: why it does not go on, or what happened to it lately; empty: nothing to say
    note: str
    #: of the steady clock, where it is "retrying" and waits: when it is tried again
    next_try_s: float | None = None


_LEFT_ALONE = (
    "it was left alone; what was recorded of it ends first, and then what is too old is passed over"
)


def shown(
    held: HeldStream, meter: Meter, now_s: float, steady_s: float, long: Mapping[StreamId, str]
) -> Shown:
    """What passes by itself is told apart from what does not.

    A trouble is told for as long as it lasts: what was retried, skipped or came through is not.
    """
    stopped: list[Lane] = []
    troubled: list[Lane] = []
    for lane in held.lanes.values():
        waits = lane.not_before_s > steady_s or lane.aside is not None
        if lane.failure is not None:
            stopped.append(lane)
        elif lane.tries or lane.attempts or waits:
            troubled.append(lane)
    state, waits_for = held.state, held.waits or held.blind or held.too_old
    slot = long.get(held.stream.id, "")
    trouble = _first(stopped or troubled)
    trouble = f"{trouble}; {slot}" if trouble and slot and not stopped else trouble
    left = _LEFT_ALONE if held.restarts else ""
    # Who holds a slot hides no word of what was passed over, set aside or lost.
    lately = "; ".join(filter(None, (left or meter.noted(now_s), slot, held.topic_trouble)))
    note = held.stream.reason or waits_for or trouble or _absent(held) or lately
    note = note or waits_told(held.closed)
    if state is not State.ACTIVE:
        return Shown(state.value, note)
    if waits_for:
        rests = waits_for == NOTHING_PARKED
        return Shown(ShownState.ACTIVE if rests else ShownState.WAITING, note)
    if stopped:
        return Shown(_suspended(held, len(stopped)), note)
    if troubled:
        return Shown(ShownState.RETRYING, note, _next_try_s(held, troubled, steady_s))
    if left or held.absent:
        return Shown(ShownState.WAITING, note)
    limited = held.throttled and held.lag_records
    return Shown(ShownState.THROTTLED if limited else ShownState.ACTIVE, note)


def _absent(held: HeldStream) -> str:
    """What is not there, and how that is given up of which something is recorded."""
    if not (held.absent and held.recorded_of):
        return held.absent or ""
    more = "nothing more of the stream is read" if held.restarts else "what runs with it waits"
    null = json.dumps(dict.fromkeys(held.recorded_of))
    return (
        f"{held.absent}; something is recorded of it, and until that has run {more}. If it is gone "
        f"for good, headrace streams seek {held.stream.id} --to '{null}' gives that up"
    )


def _suspended(held: HeldStream, stopped: int) -> str:
    whole = held.deployment.order.merges_lanes or stopped == len(held.lanes)
    state = ShownState.SUSPENDED
    return state if whole else f"{state} {stopped}/{len(held.lanes)}"


def _next_try_s(held: HeldStream, troubled: Sequence[Lane], steady_s: float) -> float | None:
    """When it goes on: merged lanes wait for each other."""
    last = max if held.deployment.order.merges_lanes else min
    due_s = last(lane.not_before_s for lane in troubled)
    return due_s if due_s > steady_s else None


def _first(lanes: Sequence[Lane]) -> str:
    if not lanes:
        return ""
    told, more = lanes[0].trouble, len(lanes) - 1
    return f"{told} (and {more} more partition{'s' * (more > 1)})" if more > 0 else told
