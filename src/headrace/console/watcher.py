"""One look at the store for everybody who looks.

A hundred open pages must not mean a hundred times the work, and nobody looking must mean none. So
whoever wants to know asks the `Watcher`, which looks at most once a second and hands everybody the
same `StoreView`; what was changed through this door is looked at again at once. Reports of drivers
are read each time; tenants, streams, use cases and failures only when the store's revision moved,
and streams now and then besides, since who holds one changes without it. Where there is so much
that a look takes long, it is taken less often, and whoever comes meanwhile gets the one before.

Figures are a second or two old, and none is shown that is a minute old. Nothing exact is decided
here: who changes something reads the store first.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from headrace.console import rows
from headrace.console.rows import Values
from headrace.errors import HeadraceError
from headrace.model.records import Deployment, Failure
from headrace.model.statistics import Report, StreamFigures, UseCaseFigures
from headrace.model.streams import State, Stream, StreamId, Tenant
from headrace.operating.over import reruns_over
from headrace.ports import Clock, Store
from headrace.telemetry.alerts import AlertState, watch
from headrace.telemetry.conditions import condition
from headrace.telemetry.newest_reports import LastFigures, is_lost, newest

#: how long a look is good for, at least
FRESH_S = 1.0
#: the same, in times of what it took: so much of a core may go into looking
REST = 4.0
#: beyond that, how long it is good enough for who comes while somebody looks
PASSABLE_S = 5.0
#: how long it may take to be seen who holds a stream
HOLDERS_S = 5.0
#: figures that are older are not shown
FIGURES_FOR_S = 60.0


@dataclass(frozen=True)
class StoreView:
    """Everything as it was at one moment; rows are made when somebody asks for them."""

    at_s: float
    #: by name; removed ones too
    tenants: tuple[Tenant, ...]
    #: by tenant and use case; removed ones too
    streams: tuple[Stream, ...]
    deployments: tuple[Deployment, ...]
    reports: tuple[Report, ...]
    #: open ones, without their records
    failures: Sequence[Failure]
    watched: AlertState

    @cached_property
    def told(self) -> dict[StreamId, LastFigures]:
        """What was told of each stream last, however long ago."""
        return newest(self.reports)

    @cached_property
    def figures(self) -> dict[StreamId, StreamFigures]:
        """The same, if that is not too long ago."""
        first_s = self.at_s - FIGURES_FOR_S
        # What was told before a tenant was added again was told of an earlier one.
        added_s = {tenant.name: tenant.added_again_s or first_s for tenant in self.tenants}
        return {
            name: last.figures
            for name, last in self.told.items()
            if last.at_s >= max(first_s, added_s.get(name.tenant, first_s))
        }

    @cached_property
    def stops(self) -> dict[StreamId, list[Failure]]:
        """The open failures of each stream that has any."""
        found: dict[StreamId, list[Failure]] = defaultdict(list)
        for failure in self.failures:
            found[failure.slice.lane.stream].append(failure)
        return dict(found)

    @cached_property
    def tenant_of(self) -> dict[str, Tenant]:
        """Each tenant by name."""
        return {tenant.name: tenant for tenant in self.tenants}

    @cached_property
    def stream_of(self) -> dict[StreamId, Stream]:
        """Each stream by id."""
        return {stream.id: stream for stream in self.streams}

    @cached_property
    def states(self) -> dict[str, State]:
        """State of each tenant."""
        return {tenant.name: tenant.state for tenant in self.tenants}

    @cached_property
    def removed(self) -> frozenset[StreamId]:
        """Streams that were removed, by themselves or with their tenant."""
        return frozenset(
            stream.id for stream in self.streams if self.state_of(stream) is State.REMOVED
        )

    @cached_property
    def tenant_rows(self) -> dict[str, Values]:
        """A row for each tenant, by name; those that were removed too."""
        figures: dict[str, list[StreamFigures]] = defaultdict(list)
        streams_total: dict[str, int] = defaultdict(int)
        for stream in self.streams:
            if stream.state is State.REMOVED:
                continue
            streams_total[stream.id.tenant] += 1
            told = self.figures.get(stream.id)
            if told is not None:
                figures[stream.id.tenant].append(told)
        return {
            tenant.name: rows.tenant_row(tenant, figures[tenant.name], streams_total[tenant.name])
            for tenant in self.tenants
        }

    @cached_property
    def use_case_rows(self) -> dict[str, Values]:
        """A row for each use case, by name."""
        figures: dict[str, list[UseCaseFigures]] = defaultdict(list)
        for report in self.reports:
            if report.at_s >= self.at_s - FIGURES_FOR_S:
                for told in report.use_cases:
                    figures[told.use_case].append(told)
        return {
            deployment.use_case: rows.use_case_row(deployment, figures[deployment.use_case])
            for deployment in self.deployments
        }

    @cached_property
    def use_case_rows_in_use(self) -> dict[str, Values]:
        """The same without reruns that are over."""
        over = reruns_over(self.deployments, self.streams)
        return {name: row for name, row in self.use_case_rows.items() if name not in over}

    @cached_property
    def wave_rows(self) -> tuple[Values, ...]:
        """A row for each wave, newest first."""
        found = [
            rows.wave_row(report.driver, wave) for report in self.reports for wave in report.waves
        ]
        return tuple(
            sorted(found, key=lambda row: (row["started_at_s"], row["wave"]), reverse=True)
        )

    @cached_property
    def alert_rows(self) -> tuple[Values, ...]:
        """A row for each alert, as the policy orders them."""
        return tuple(rows.plain(alert) for alert in self.watched.alerts)

    @cached_property
    def summary(self) -> Values:
        """Everything together."""
        here = [stream for stream in self.streams if stream.state is not State.REMOVED]
        told = [self.figures[stream.id] for stream in here if stream.id in self.figures]
        return {
            "at_s": self.at_s,
            "drivers": [self._driver_row(report) for report in self.reports],
            "tenants_total": sum(state is not State.REMOVED for state in self.states.values()),
            "streams_total": len(here),
            "lag_records": sum(figures.lag_records for figures in told),
            "in_per_s": sum(figures.in_per_s for figures in told),
            "out_per_s": sum(figures.out_per_s for figures in told),
            "alerts_total": len(self.watched.alerts),
        }

    def stream_row(self, stream: Stream) -> Values:
        """A row for one stream."""
        name = stream.id
        # One that was added while this was looked at is not known yet.
        tenant = self.tenant_of.get(name.tenant, Tenant(name.tenant, State.REMOVED))
        stopped = self.stops.get(name, ())
        how = condition(stream, tenant, self.told.get(name), stopped, self.at_s)
        return rows.stream_row(stream, self.state_of(stream), how, self.figures.get(name))

    def state_of(self, stream: Stream) -> State:
        """What was decided: about the tenant if that is not active, else about the stream."""
        return _decided(stream, self.states)

    def _driver_row(self, report: Report) -> Values:
        lost = is_lost(report, self.reports, self.at_s, self.removed)
        return rows.driver_row(report, lost=lost)


class _Last(NamedTuple):
    """The last look, and for how long it is good."""

    snapshot: StoreView
    #: as ``Watcher._version`` was before it
    version: object
    until_s: float
    #: when streams have to be read again
    holders_until_s: float
    revision: int


class Watcher:
    """Looks at the store when somebody asks. Safe in several threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Take what to look at; contacts nobody yet."""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._last: _Last | None = None
        #: when a look failed last, and why
        self._failed: tuple[float, HeadraceError] | None = None
        #: another one after each change
        self._version = object()

    def view(self) -> StoreView:
        """How everything is, at most a second ago, and with every change made through this door.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        last = self._last
        if last is not None and self._is_good(last):
            return last.snapshot
        passable = last is not None and self._is_good(last, PASSABLE_S)
        came_s = self._clock.monotonic_s()
        if not self._lock.acquire(blocking=not passable):
            assert last is not None, "nothing is not passable"
            return last.snapshot
        try:
            last = self._last
            if last is None or not self._is_good(last):
                last = self._last = self._look_unless_failed(last, came_s)
        finally:
            self._lock.release()
        return last.snapshot

    def changed(self) -> StoreView:
        """Something was changed through this door: look again."""
        self._version = object()
        return self.view()

    def _is_good(self, last: _Last, beyond_s: float = 0.0) -> bool:
        is_fresh = self._clock.monotonic_s() < last.until_s + beyond_s
        return last.version is self._version and is_fresh

    def _look_unless_failed(self, before: _Last | None, came_s: float) -> _Last:
        """Who waited for a look that failed has waited for a store that hangs long enough."""
        if self._failed is not None and self._failed[0] > came_s:
            raise type(self._failed[1])(*self._failed[1].args)
        try:
            return self._look(before)
        except HeadraceError as error:
            self._failed = self._clock.monotonic_s(), error
            raise

    def _look(self, before: _Last | None) -> _Last:
        store, now_s = self._store, self._clock.now_s()
        # First of all: what changes after it is seen the next time.
        version, revision, began_s = self._version, store.revision(), self._clock.monotonic_s()
        moved = before is None or revision != before.revision
        if before is None or moved:
            tenants, deployments = (
                _by_name(store.registry.tenants()),
                tuple(store.registry.deployments()),
            )
            failures: Sequence[Failure] = store.failures.every(only_open=True, with_records=False)
        else:
            tenants, deployments = before.snapshot.tenants, before.snapshot.deployments
            failures = before.snapshot.failures
        if before is None or moved or began_s >= before.holders_until_s:
            streams, holders_until_s = _in_order(store.registry.streams()), began_s + HOLDERS_S
        else:
            streams, holders_until_s = before.snapshot.streams, before.holders_until_s
        reports = tuple(store.statistics.reports())
        of_tenants = {tenant.name: tenant.state for tenant in tenants}
        states = {stream.id: _decided(stream, of_tenants) for stream in streams}
        seen = before and before.snapshot.watched
        watched = watch(reports, failures, now_s, seen, states=states)
        snapshot = StoreView(now_s, tenants, streams, deployments, reports, failures, watched)
        ended_s = self._clock.monotonic_s()
        until_s = max(began_s + FRESH_S, ended_s + REST * (ended_s - began_s))
        return _Last(snapshot, version, until_s, holders_until_s, revision)


def _decided(stream: Stream, of_tenants: Mapping[str, State]) -> State:
    tenant = of_tenants.get(stream.id.tenant, State.REMOVED)
    return stream.state if tenant is State.ACTIVE else tenant


def _in_order(streams: Sequence[Stream]) -> tuple[Stream, ...]:
    return tuple(sorted(streams, key=lambda stream: (stream.id.tenant, stream.id.use_case)))


def _by_name(tenants: Sequence[Tenant]) -> tuple[Tenant, ...]:
    """As Python orders text, which is how cursors are compared."""
    return tuple(sorted(tenants, key=lambda tenant: tenant.name))
