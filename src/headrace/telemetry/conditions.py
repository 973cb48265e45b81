"""What a stream does now and why, for whoever has the store and no driver.

What was decided about a stream is in the store. Whether it is done, only the driver knows that
holds it: the topic may be missing, lanes may have stopped, it may wait after trouble. The driver
tells so every other second (`model/statistics.py`). Here both become one word and one sentence. The
store wins where they differ: what was decided a moment ago, the driver tells a moment later.

Nothing here reads a clock or a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.records import Failure
from headrace.model.statistics import ShownState, StreamFigures
from headrace.model.streams import State, Stream, Tenant, Throttle
from headrace.telemetry.newest_reports import LOST_AFTER_S, LastFigures

#: what a driver says of streams that somebody has decided about
_DECIDED = (ShownState.SUSPENDED, ShownState.REMOVED)


@dataclass(frozen=True, slots=True)
class Condition:
    """How a stream stands."""

    #: a ``ShownState``, or "suspended 1/4"
    state: str
    #: why, in one line; empty: all is well
    reason: str
    #: when it is tried again, if it is "retrying" and waits
    retry_at_s: float | None = None


def condition(
    stream: Stream,
    tenant: Tenant,
    told: LastFigures | None,
    stopped: Sequence[Failure],
    now_s: float,
    starting: str | None = None,
) -> Condition:
    """How a stream stands now.

    Args:
        stream: as the store knows it.
        tenant: its tenant.
        told: the newest word of any driver about it.
        stopped: its open failures, each of which stops a lane.
        now_s: seconds since 1970.
        starting: that a driver starts just now, in words; None: nothing is known of one.
    """
    if State.REMOVED in {tenant.state, stream.state}:
        return Condition(ShownState.REMOVED, stream.reason or "")
    if State.SUSPENDED in {tenant.state, stream.state}:
        return Condition(ShownState.SUSPENDED, _joined(_who_suspended(stream, tenant), stopped))
    if told is not None and now_s - told.at_s <= LOST_AFTER_S:
        return _as_told(tenant, told.figures, stopped)
    if stream.holder is None:
        return Condition(ShownState.NOT_HELD, _joined(_not_held(stream, starting), stopped))
    why = f"{_silent(stream.holder, told, now_s)}; {starting or 'see that it runs'}"
    return Condition(ShownState.UNKNOWN, _joined(why, stopped))


def _who_suspended(stream: Stream, tenant: Tenant) -> str:
    own = stream.reason or "somebody suspended it"
    if tenant.state is not State.SUSPENDED:
        return own
    also = f"; the stream itself too: {own}" if stream.state is State.SUSPENDED else ""
    return f"its tenant is suspended, see 'headrace tenants resume {tenant.name}'{also}"


def _not_held(stream: Stream, starting: str | None) -> str:
    if starting is not None:
        return f"no driver holds it yet; {starting}"
    return (
        f"no driver holds it; start one that runs the use case {stream.id.use_case}, with "
        "'headrace up' or 'headrace run'"
    )


def _silent(holder: str, told: LastFigures | None, now_s: float) -> str:
    if told is None:
        return f"driver {holder} holds it and has told nothing of it"
    note = f": {told.figures.note}" if told.figures.note else ""
    return (
        f"driver {holder} holds it, and the last word about it is {now_s - told.at_s:.0f} s old "
        f"({told.figures.state}{note})"
    )


def _as_told(tenant: Tenant, figures: StreamFigures, stopped: Sequence[Failure]) -> Condition:
    decided = ShownState.of(figures.state) in _DECIDED
    if decided and not stopped:
        return Condition(ShownState.ACTIVE, "")  # it was resumed or retried since
    if decided:
        return Condition(figures.state, _joined("", stopped))
    note = figures.note
    if figures.state == ShownState.THROTTLED and not note:
        note = _limit(tenant.throttle)
    return Condition(figures.state, _joined(note, stopped), figures.retry_at_s)


def _limit(throttle: Throttle) -> str:
    limits = ((throttle.records_per_s, "records"), (throttle.bytes_per_s, "bytes"))
    shown = [
        f"{limit:g} {unit if limit != 1 else unit.removesuffix('s')} a second"
        for limit, unit in limits
        if limit is not None
    ]
    if not shown:
        return "a limit on its rate holds it back"
    return f"its tenant may read {' and '.join(shown)}"


def _joined(why: str, stopped: Sequence[Failure]) -> str:
    if not stopped:
        return why
    first = min(stopped, key=lambda failure: failure.at_s).error
    lanes = "1 lane" if len(stopped) == 1 else f"{len(stopped)} lanes"
    message = " ".join(first.message.split())
    told = f"{lanes} stopped, the first at {first.code}: {message}; see 'headrace quarantine list'"
    return f"{why}; {told}" if why else told
