"""Catching what must never happen while waves run at once: two slices of a lane, records overtaken.

A lane that runs twice at the same time mostly goes well: both copies write the same, and only now
and then an older value lands on a newer one. So it is not looked for in results but where it
begins. `FlightChecker` stands between a driver and its engine and fails at the very start of a
second slice of a lane (for order ``stream``: of the stream). `OrderChecker` is told of effects in
the order in which they happened and fails at the first record that was overtaken.

A record may have its effect twice, as at-least-once allows: a lane may step back and do everything
again from there. It may not step back and then leave some of it out, which is what a late copy of
an old slice does.

Neither looks into a store or a log, so neither knows what is missing at the end.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, StreamId
from headrace.model.waves import Terms, Wave
from headrace.ports import Engine, PackedCode, WaveResult
from headrace.testing.findings import Report
from headrace.use_cases import UseCase


@dataclass(slots=True)
class FlightChecker:
    """An engine around an engine; implements ``headrace.ports.Engine``.

    Attributes:
        engine: runs the waves.
        most_waves: most waves that were in flight at once, so that a test can tell that it tested
            anything.

    Raises:
        AssertionError: from ``start``, if a lane or a strict stream is in flight already, or if a
            wave is; from ``finished``, if a wave comes back that is not in flight.
    """

    engine: Engine[UseCase]
    most_waves: int = 0
    _orders: dict[str, Order] = field(default_factory=dict)
    _flights: dict[str, Wave] = field(default_factory=dict)
    #: the wave that each lane, or strict stream, is in
    _busy: dict[LaneId | StreamId, str] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Those of the engine."""
        return self.engine.slots

    @property
    def executors(self) -> int:
        """Those of the engine."""
        return self.engine.executors

    @property
    def ui_url(self) -> str:
        """That of the engine."""
        return self.engine.ui_url

    def packed(self, use_case: UseCase) -> PackedCode:
        """As the engine packs it."""
        return self.engine.packed(use_case)

    def take(
        self, use_case: UseCase, deployment: Deployment, code: PackedCode | None = None
    ) -> None:
        """Take a use case; what runs keeps to the order it was started under."""
        self._orders[deployment.use_case] = deployment.order
        self.engine.take(use_case, deployment, code)

    def forget(self, use_case: str, terms: Terms) -> None:
        """Let a version go."""
        self.engine.forget(use_case, terms)

    def start(self, wave: Wave) -> None:
        """Run a wave, unless something of it runs."""
        assert wave.id not in self._flights, f"wave {wave.id} is started while it is in flight"
        for claim in self._claims(wave):
            other = self._busy.get(claim)
            assert other is None, f"{claim} is in flight twice: in wave {other} and in {wave.id}"
            self._busy[claim] = wave.id
        self._flights[wave.id] = wave
        self.most_waves = max(self.most_waves, len(self._flights))
        self.engine.start(wave)

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended."""
        results = self.engine.finished(timeout_s)
        for result in results:
            name = result.wave.id
            assert self._flights.pop(name, None), f"wave {name} came back and is not in flight"
            self._busy = {key: wave for key, wave in self._busy.items() if wave != name}
        return results

    def began(self, wave_id: str) -> bool | None:
        """As the engine says."""
        return self.engine.began(wave_id)

    def cancel(self, wave_id: str) -> None:
        """End a wave; it is in flight until it comes back."""
        self.engine.cancel(wave_id)

    def resize(self, slots: int) -> None:
        """Have more executors or fewer, as the engine can."""
        self.engine.resize(slots)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def _claims(self, wave: Wave) -> list[LaneId | StreamId]:
        """What nobody else may run meanwhile; a lane that the wave has twice is in it twice."""
        lanes: list[LaneId | StreamId] = [piece.lane for piece in wave.slices]
        if self._orders.get(wave.use_case) is Order.STREAM:
            # Within one bin the lanes of a stream are merged; in two bins they would race.
            streams = ({piece.lane.stream for piece in bin_.slices} for bin_ in wave.bins)
            lanes += [stream for of_bin in streams for stream in of_bin]
        return lanes


@dataclass(slots=True)
class SingleFlight:
    """Is told of every wave that any driver starts, and of its end.

    A driver that was taken for dead may still run what it had, so a lane may well be in flight
    twice, but never twice under one epoch: epochs are what makes one of the two a zombie. A wave
    of a driver that died never ends here.
    """

    #: the wave that a lane is in, under an epoch
    _busy: dict[tuple[LaneId, int], str] = field(default_factory=dict)
    _found: list[str] = field(default_factory=list)
    _slices: int = 0

    def started(self, wave: Wave) -> None:
        """A driver starts a wave."""
        for piece in wave.slices:
            self._slices += 1
            key = (piece.lane, piece.epoch)
            other = self._busy.get(key)
            if other is not None:
                self._found.append(
                    f"{piece} under epoch {piece.epoch} is in flight twice: in wave {other} and "
                    f"in {wave.id}"
                )
            self._busy[key] = wave.id

    def ended(self, wave: Wave) -> None:
        """Its driver was told what became of it."""
        for piece in wave.slices:
            if self._busy.get((piece.lane, piece.epoch)) == wave.id:
                del self._busy[piece.lane, piece.epoch]

    def report(self) -> Report:
        """What was found until now."""
        return Report("double flights", self._slices, tuple(self._found))


@dataclass(slots=True)
class OrderChecker:
    """Is told of effects as they happen, lane by lane.

    A key is whatever has an order of its own, such as a ``LaneId``, and its numbers are the places
    in it, such as offsets. For order ``stream`` take the ``StreamId`` and a number that grows over
    all of its lanes.
    """

    _seen: dict[Hashable, list[int]] = field(default_factory=dict)
    _last: dict[Hashable, int] = field(default_factory=dict)

    def happened(self, key: Hashable, numbers: Iterable[int]) -> None:
        """Effects happened, in this order.

        Raises:
            AssertionError: a record was overtaken by a later one.
        """
        for number in numbers:
            self._one(key, number)

    def sent_elsewhere(self, key: Hashable) -> None:
        """Somebody sought or started anew: what happened before says nothing about what comes."""
        self._seen.pop(key, None)
        self._last.pop(key, None)

    def counts(self, key: Hashable) -> int:
        """How many different numbers there were since the key was last sent elsewhere."""
        return len(self._seen.get(key, ()))

    def _one(self, key: Hashable, number: int) -> None:
        seen, last = self._seen.setdefault(key, []), self._last.get(key)
        after = bisect_right(seen, number)
        known = after > 0 and seen[after - 1] == number
        if last is not None and number <= last:
            assert known, f"{key}: {number} came too late, after {last}"
        else:
            before = seen[after - 1 - known] if after - known > 0 else None
            assert before == last, (
                f"{key}: {number} came after {last}, which had stepped back before {before}"
            )
        if not known:
            insort(seen, number)
        self._last[key] = number
