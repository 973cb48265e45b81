"""What Prometheus is told: drivers' reports, in its own format, when it asks.

Each driver is a process of its own, and a fleet of them comes and goes; whoever scraped them all
would have to find them first. But what they tell is in the store already. So one page shows all of
it, read when it is scraped, at most once a second however many ask.

Thousands of tenants make hundreds of thousands of series, and a Prometheus that falls over shows
nothing at all. So only so many tenants have series of their own, those that were seen first; the
others are summed up under the name ``_other``.

Not here: what the metrics mean (``metric_list.py``), and who may read them.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.console.metric_list import COUNTER, METRICS
from headrace.errors import StoreUnavailable, StoreUnusable
from headrace.model.buckets import whole_lane
from headrace.model.lane_names import taken_apart
from headrace.model.places import UNKNOWN, Place, text_of
from headrace.model.statistics import (
    LagIs,
    LaneFigures,
    Report,
    ShownState,
    Spread,
    StreamFigures,
    UseCaseFigures,
)
from headrace.model.streams import StreamId
from headrace.ports import Statistics
from headrace.telemetry.newest_reports import is_lost, newest

CONTENT_TYPE = CONTENT_TYPE_LATEST
#: tenants with series of their own
MOST_TENANTS = 2_000
#: the name that all others share; no tenant can have it
OTHER = "_other"
_CACHED_S = 1.0

_Family = GaugeMetricFamily | CounterMetricFamily


class Metrics:
    """The page that Prometheus scrapes. Safe in several threads."""

    def __init__(
        self,
        statistics: Statistics,
        *,
        group_prefix: str = "headrace.",
        most_tenants: int = MOST_TENANTS,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Read from ``statistics``; groups are named as the mirror of positions names them."""
        self._collector = _Drivers(statistics, group_prefix, most_tenants, now_s)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)
        self._now_s = now_s
        self._lock = threading.Lock()
        self._page: tuple[float, bytes] = (float("-inf"), b"")

    def exposition(self) -> bytes:
        """The page, in the text format; at most a second old. Its type is ``CONTENT_TYPE``."""
        with self._lock:
            if abs(self._now_s() - self._page[0]) >= _CACHED_S:
                self._page = (self._now_s(), generate_latest(self._registry))
            return self._page[1]


