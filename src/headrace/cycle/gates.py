"""How much each stream may take now, when something limits it.

Three things can: the tenant's throttle, the rate per lane that a use case is held to, and the pace
that backpressure sets for a use case and for a sink. Each is a *gate*: a bucket of tokens that the
streams behind it share. A stream may take what the narrowest of its gates leaves it.

Tokens are shared evenly by need (max-min): who wants little gets it whole. With fewer tokens than
streams, some get one each and the others the next time, in turn. A gate whose streams want less
than it holds limits nobody, and streams behind no gate cost nothing here.

Tokens are taken when a slice starts, whatever it is: one that runs again does not wait for them,
and makes a debt. What a slice paid is its *fare*, which knows the very token buckets, so that what
it did not use can be given back where it was taken from (`accounts.py`), whatever became of its
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.board import NO_LIMIT, Allowance, HeldStream
from headrace.model.streams import Slice, StreamId
from headrace.planning.demand import level
from headrace.policies.throttle import TokenBucket

#: a gate that is full and that no stream wanted to pass for so long is forgotten
KEPT_S = 600.0
#: what people are told of who is held back
_SPOKEN = {
    "stream": "max_rate_per_lane",
    "use case": "the pace of its use case",
    "sink": "the pace of its sink",
}


class GateId(NamedTuple):
    """Whose gate it is, such as ``("tenant", "acme")``."""

    kind: str
    name: str
    #: of the tenant that it is about: the next one of a name owes nothing
    generation: int = 0


class GateRate(NamedTuple):
    """What a gate lets through."""

    records_per_s: float | None
    bytes_per_s: float | None
    burst_s: float


def own_rates(held: HeldStream) -> dict[GateId, GateRate]:
    """The gates that a stream brings with it: its tenant's throttle, and the rate of its lanes."""
    rates: dict[GateId, GateRate] = {}
    throttle, generation = held.tenant.throttle, held.tenant.generation
    if throttle.records_per_s is not None or throttle.bytes_per_s is not None:
        rates[GateId("tenant", held.tenant.name, generation)] = GateRate(
            throttle.records_per_s, throttle.bytes_per_s, throttle.burst_s
        )
    per_lane = held.deployment.max_rate_per_lane
    if per_lane is not None:
        rate_per_s = per_lane * max(1, held.lanes_of_log)
        rates[GateId("stream", str(held.stream.id), generation)] = GateRate(rate_per_s, None, 1.0)
    return rates


@dataclass(slots=True)
class Gate:
    """The tokens that the streams behind it share; None is no limit."""

    rate: GateRate
    records: TokenBucket | None
    bytes: TokenBucket | None

    @classmethod
    def full(cls, rate: GateRate, now_s: float) -> Gate:
        """A gate nothing has passed yet."""
        return cls(
            rate,
            _full(rate.records_per_s, rate.burst_s, now_s),
            _full(rate.bytes_per_s, rate.burst_s, now_s),
        )

    def refill(self, now_s: float) -> None:
        """Give it the tokens it gained since it was last looked at."""
        self.records = self.records.refilled(now_s) if self.records else None
        self.bytes = self.bytes.refilled(now_s) if self.bytes else None

    def change(self, rate: GateRate, now_s: float) -> None:
        """Let through another rate from now on.

        What is owed stays owed, and it gets no fuller: changing it often must not give a burst each
        time.
        """
        fresh = Gate.full(rate, now_s)
        self.records = _carried(self.records, fresh.records)
        self.bytes = _carried(self.bytes, fresh.bytes)
        self.rate = rate

    def spend(self, records: float, bytes_: float) -> Toll:
        """Take tokens; what it does not limit is not taken."""
        toll = Toll(self, records if self.records else 0.0, bytes_ if self.bytes else None)
        self.records = self.records.spend(records) if self.records else None
        self.bytes = self.bytes.spend(bytes_) if self.bytes else None
        return toll

    def give_back(self, records: float, bytes_: float) -> None:
        """Give tokens back that were taken here."""
        self.records = self.records.given_back(records) if self.records else None
        self.bytes = self.bytes.given_back(bytes_) if self.bytes else None

    def rests(self, now_s: float) -> bool:
        """Whether one that is made anew when a stream comes again is as good as this one.

        Not as long as it owes, or is not full: to go and to come again would give a burst. And only
        after a while, as a full one whose rate then changes gets no fuller by that.
        """
        buckets = [bucket for bucket in (self.records, self.bytes) if bucket is not None]
        return all(
            now_s - bucket.at_s >= KEPT_S and bucket.refilled(now_s).is_full for bucket in buckets
        )


