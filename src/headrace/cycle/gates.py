"""How much each stream may take now, when something limits it.

Three things can: the tenant's throttle, the rate per lane that a use case is held to, and the pace
that backpressure sets for a use case and for a sink. Each is a *gate*: a bucket of tokens that the
streams behind it share. A stream may take what the narrowest of its gates leaves it.

Tokens are shared evenly by need (max-min): who wants little gets it whole. With fewer tokens than
streams, some get one each and the others the next time, in turn. A gate whose streams want less
than it holds limits nobody, and streams behind no gate cost nothing here.

Tokens are taken when a slice starts. What a slice did not use, because it yielded early, is given
back when its receipt comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cycle.board import NO_LIMIT, Allowance, HeldStream
from headrace.model.receipts import Receipt
from headrace.model.streams import Slice, StreamId
from headrace.planning.demand import level
from headrace.policies.throttle import Bucket


class GateId(NamedTuple):
    """Whose gate it is, such as ``("tenant", "acme")``."""

    kind: str
    name: str


class Rate(NamedTuple):
    """What a gate lets through."""

    records_per_s: float | None
    bytes_per_s: float | None
    burst_s: float


def own_rates(held: HeldStream) -> dict[GateId, Rate]:
    """The gates that a stream brings with it: its tenant's throttle, and the rate of its lanes."""
    rates: dict[GateId, Rate] = {}
    throttle = held.tenant.throttle
    if throttle.records_per_s is not None or throttle.bytes_per_s is not None:
        rates[GateId("tenant", held.tenant.name)] = Rate(
            throttle.records_per_s, throttle.bytes_per_s, throttle.burst_s
        )
    per_lane = held.deployment.max_rate_per_lane
    if per_lane is not None:
        rate_per_s = per_lane * max(1, len(held.lanes))
        rates[GateId("stream", str(held.stream.id))] = Rate(rate_per_s, None, 1.0)
    return rates


@dataclass(slots=True)
class Gate:
    """The tokens that the streams behind it share; None is no limit."""

    rate: Rate
    records: Bucket | None
    bytes: Bucket | None

    @classmethod
    def full(cls, rate: Rate, now_s: float) -> Gate:
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

    def spend(self, records: float, bytes_: float) -> None:
        """Take tokens, or give them back where negative."""
        self.records = self.records.spend(records) if self.records else None
        self.bytes = self.bytes.spend(bytes_) if self.bytes else None


#: the gates a stream stands behind, with the rate of each now
RatesOf = Callable[[HeldStream], Mapping[GateId, Rate]]


@dataclass(slots=True)
class Gates:
    """All gates that are in force."""

    rates_of: RatesOf
    gates: dict[GateId, Gate] = field(default_factory=dict)
    _turn: int = 0

    def allowances(self, streams: Sequence[HeldStream], now_s: float) -> dict[StreamId, Allowance]:
        """What each of these runnable streams may take now; those without a limit are left out."""
        self._turn += 1
        behind: dict[GateId, list[HeldStream]] = {}
        for held in streams:
            held.throttled = False
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
        return allowed

    def passed(self, held: HeldStream, slices: Iterable[Slice]) -> None:
        """Slices of a stream were started."""
        records = sum(each.size for each in slices)
        self._spend(held, records)

    def returned(self, held: HeldStream, receipt: Receipt) -> None:
        """A slice came back; what it left undone was not taken after all."""
        self._spend(held, -(receipt.slice.until_offset - receipt.reached))

    def _at(self, name: GateId, rate: Rate, now_s: float) -> None:
        gate = self.gates.get(name)
        if gate is None or gate.rate.burst_s != rate.burst_s:
            gate = self.gates[name] = Gate.full(rate, now_s)
        if gate.rate != rate:
            # A new rate keeps what is owed: changing it often must not give a burst each time.
            fresh = Gate.full(rate, now_s)
            fresh.records = _carried(gate.records, fresh.records)
            fresh.bytes = _carried(gate.bytes, fresh.bytes)
            gate = self.gates[name] = fresh
        gate.refill(now_s)

    def _shared(self, name: GateId, members: Sequence[HeldStream]) -> list[Allowance]:
        gate = self.gates[name]
        lags = [held.lag_records for held in members]
        sizes = [
            max(1, round(lag * held.cost.bytes_per_record))
            for lag, held in zip(lags, members, strict=True)
        ]
        records = self._level(gate.records, lags)
        bytes_ = self._level(gate.bytes, sizes)
        return [Allowance(each, more) for each, more in zip(records, bytes_, strict=True)]

    def _level(self, bucket: Bucket | None, wanted: Sequence[int]) -> list[int | None]:
        if bucket is None:
            return [None] * len(wanted)
        tokens = min(max(0, int(bucket.tokens)), sum(wanted))
        return list(level(wanted, tokens, self._turn % len(wanted)))

    def _spend(self, held: HeldStream, records: int) -> None:
        for name in self.rates_of(held):
            gate = self.gates.get(name)
            if gate is not None:
                gate.spend(records, records * held.cost.bytes_per_record)


def _full(rate_per_s: float | None, burst_s: float, now_s: float) -> Bucket | None:
    return None if rate_per_s is None else Bucket.full(rate_per_s, now_s, burst_s)


def _carried(old: Bucket | None, new: Bucket | None) -> Bucket | None:
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
