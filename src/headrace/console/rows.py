"""What drivers tell and what the store knows, as the rows that people see.

Pure: values in, plain values out, in the form that goes over the wire. Field names are those of the
model. Where a row gathers several streams, records and rates are summed, and of times the worst is
shown: a tenant is as late as its latest stream, and percentiles of several streams cannot be
averaged without lying.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from headrace.model.credentials import Key
from headrace.model.lane_names import taken_apart
from headrace.model.places import OPEN, text_of
from headrace.model.records import Deployment, Failure
from headrace.model.statistics import (
    BinFigures,
    Report,
    ShownState,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
    worst_known,
)
from headrace.model.streams import State, Stream, Tenant
from headrace.model.topic_names import dead_letters_topic
from headrace.telemetry.conditions import Condition

Values = dict[str, Any]

#: what a tenant's streams are in, the more troubling first; "suspended 1/4" is behind "suspended"
_TROUBLE = (
    ShownState.SUSPENDED,
    ShownState.RETRYING,
    ShownState.THROTTLED,
    ShownState.WAITING,
    ShownState.ACTIVE,
    ShownState.REMOVED,
)


def worst(spreads: Sequence[Spread]) -> Spread:
    """One spread for several: all that was counted, and the worst of each figure."""
    if len(spreads) == 1:
        return spreads[0]
    some = [spread for spread in spreads if spread.count]
    if not some:
        return Spread()
    lowest = [spread.min_s for spread in some if spread.min_s is not None]
    return Spread(
        count=sum(spread.count for spread in some),
        min_s=min(lowest, default=None),
        p50_s=_largest(spread.p50_s for spread in some),
        p95_s=_largest(spread.p95_s for spread in some),
        p99_s=_largest(spread.p99_s for spread in some),
        max_s=_largest(spread.max_s for spread in some),
    )


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def spread_row(spread: Spread) -> Values:
    """A spread; ``asdict`` takes ten times as long, and there are thousands a second."""
    return {
        "count": spread.count,
        "min_s": spread.min_s,
        "p50_s": spread.p50_s,
        "p95_s": spread.p95_s,
        "p99_s": spread.p99_s,
        "max_s": spread.max_s,
    }


def tenant_row(tenant: Tenant, figures: Sequence[StreamFigures], streams_total: int) -> Values:
    """A tenant, with the figures of its streams together; None where no driver tells any."""
    return {
        **changeable(tenant),
        "figures": _tenant_figures(figures, streams_total) if figures else None,
    }


def changeable(tenant: Tenant) -> Values:
    """What an operator can set of a tenant, and so what its ETag is made of."""
    return {
        "name": tenant.name,
        "state": tenant.state.value,
        "stopped_by": sorted(tenant.stopped_by),
        "generation": tenant.generation,
        "weight": tenant.weight,
        "throttle": {
            "records_per_s": tenant.throttle.records_per_s,
            "bytes_per_s": tenant.throttle.bytes_per_s,
            "burst_s": tenant.throttle.burst_s,
        },
    }


def _tenant_figures(figures: Sequence[StreamFigures], streams_total: int) -> Values:
    leading = min(figures, key=lambda figure: _rank(figure.state))
    return {
        "state": leading.state,
        "lag_records": sum(figure.lag_records for figure in figures),
        "lag_is": worst_known(figure.lag_is for figure in figures).value,
        "lag_s": max(figure.lag_s for figure in figures),
        "in_per_s": sum(figure.in_per_s for figure in figures),
        "out_per_s": sum(figure.out_per_s for figure in figures),
        "delay": spread_row(worst([figure.delay for figure in figures])),
        "throttled": any(figure.throttled for figure in figures),
        "task_share": sum(figure.task_share for figure in figures),
        "note": leading.note or next((figure.note for figure in figures if figure.note), ""),
        "streams_total": streams_total,
        "failures_open": sum(
            lane.failure is not None for figure in figures for lane in figure.lanes
        ),
    }


def _rank(state: str) -> tuple[int, str]:
    kind = ShownState.of(state)
    return (_TROUBLE.index(kind) if kind in _TROUBLE else len(_TROUBLE), state)


def stream_row(
    stream: Stream, state: State, condition: Condition, figures: StreamFigures | None
) -> Values:
    """A stream as the store knows it, what it does now, and what its driver tells."""
    return {
        "tenant": stream.id.tenant,
        "use_case": stream.id.use_case,
        "topic": stream.topic,
        "state": state.value,
        "reason": stream.reason,
        "stopped_by": sorted(stream.stopped_by),
        "condition": {
            "state": condition.state,
            "reason": condition.reason,
            "retry_at_s": condition.retry_at_s,
        },
        "holder": stream.holder,
        "epoch": stream.epoch,
        "figures": None if figures is None else _stream_figures(figures),
    }


def _stream_figures(figures: StreamFigures) -> Values:
    return {
        "state": figures.state,
        "lag_records": figures.lag_records,
        "lag_is": figures.lag_is.value,
        "lag_s": figures.lag_s,
        "in_per_s": figures.in_per_s,
        "out_per_s": figures.out_per_s,
        "delay": spread_row(figures.delay),
        "throttled": figures.throttled,
        "task_share": figures.task_share,
        "records_total": figures.records_total,
        "dead_letters_total": figures.dead_letters_total,
        "lost_records_total": figures.lost_records_total,
        "passed_over_records_total": figures.passed_over_records_total,
        "wave": figures.wave,
        "note": figures.note,
    }


def use_case_row(deployment: Deployment, figures: Sequence[UseCaseFigures]) -> Values:
    """A use case; its options stay out, for they may hold passwords, and so do paths."""
    return {
        "use_case": deployment.use_case,
        "topic": deployment.topic,
        "digest": deployment.digest,
        "order": deployment.order.value,
        "buckets": deployment.buckets,
        "priority": deployment.priority,
        "bad_record": deployment.bad_record.value,
        "data_loss": deployment.data_loss.value,
        "retries": deployment.retries,
        "handler_timeout_s": deployment.handler_timeout_s,
        "max_rate_per_lane": deployment.max_rate_per_lane,
        "starting_offsets": deployment.starting_offsets,
        "restart": None if deployment.restart is None else asdict(deployment.restart),
        "all_tenants": deployment.all_tenants,
        "creates_tenants": deployment.creates_tenants,
        "rerun": deployment.until is not None,
        "figures": _use_case_figures(figures) if figures else None,
    }


def _use_case_figures(figures: Sequence[UseCaseFigures]) -> Values:
    out = [figure.bytes_out_per_s for figure in figures if figure.bytes_out_per_s is not None]
    paces = [figure.pace_per_s for figure in figures if figure.pace_per_s is not None]
    return {
        "waves_total": sum(figure.waves_total for figure in figures),
        "processing": spread_row(worst([figure.processing for figure in figures])),
        "scheduling": spread_row(worst([figure.scheduling for figure in figures])),
        "delay": spread_row(worst([figure.delay for figure in figures])),
        "records_per_s": sum(figure.records_per_s for figure in figures),
        "bytes_in_per_s": sum(figure.bytes_in_per_s for figure in figures),
        "bytes_out_per_s": sum(out) if out else None,
        "pace_per_s": sum(paces) if paces else None,
    }


def wave_row(driver: str, wave: WaveFigures) -> Values:
    """A wave, and which driver ran it."""
    return {
        "driver": driver,
        "wave": wave.wave,
        "use_case": wave.use_case,
        "started_at_s": wave.started_at_s,
        "ended_at_s": wave.ended_at_s,
        "bins": [_bin_row(bin_) for bin_ in wave.bins],
        "error": wave.error,
    }


def _bin_row(figures: BinFigures) -> Values:
    return {
        "slot": figures.slot,
        "tenants": list(figures.tenants),
        "tenants_total": figures.tenants_total,
        "records": figures.records,
        "outcome": figures.outcome.value,
    }


def driver_row(report: Report, *, lost: bool) -> Values:
    """A driver itself."""
    return {
        "driver": report.driver,
        "at_s": report.at_s,
        "lost": lost,
        "started_at_s": report.started_at_s,
        "slots": report.slots,
        "slots_target": report.slots_target,
        "slots_busy": report.slots_busy,
        "executors": report.executors,
        "spark_ui_url": report.spark_ui_url,
    }


def failure_row(failure: Failure, generation: int) -> Values:
    """A failure without its record; ``generation`` is that of the tenant of its name now."""
    piece, error = failure.slice, failure.error
    return {
        "id": failure.id,
        "tenant": piece.lane.tenant,
        "use_case": piece.lane.use_case,
        "lane": piece.lane.name,
        "partition": partition_in(piece.lane.name),
        "topic": piece.lane_topic,
        "from_offset": text_of(piece.from_offset),
        "until_offset": None if piece.is_open else text_of(piece.until_offset),
        "offset": None if error.offset is None else text_of(error.offset),
        "records": piece.records,
        "dead_letters": dead_letters_topic(piece.lane_topic),
        "goes_on_at": None if failure.skipped_to == OPEN else text_of(failure.skipped_to),
        "code": error.code,
        "message": error.message,
        "attempts": failure.attempts,
        "times": failure.times,
        "at_s": failure.at_s,
        "state": failure.state.value,
        "became": failure.became,
        "earlier_tenant": piece.epoch < generation,
        "record_kept": failure.record_kept and not failure.unread and error.offset is not None,
    }


def partition_in(lane: str) -> int | None:
    """The number in the name of a lane, as it was shown before lanes had names."""
    found = taken_apart(lane)
    return found.number if found else None


def record_row(failure: Failure) -> Values | None:
    """The record that failed, byte for byte; None where none is to blame, or it is not kept."""
    error = failure.error
    if error.offset is None or not failure.record_kept:
        return None
    return {
        "key": _data(error.raw_key),
        "value": _data(error.raw_value),
        "headers": [{"name": name, **_data(value)} for name, value in error.raw_headers],
    }


def _data(raw: bytes | None) -> Values:
    """Bytes as they are, and as text if they are UTF-8; both None for a null."""
    if raw is None:
        return {"text": None, "base64": None}
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    return {"text": text, "base64": base64.b64encode(raw).decode()}


def key_row(key: Key) -> Values:
    """A key without what opens the door."""
    return {
        "prefix": key.prefix,
        "role": key.role.value,
        "tenant": key.tenant,
        "subjects": key.subjects,
        "label": key.label,
        "created_at_s": key.created_at_s,
        "expires_at_s": key.expires_at_s,
        "revoked_at_s": key.revoked_at_s,
    }


def plain(value: Any) -> Values:
    """A small dataclass as it is."""
    return asdict(value)
