"""When a person should be told, and in which words.

Thresholds on a single look cry wolf: a stream that committed nothing for a second is no news. So
each look is compared with what earlier looks saw, which the caller keeps between two calls and this
module alone reads (``AlertState``). An alert lasts as long as its reason, and keeps the time it
began at, so that it can be shown as one thing and not as a new one every second.

Nobody is paged from here; the rules for Prometheus say the same in its own language.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from headrace.model.places import Place
from headrace.model.records import Failure
from headrace.model.statistics import Alert, AlertKind, Report, Severity, ShownState, StreamFigures
from headrace.model.streams import State, StreamId
from headrace.telemetry.newest_reports import LastFigures, is_lost, newest

#: lag without any commit for so long is a stall
STALLED_AFTER_S = 60.0
#: lags are compared so often at most: what rises and falls within seconds is no trend
LOOK_EVERY_S = 10.0
#: a lag that was higher at each of so many looks than at the one before is growing
RISING_LOOKS = 3
#: a stream may be so late before a growing lag is worth a word
TARGET_S = 30.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a stream."""

    #: of its lanes
    position: tuple[Place, ...]
    #: when it was last seen to move, or to have nothing to do
    moved_at_s: float
    #: when its lag was last compared
    looked_at_s: float
    lag_s: float
    #: looks in a row at which the lag had risen
    rises: int = 0
    #: when the lag began to rise
    rising_since_s: float = 0.0
    #: since when its topic is not as it should be; None: it is
    troubled_since_s: float | None = None


@dataclass(frozen=True, slots=True)
class AlertState:
    """The alerts of a look, and what the next look needs to remember."""

    alerts: tuple[Alert, ...] = ()
    _streams: Mapping[StreamId, _Seen] = field(default_factory=lambda: MappingProxyType({}))


_NOTHING_DECIDED: Mapping[StreamId, State] = MappingProxyType({})


def watch(
    reports: Collection[Report],
    failures_open: Iterable[Failure],
    now_s: float,
    before: AlertState | None = None,
    *,
    states: Mapping[StreamId, State] = _NOTHING_DECIDED,
    target_s: float = TARGET_S,
) -> AlertState:
    """Look once; ``before`` is what the last look returned.

    Args:
        reports: the latest of each driver.
        failures_open: failures that wait for a decision.
        now_s: seconds since 1970.
        before: None at the first look; stalls and growth need a minute of looks to be seen.
        states: what was decided about streams; a silent driver does not tell. Others are active.
        target_s: how late a stream may be before its growing lag is told.

    Returns:
        The alerts in order of severity (critical first), kind, tenant and use case.
    """
    known = before._streams if before is not None else {}
    removed = {name for name, state in states.items() if state is State.REMOVED}
    told = {
        name: last
        for name, last in newest(reports).items()
        if states.get(name, State.ACTIVE) is State.ACTIVE
    }
    seen = {name: _looked(last, known.get(name)) for name, last in told.items()}
    troubled = {
        name: _troubled_since_s(last, known.get(name))
        for name, last in told.items()
        if last.figures.topic_trouble
    }
    seen |= {
        name: replace(seen[name], troubled_since_s=since_s) for name, since_s in troubled.items()
    }
    found = [
        *_lost(reports, now_s, removed),
        *_quarantined(
            failure for failure in failures_open if failure.slice.lane.stream not in removed
        ),
        *(
            late
            for name, (_, figures) in told.items()
            for late in _late(figures, seen[name], target_s)
        ),
        *(_troubled(told[name].figures, since_s) for name, since_s in troubled.items()),
    ]
    found.sort(key=_place)
    return AlertState(tuple(found), MappingProxyType(seen))