class _Samples:
    """The families of one scrape."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        for metric in METRICS:
            make = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            text = f"{metric.meaning} Unit: {metric.unit}."
            self._families[metric.name] = make(metric.name, text, labels=metric.labels)

    def add(self, name: str, value: float, *labels: str) -> None:
        """A sample, with its labels in the order of the declaration."""
        self._families[name].add_metric(labels, value)

    def add_spread(self, name: str, spread: Spread, *labels: str, edges: bool = True) -> None:
        """A sample for each quantile that is known; with the smallest and largest if wanted."""
        told = {"0.5": spread.p50_s, "0.95": spread.p95_s, "0.99": spread.p99_s}
        if edges:
            told |= {"0": spread.min_s, "1": spread.max_s}
        for quantile, value_s in told.items():
            if value_s is not None:
                self.add(name, value_s, *labels, quantile)

    def families(self) -> Iterator[Metric]:
        """Those that have samples."""
        return (family for family in self._families.values() if family.samples)


@dataclass(slots=True)
class _Rest:
    """What streams of tenants beyond the cap come to together, of one use case."""

    lag_records: int = 0
    lag_s: float = 0.0
    in_per_s: float = 0.0
    task_share: float = 0.0
    throttled: int = 0
    stopped: int = 0
    troubled: int = 0
    active: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None

    def add(self, figures: StreamFigures) -> None:
        self.lag_records += figures.lag_records
        self.lag_s = max(self.lag_s, figures.lag_s)
        self.in_per_s += figures.in_per_s
        self.task_share += figures.task_share
        self.throttled += figures.throttled
        self.stopped += _stopped(figures)
        self.troubled += bool(figures.topic_trouble)
        self.active += figures.state == ShownState.ACTIVE
        self.p50_s = _larger(self.p50_s, figures.delay.p50_s)
        self.p95_s = _larger(self.p95_s, figures.delay.p95_s)
        self.p99_s = _larger(self.p99_s, figures.delay.p99_s)


@dataclass(slots=True)
class _Sum:
    """Counters of many streams as one that never falls, whichever of them begin at 0 again."""

    total: float = 0.0
    _last: dict[StreamId, int] = field(default_factory=dict)

    def add(self, stream: StreamId, value: int) -> None:
        before = self._last.get(stream, 0)
        self.total += value - before if value >= before else value
        self._last[stream] = value


class _Drivers(Collector):
    """Makes samples of reports; called by the registry, one scrape at a time."""

    def __init__(
        self,
        statistics: Statistics,
        group_prefix: str,
        most_tenants: int,
        now_s: Callable[[], float],
    ) -> None:
        self._statistics, self._prefix = statistics, group_prefix
        self._most_tenants, self._now_s = most_tenants, now_s
        #: tenants with series of their own: who is in stays in, or series would come and go
        self._own: dict[str, None] = {}
        #: by metric and use case
        self._sums: defaultdict[tuple[str, str], _Sum] = defaultdict(_Sum)

    def collect(self) -> Iterable[Metric]:
        """The samples of this moment."""
        samples = _Samples()
        try:
            reports = self._statistics.reports()
        except (StoreUnavailable, StoreUnusable):
            samples.add("headrace_statistics_up", 0)
            return samples.families()
        samples.add("headrace_statistics_up", 1)
        told = {name: last.figures for name, last in newest(reports).items()}
        self._choose({name.tenant for name in told}, samples)
        self._streams(told, samples)
        self._groups(told.values(), samples)
        for report in reports:
            _driver(report, reports, self._now_s(), samples)
            for figures in report.use_cases:
                _use_case(report.driver, figures, samples)
        return samples.families()

    def _choose(self, tenants: set[str], samples: _Samples) -> None:
        for gone in self._own.keys() - tenants:
            del self._own[gone]
        for name in sorted(tenants - self._own.keys())[: self._most_tenants - len(self._own)]:
            self._own[name] = None
        samples.add("headrace_tenants", len(tenants))
        samples.add("headrace_tenants_summed", len(tenants) - len(self._own))

    def _streams(self, told: Mapping[StreamId, StreamFigures], samples: _Samples) -> None:
        rest: defaultdict[str, _Rest] = defaultdict(_Rest)
        #: two use cases may read one topic, and a series is shown once
        ends: dict[tuple[str, str], Place] = {}
        for name, figures in sorted(told.items()):
            if name.tenant in self._own:
                _stream(figures, samples)
                lanes = _undivided(figures.lanes)
                _lanes(figures, lanes, self._prefix + name.use_case, samples)
                for lane in lanes:
                    place = _place(figures, lane)
                    ends[place] = max(lane.end, ends.get(place, UNKNOWN))
            else:
                rest[name.use_case].add(figures)
                for metric, value in _counters(figures):
                    self._sums[metric, name.use_case].add(name, value)
        for place, end in ends.items():
            if end > UNKNOWN:
                samples.add("kafka_topic_partition_current_offset", float(text_of(end)), *place)
        for use_case, found in rest.items():
            _other(use_case, found, samples)
        for (metric, use_case), total in self._sums.items():
            samples.add(metric, total.total, OTHER, use_case)

    def _groups(self, told: Iterable[StreamFigures], samples: _Samples) -> None:
        by_group: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for figures in told:
            by_group[self._prefix + figures.stream.use_case] += [
                (lane.lag_records, lane.lag_s)
                for lane in _undivided(figures.lanes)
                if lane.lag_is is LagIs.EXACT or lane.end > UNKNOWN
            ]
        for group, lags in by_group.items():
            most, most_s = (
                max((lag for lag, _ in lags), default=0),
                max((s for _, s in lags), default=0.0),
            )
            samples.add("kafka_consumergroup_group_max_lag", most, group)
            samples.add("kafka_consumergroup_group_max_lag_seconds", most_s, group)
            samples.add("kafka_consumergroup_group_sum_lag", sum(lag for lag, _ in lags), group)


def _stream(figures: StreamFigures, samples: _Samples) -> None:
    labels = (figures.stream.tenant, figures.stream.use_case)
    if figures.lag_is is not LagIs.UNKNOWN:
        samples.add("headrace_stream_lag_records", figures.lag_records, *labels)
    samples.add("headrace_stream_lag_seconds", figures.lag_s, *labels)
    samples.add("headrace_stream_incoming_records_per_second", figures.in_per_s, *labels)
    samples.add_spread("headrace_stream_delay_seconds", figures.delay, *labels, edges=False)
    samples.add("headrace_stream_task_share", figures.task_share, *labels)
    samples.add("headrace_stream_throttled", figures.throttled, *labels)
    samples.add("headrace_stream_stopped_lanes", _stopped(figures), *labels)
    samples.add("headrace_stream_topic_trouble", bool(figures.topic_trouble), *labels)
    samples.add("headrace_stream_active", figures.state == ShownState.ACTIVE, *labels)
    for name, value in _counters(figures):
        samples.add(name, value, *labels)


def _other(use_case: str, rest: _Rest, samples: _Samples) -> None:
    labels = (OTHER, use_case)
    delay = Spread(0, None, rest.p50_s, rest.p95_s, rest.p99_s, None)
    samples.add("headrace_stream_lag_records", rest.lag_records, *labels)
    samples.add("headrace_stream_lag_seconds", rest.lag_s, *labels)
    samples.add("headrace_stream_incoming_records_per_second", rest.in_per_s, *labels)
    samples.add_spread("headrace_stream_delay_seconds", delay, *labels, edges=False)
    samples.add("headrace_stream_task_share", rest.task_share, *labels)
    samples.add("headrace_stream_throttled", rest.throttled, *labels)
    samples.add("headrace_stream_stopped_lanes", rest.stopped, *labels)
    samples.add("headrace_stream_topic_trouble", rest.troubled, *labels)
    samples.add("headrace_stream_active", rest.active, *labels)


def _counters(figures: StreamFigures) -> Iterator[tuple[str, int]]:
    yield "headrace_stream_records_total", figures.records_total
    yield "headrace_stream_dead_letters_total", figures.dead_letters_total
    yield "headrace_stream_lost_records_total", figures.lost_records_total
    yield "headrace_stream_passed_over_records_total", figures.passed_over_records_total


def _place(figures: StreamFigures, lane: LaneFigures) -> tuple[str, str]:
    """Topic and partition, as other tools name them; a log without numbers has its own names."""
    found = taken_apart(lane.name)
    return (found.topic, str(found.number)) if found else (figures.topic, lane.name)


def _undivided(lanes: Collection[LaneFigures]) -> list[LaneFigures]:
    """Lanes of the log: other tools know nothing of buckets, and are told of the least of them.

    A lag is then what any tool reckons from that position, and so more than what waits.
    """
    found: dict[str, list[LaneFigures]] = {}
    for lane in lanes:
        found.setdefault(whole_lane(lane.name), []).append(lane)
    return [of[0] if len(of) == 1 else _together(name, of) for name, of in found.items()]


def _together(name: str, lanes: Collection[LaneFigures]) -> LaneFigures:
    least = min(lanes, key=lambda lane: lane.position)
    end = max(lane.end for lane in lanes)
    lag = sum(lane.lag_records for lane in lanes)
    if end > UNKNOWN:
        lag = max(0, int(text_of(end)) - int(text_of(least.position)))
    late_s = max(lane.lag_s for lane in lanes)
    return replace(least, name=name, end=end, lag_s=late_s, lag_records=lag)


def _lanes(
    figures: StreamFigures, lanes: Iterable[LaneFigures], group: str, samples: _Samples
) -> None:
    for lane in lanes:
        place = _place(figures, lane)
        at = float(text_of(lane.position))
        samples.add("kafka_consumergroup_current_offset", at, group, *place)
        if lane.end == UNKNOWN:
            continue  # nobody told, or only reading tells: a guess is no number for other tools
        lag = lane.lag_records
        samples.add("kafka_consumergroup_lag", lag, group, *place)
        samples.add("kafka_consumergroup_group_lag", lag, group, *place)
        samples.add("kafka_consumergroup_group_lag_seconds", lane.lag_s, group, *place)


def _driver(report: Report, reports: list[Report], now_s: float, samples: _Samples) -> None:
    name = report.driver
    samples.add("headrace_driver_up", not is_lost(report, reports, now_s), name)
    samples.add("headrace_driver_report_age_seconds", max(0.0, now_s - report.at_s), name)
    samples.add("headrace_driver_start_time_seconds", report.started_at_s, name)
    samples.add("headrace_driver_streams", len(report.streams), name)
    samples.add("headrace_driver_slots", report.slots, name)
    samples.add("headrace_driver_slots_target", report.slots_target, name)
    samples.add("headrace_driver_slots_busy", report.slots_busy, name)
    samples.add("headrace_driver_executors", report.executors, name)


def _use_case(driver: str, figures: UseCaseFigures, samples: _Samples) -> None:
    labels = (driver, figures.use_case)
    samples.add("headrace_use_case_waves_total", figures.waves_total, *labels)
    samples.add_spread("headrace_use_case_processing_seconds", figures.processing, *labels)
    samples.add_spread("headrace_use_case_scheduling_seconds", figures.scheduling, *labels)
    samples.add_spread("headrace_use_case_delay_seconds", figures.delay, *labels)
    samples.add("headrace_use_case_records_per_second", figures.records_per_s, *labels)
    samples.add("headrace_use_case_incoming_bytes_per_second", figures.bytes_in_per_s, *labels)
    if figures.pace_per_s is not None:
        samples.add("headrace_use_case_pace_records_per_second", figures.pace_per_s, *labels)
    if figures.state_hits_total or figures.state_misses_total:
        samples.add("headrace_use_case_state_hits_total", figures.state_hits_total, *labels)
        samples.add("headrace_use_case_state_misses_total", figures.state_misses_total, *labels)


def _stopped(figures: StreamFigures) -> int:
    return sum(lane.failure is not None for lane in figures.lanes)


def _larger(one: float | None, other: float | None) -> float | None:
    return max((seconds for seconds in (one, other) if seconds is not None), default=None)
