"""The last step: what each stream's records went through, counted for people to look at.

Operators ask which tenant lags and by how much. What a driver knows of that is gathered here while
it works: a meter for each stream (`meters.py`), one for each use case, and a timeline of waves.
The live table reads it directly; everybody else reads what is told of it every other second
(`figures.py`, `telling.py`).

Nothing here decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.cycle.board import Board, HeldStream
from headrace.cycle.meters import Meter
from headrace.cycle.timeline import Timeline
from headrace.cycle.use_case_meters import UseCaseMeter
from headrace.model.receipts import Receipt
from headrace.model.streams import Order, State, StreamId
from headrace.model.waves import Wave
from headrace.ports import Clock, WaveResult
from headrace.tracing import Tracing

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
    """Keeps a meter for each stream, and whatever else is counted."""

    meters: dict[StreamId, Meter] = field(default_factory=dict)
    #: task-seconds of all streams
    all: Meter = field(default_factory=Meter)
    use_cases: dict[str, UseCaseMeter] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)
    #: told of committed slices; None: nobody wants traces
    tracing: Tracing | None = None

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
        self._use_case(receipt.slice.lane.use_case).add(receipt, delays, now_s)
        if self.tracing is not None and receipt.traceparents:
            self.tracing.committed(receipt, wave, now_s)

    def returned(self, result: WaveResult, now_s: float) -> None:
        """A wave came back and is settled, whatever became of it."""
        self.timeline.ended(result, now_s)
        self._use_case(result.wave.use_case).returned(result, now_s)

    def rows(self, board: Board, clock: Clock) -> list[Row]:
        """A row for each stream held, by use case and tenant."""
        now_s, steady_s = clock.now_s(), clock.monotonic_s()
        return [self._row(held, now_s, steady_s) for _, held in sorted(board.streams.items())]

    def _use_case(self, name: str) -> UseCaseMeter:
        found = self.use_cases.get(name)
        if found is None:
            found = self.use_cases[name] = UseCaseMeter()
        return found

    def _row(self, held: HeldStream, now_s: float, steady_s: float) -> Row:
        # A stream that never did anything needs no sketches.
        meter = self.meters.get(held.stream.id) or _NOTHING
        p50_s, p99_s = meter.quantiles_s(now_s, 0.5, 0.99)
        return Row(
            stream=held.stream.id,
            state=shown_state(held, steady_s),
            lag_records=held.lag_records,
            records_total=meter.records_total,
            rate_per_s=meter.rate_per_s(now_s),
            p50_s=p50_s,
            p99_s=p99_s,
            wave=shown_wave(held, meter),
            dead_letters=meter.dead_letters,
            note=shown_note(held, meter),
            lost_records=meter.lost_records,
        )


def shown_wave(held: HeldStream, meter: Meter) -> str:
    """The wave that runs a stream, or the last one."""
    waves = [lane.wave for lane in held.lanes.values() if lane.wave]
    return min(waves) if waves else meter.last_wave


def shown_note(held: HeldStream, meter: Meter) -> str:
    """Why a stream does not go on, or its last error."""
    return held.stream.reason or held.waiting or meter.last_error


def shown_state(held: HeldStream, now_s: float) -> str:
    """The state in one word, with what passes by itself told apart from what does not.

    ``now_s`` is of the steady clock.
    """
    if held.state is not State.ACTIVE:
        return held.state.value
    if held.waiting:
        return "waiting"
    stopped, troubled = 0, False
    for lane in held.lanes.values():
        stopped += lane.failure is not None
        troubled |= bool(lane.tries or lane.attempts or lane.not_before_s > now_s)
    if stopped:
        whole = stopped == len(held.lanes) or held.deployment.order is Order.STREAM
        return "suspended" if whole else f"suspended {stopped}/{len(held.lanes)}"
    if troubled:
        return "retrying"
    return "throttled" if held.throttled and held.lag_records else "active"