def _looked(told: LastFigures, before: _Seen | None) -> _Seen:
    # In the time of who tells it: of a driver that is silent nothing more is known.
    now_s, figures = told
    position = tuple(lane.position for lane in figures.lanes)
    if before is None or now_s < before.looked_at_s:  # clocks are set back: it begins anew
        return _Seen(position, now_s, now_s, figures.lag_s)
    rests = figures.lag_records == 0 or figures.state != ShownState.ACTIVE
    moved_at_s = now_s if rests or position != before.position else before.moved_at_s
    if now_s - before.looked_at_s < LOOK_EVERY_S:
        kept = (before.looked_at_s, before.lag_s, before.rises, before.rising_since_s)
        return _Seen(position, moved_at_s, *kept)
    rises = (
        before.rises + 1
        if figures.lag_s > before.lag_s and figures.state == ShownState.ACTIVE
        else 0
    )
    since_s = before.rising_since_s if before.rises else before.looked_at_s
    return _Seen(position, moved_at_s, now_s, figures.lag_s, rises, since_s)


def _troubled_since_s(told: LastFigures, before: _Seen | None) -> float:
    since_s = None if before is None else before.troubled_since_s
    return told.at_s if since_s is None else since_s


def _troubled(figures: StreamFigures, since_s: float) -> Alert:
    kind, severity = AlertKind.TOPIC_TROUBLE, Severity.WARNING
    use_case, tenant = figures.stream
    text = f"{figures.stream}: {figures.topic_trouble}"
    return Alert(kind, severity, tenant, use_case, None, since_s, text)


def _late(figures: StreamFigures, seen: _Seen, target_s: float) -> Iterator[Alert]:
    use_case, tenant = figures.stream
    still_s = seen.looked_at_s - seen.moved_at_s
    if still_s >= STALLED_AFTER_S:
        text = (
            f"{figures.stream} has {figures.lag_records} records to do and committed none for "
            f"{still_s:.0f} s"
        )
        why = f": {figures.note}" if figures.note else "; see its wave and the driver's log"
        yield Alert(
            AlertKind.STALLED,
            Severity.CRITICAL,
            tenant,
            use_case,
            None,
            seen.moved_at_s,
            text + why,
        )
    elif seen.rises >= RISING_LOOKS and figures.lag_s > target_s:
        text = (
            f"{figures.stream} is {figures.lag_s:.0f} s late and getting later: "
            f"{figures.in_per_s:.0f} records/s come in, {figures.out_per_s:.0f}/s are done; "
            "give it a higher weight, more slots or a quicker handler"
        )
        kind, severity = AlertKind.LAG_GROWING, Severity.WARNING
        yield Alert(kind, severity, tenant, use_case, None, seen.rising_since_s, text)


def _quarantined(failures: Iterable[Failure]) -> Iterator[Alert]:
    by_stream: dict[StreamId, list[Failure]] = defaultdict(list)
    for failure in failures:
        by_stream[failure.slice.lane.stream].append(failure)
    for name, found in by_stream.items():
        first = min(found, key=lambda failure: failure.at_s)
        lanes = "1 lane stands" if len(found) == 1 else f"{len(found)} lanes stand"
        text = (
            f"{name}: {lanes} still at a failure ({first.error.code}); look at it, then retry or "
            "skip it"
        )
        kind, severity = AlertKind.QUARANTINED, Severity.WARNING
        yield Alert(kind, severity, name.tenant, name.use_case, None, first.at_s, text)


def _lost(
    reports: Collection[Report], now_s: float, removed: Container[StreamId]
) -> Iterator[Alert]:
    for report in reports:
        if is_lost(report, reports, now_s, removed):
            text = (
                f"driver {report.driver} is silent since {now_s - report.at_s:.0f} s and holds "
                f"{len(report.streams)} streams; start it, or another driver, on this store"
            )
            kind, severity = AlertKind.DRIVER_LOST, Severity.CRITICAL
            yield Alert(kind, severity, None, None, report.driver, report.at_s, text)


_SEVERITIES: Sequence[Severity] = (Severity.CRITICAL, Severity.WARNING)


def _place(alert: Alert) -> tuple[int, str, str, str, str]:
    names = (alert.kind.value, alert.tenant or "", alert.use_case or "", alert.driver or "")
    return (_SEVERITIES.index(alert.severity), *names)