class Toll(NamedTuple):
    """What was taken at one gate."""

    gate: Gate
    records: float
    #: None where it did not limit them; what was in flight when it began to is not counted
    bytes: float | None


@dataclass(frozen=True, slots=True)
class Payment:
    """What a slice paid."""

    tolls: tuple[Toll, ...]
    #: its bytes, which are a guess before it is read
    bytes: float

    def give_back(self, part: float, used_bytes: float) -> None:
        """Give back what was not used; called once. Below 0 more is taken, which makes a debt.

        Args:
            part: of its records, up to all.
            used_bytes: how many there were of those that were used.
        """
        for gate, records, paid in self.tolls:
            gate.give_back(part * records, 0.0 if paid is None else paid - used_bytes)


#: the gates a stream stands behind, with the rate of each now
RatesOf = Callable[[HeldStream], Mapping[GateId, GateRate]]


@dataclass(slots=True)
class Gates:
    """All gates that are in force."""

    rates_of: RatesOf
    gates: dict[GateId, Gate] = field(default_factory=dict)
    _turn: int = 0
    _swept_at_s: float = float("-inf")

    def allowances(self, streams: Sequence[HeldStream], now_s: float) -> dict[StreamId, Allowance]:
        """What each of these runnable streams may take now; those without a limit are left out."""
        self._turn += 1
        self._forget(now_s)
        behind: dict[GateId, list[HeldStream]] = {}
        for held in streams:
            held.throttled, held.limited_by = False, ""
            for name, rate in self.rates_of(held).items():
                self._at(name, rate, now_s)
                behind.setdefault(name, []).append(held)
        allowed: dict[StreamId, Allowance] = {}
        for name, members in behind.items():
            for held, part in zip(members, self._shared(name, members), strict=True):
                before = allowed.get(held.stream.id, NO_LIMIT)
                allowed[held.stream.id] = _narrower(before, part)
                if name.kind == "tenant" and _below(part, held):
                    held.throttled = True
                elif 0 in part:
                    held.limited_by = _SPOKEN.get(name.kind, "")
        return allowed

    def passed(self, held: HeldStream, piece: Slice, now_s: float) -> Payment:
        """A slice of a stream was started: it pays at all gates, if need be with a debt."""
        gates = [self._at(name, rate, now_s) for name, rate in self.rates_of(held).items()]
        bytes_ = piece.records * held.cost.bytes_per_record
        return Payment(tuple(gate.spend(piece.records, bytes_) for gate in gates), bytes_)

    def _forget(self, now_s: float) -> None:
        if now_s - self._swept_at_s >= KEPT_S:
            self._swept_at_s = now_s
            for name in [name for name, gate in self.gates.items() if gate.rests(now_s)]:
                del self.gates[name]

    def _at(self, name: GateId, rate: GateRate, now_s: float) -> Gate:
        gate = self.gates.get(name)
        if gate is None:
            gate = self.gates[name] = Gate.full(rate, now_s)
        gate.refill(now_s)
        if gate.rate != rate:
            gate.change(rate, now_s)
        return gate

    def _shared(self, name: GateId, members: Sequence[HeldStream]) -> list[Allowance]:
        gate = self.gates[name]
        lags = [held.lag_records for held in members]
        sizes = [
            max(1, round(lag * held.cost.bytes_per_record))
            for lag, held in zip(lags, members, strict=True)
        ]
        records = self._level(gate.records, lags)
        bytes_ = self._level(gate.bytes, sizes)
        return [Allowance(count, more) for count, more in zip(records, bytes_, strict=True)]

    def _level(self, bucket: TokenBucket | None, wanted: Sequence[int]) -> list[int | None]:
        if bucket is None:
            return [None] * len(wanted)
        tokens = min(max(0, int(bucket.tokens)), sum(wanted))
        return list(level(wanted, tokens, self._turn % len(wanted)))


def _full(rate_per_s: float | None, burst_s: float, now_s: float) -> TokenBucket | None:
    return None if rate_per_s is None else TokenBucket.full(rate_per_s, now_s, burst_s)


def _carried(old: TokenBucket | None, new: TokenBucket | None) -> TokenBucket | None:
    if old is None or new is None:
        return new
    return new.spend(max(0.0, new.tokens - old.tokens))


def _narrower(one: Allowance, other: Allowance) -> Allowance:
    return Allowance(_least(one.records, other.records), _least(one.bytes, other.bytes))


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _below(part: Allowance, held: HeldStream) -> bool:
    lag = held.lag_records
    few = part.records is not None and part.records < lag
    return few or (part.bytes is not None and part.bytes < lag * held.cost.bytes_per_record)
