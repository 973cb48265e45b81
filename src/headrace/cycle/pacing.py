"""The pace of each use case and of each kind of sink, when one of them is overloaded.

A database that is asked by eight tasks at once can be slower for all of them than if four had
asked. The planner cannot see that: it makes slices smaller and gives the use case its slots all the
same. So what came back is looked at once a second, for each use case and for all use cases that
write to the same kind of sink at one server (a database, a mail server), and where it is too much
`policies/backpressure.py` sets a pace. The streams behind it then share what the pace allows
(`gates.py`); every other use case goes on as before.

Nothing here decides; it counts, asks, and remembers the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from headrace.board import HeldStream
from headrace.cycle.gates import GateId, GateRate
from headrace.model.patterns import TENANT
from headrace.model.streams import StreamId
from headrace.policies.backpressure import LoadWindow, Pace, PaceBounds, PidGains, paced
from headrace.ports import WaveResult
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)

WINDOW_S = 1.0
_SAYS_NO = frozenset({"SinkUnavailable", "TenantsSinkSlow"})
#: a task's own overhead is no overrun
GRACE_S = 0.25
#: so many streams may be refused without anything being wrong with their common sink: a tenant's
#: own server that is down holds back its own lanes
FEW = 3
#: what the pace lets through at once after a quiet moment
BURST_S = 1.0


@dataclass(slots=True)
class _Count:
    """What came back in a window."""

    records: int = 0
    busy_s: float = 0.0
    target_s: float = 0.0
    overrun_s: float = 0.0
    waves: int = 0
    #: turns of the window, and waves in flight summed over them
    turns: int = 0
    in_flight: int = 0
    #: rows that the sink was given, and those that it did not take for now
    rows: int = 0
    rows_refused: int = 0
    refused: set[StreamId] = field(default_factory=set)
    accepted: set[StreamId] = field(default_factory=set)

    @property
    def refusals(self) -> int:
        """Streams that were refused, if that looks like the sink and not like some tenants."""
        few = len(self.refused) < FEW
        return 0 if few or len(self.refused) <= len(self.accepted) else len(self.refused)


@dataclass(slots=True)
class Pacing:
    """Counts waves by use case and sink, and holds the paces that are in force."""

    gains: PidGains = field(default_factory=PidGains)
    #: what an operator said of servers that sinks know by a name
    bounds: Mapping[str, PaceBounds] = field(default_factory=dict)
    #: names of connections that stand for a server of each tenant
    own_servers: Collection[str] = ()
    paces: dict[GateId, Pace] = field(default_factory=dict)
    _counts: dict[GateId, _Count] = field(default_factory=dict)
    _looked_at_s: float = float("-inf")

    def add(self, result: WaveResult, use_case: UseCase, *, known: bool) -> None:
        """Count a wave that came back.

        Only where the cost of its streams was ``known`` can it have overrun: a guess that was wrong
        is no overload.
        """
        if result.error is not None:
            return
        records = sum(receipt.records for receipt in result.receipts)
        # A worker that starts, or a call that hangs, is no overload.
        worked_s = sum(receipt.seconds for receipt in result.receipts if receipt.error is None)
        task_s = worked_s / max(1, len(result.wave.bins))
        for name in keys_of(use_case):
            count = self._counts.setdefault(name, _Count())
            count.records += records
            count.busy_s += task_s
            # A bin may be planned for longer than the budget, and is then no overload.
            planned_s = max(bin_.predicted_s for bin_ in result.wave.bins)
            target_s = max(result.wave.budget_s, planned_s) + GRACE_S
            count.target_s += target_s
            count.overrun_s += max(0.0, task_s - target_s) if known else 0.0
            count.waves += 1
            # A server of one tenant says nothing of those of others; its lanes wait by themselves.
            common = () if self._has_own_servers(use_case) else result.receipts
            for receipt in common:
                count.rows += receipt.offered
                count.rows_refused += receipt.refused
                said_no = receipt.error is not None and receipt.error.code in _SAYS_NO
                if said_no or receipt.records:
                    (count.refused if said_no else count.accepted).add(receipt.slice.lane.stream)

    def sample(self, running: Iterable[UseCase]) -> None:
        """Take note of the waves in flight in this turn."""
        for count in self._counts.values():
            count.turns += 1
        for use_case in running:
            for name in keys_of(use_case):
                count = self._counts.setdefault(name, _Count(turns=1))
                count.in_flight += 1

    def poll(
        self, streams: Iterable[HeldStream], use_cases: Mapping[str, UseCase], now_s: float
    ) -> None:
        """Set the paces anew, once a second."""
        seconds = now_s - self._looked_at_s
        if seconds < WINDOW_S:
            return
        self._looked_at_s = now_s
        counts, self._counts = self._counts, {}
        concerned = {*counts, *self.paces}
        if not concerned or seconds == float("inf"):
            return
        waiting = dict.fromkeys(concerned, 0)
        for held in streams:
            for name in keys_of(use_cases[held.stream.id.use_case]):
                if name in waiting:
                    waiting[name] += held.lag_records
        known = {
            name: self._bounds(use_case, name)
            for use_case in use_cases.values()
            for name in keys_of(use_case)
        }
        for name in concerned:
            window = _window(counts.get(name, _Count()), seconds, waiting[name])
            bounds = known.get(name, PaceBounds())
            before = self.paces.get(name, bounds.first())
            self._set(name, paced(before, bounds.gains(self.gains), window))
        self._forget(use_cases.values())

    def rates(self, use_case: UseCase) -> dict[GateId, GateRate]:
        """The gates that its streams stand behind now."""
        found: dict[GateId, GateRate] = {}
        for name in keys_of(use_case):
            bounds = self._bounds(use_case, name)
            rate_per_s = bounds.held(self.paces.get(name, bounds.first()).rate_per_s)
            if rate_per_s is not None:
                found[name] = GateRate(rate_per_s, None, BURST_S)
        return found

    def in_force(self, use_cases: Iterable[UseCase]) -> dict[str, float]:
        """Records a second that use cases are held to, their own or their sink's; if they are."""
        rates = {use_case.name: self.rates(use_case).values() for use_case in use_cases}
        return {
            name: min(rate.records_per_s or 0.0 for rate in found)
            for name, found in rates.items()
            if found
        }

    def _has_own_servers(self, use_case: UseCase) -> bool:
        at = use_case.of_sink.server
        return TENANT in at or at in self.own_servers

    def _bounds(self, use_case: UseCase, name: GateId) -> PaceBounds:
        """What was said of the server behind a gate; a use case's own gate has none."""
        if name.kind != "sink":
            return PaceBounds()
        return self.bounds.get(use_case.of_sink.server, PaceBounds())

    def _forget(self, use_cases: Iterable[UseCase]) -> None:
        """Keep no pace that none of these use cases keeps, once it is lifted."""
        kept = {name for use_case in use_cases for name in keys_of(use_case)}
        for name, pace in list(self.paces.items()):
            if name not in kept and pace.rate_per_s is None:
                del self.paces[name]

    def _set(self, name: GateId, pace: Pace) -> None:
        before = self.paces.get(name, Pace())
        if (before.rate_per_s is None) != (pace.rate_per_s is None):
            log.warning("pace set", gate=f"{name.kind} {name.name}", rate_per_s=pace.rate_per_s)
        self.paces[name] = pace


def keys_of(use_case: UseCase) -> tuple[GateId, ...]:
    """Whose paces a use case keeps: its own, and that of its kind of sink at its server."""
    own = GateId("use case", use_case.name)
    if use_case.sink is None:
        return (own,)
    kind, server = type(use_case.sink).__name__, use_case.of_sink.server
    return own, GateId("sink", f"{kind} at {server}" if server else kind)


def _window(count: _Count, seconds: float, waiting_records: int) -> LoadWindow:
    waves = max(1, count.waves)
    return LoadWindow(
        seconds=seconds,
        records=count.records,
        busy_s=count.busy_s,
        slots_used=max(1.0, count.in_flight / max(1, count.turns)),
        target_s=count.target_s / waves,
        overrun_s=count.overrun_s / waves,
        refused=count.refusals,
        waiting_records=waiting_records,
        refused_share=count.rows_refused / count.rows if count.rows else 0.0,
    )
