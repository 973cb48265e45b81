"""Failures that a person has to look at, kept with the bytes of the record.

Nothing is dropped in silence: the record that stopped a lane is kept as it came, key, value,
headers and timestamp, and the failure being there, open, is what stops the lane (``stops.py``). So
there is no moment in which the failure is known and the lane goes on, or the other way round; and a
record is passed over only together with the note that it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    delete,
    insert,
    literal,
    null,
    select,
    true,
    update,
)

from headrace.errors import ConfigError, UnknownName
from headrace.model.lane_names import spoken
from headrace.model.receipts import SliceError
from headrace.model.records import STOPPED_BY_ANOTHER, Failure, FailureState
from headrace.model.streams import LaneId, Slice, State, Stopper, StreamId
from headrace.policies import keeping
from headrace.policies.stops import stopped
from headrace.store import stoppers, stops, streams
from headrace.store.pairs import of, portions
from headrace.store.schema import failure_headers, failures, positions, tenants
from headrace.store.schema import streams as stream_rows

log = structlog.get_logger(__name__)

_Headers = tuple[tuple[str, bytes | None], ...]

#: what may be large, and what a list shows instead
_LARGE = {"raw_key": null(), "raw_value": null(), "traceback": literal("")}
_WITHOUT_RECORDS = [
    _LARGE[column.name].label(column.name) if column.name in _LARGE else column
    for column in failures.c
]


def keep(connection: Connection, failure: Failure, *, stop_use_case: bool) -> int:
    """Keep an open failure, unless its lane has one; return the id of the one that is open."""
    lane = failure.slice.lane
    generation = streams.generation_of(connection, lane.tenant)
    if failure.slice.epoch < generation:
        # Of an earlier tenant of this name: a driver has yet to hear of the one that is there now.
        streams.locked(connection, lane.stream)
        return note(connection, replace(failure, state=FailureState.RETRIED))
    if stop_use_case:
        _suspend_all(connection, failure)
    streams.locked(connection, lane.stream)
    number = stops.open_one(connection, lane)
    if number is not None:
        return number
    failure = replace(failure, state=FailureState.OPEN)
    before = connection.execute(_retried(failure, since_epoch=generation)).first()
    return note(connection, failure) if before is None else _open_again(connection, failure, before)


def note(connection: Connection, failure: Failure) -> int:
    """Keep a failure in the state it is in; return its id."""
    failure = _with_room(connection, failure)
    added = insert(failures).values(_row(failure)).returning(failures.c.id)
    number = int(connection.scalars(added).one())
    _keep_headers(connection, number, failure.error.raw_headers)
    return number


def _open_again(connection: Connection, failure: Failure, before: Row[int, int]) -> int:
    """Write a failure down in the place of one that was retried at the same record."""
    failure = _with_room(connection, replace(failure, times=before.times + 1), before.id)
    connection.execute(update(failures).where(failures.c.id == before.id).values(_row(failure)))
    _forget_headers(connection, [before.id])
    _keep_headers(connection, before.id, failure.error.raw_headers)
    return int(before.id)


def _retried(failure: Failure, *, since_epoch: int) -> Select[int, int]:
    """Asks for the failure that comes again (``Failure.comes_again``), of the same tenant.

    Its row is locked: it may just go to make room for another one.
    """
    lane, topic, at, is_slice = failure.place
    offset, begin = failures.c.record_offset, failures.c.from_offset
    there = and_(offset.is_(None), begin == at) if is_slice else offset == at
    ours = of(failures, lane.stream) & (failures.c.lane == lane.name)
    retried = failures.c.state == FailureState.RETRIED.value
    asked = select(failures.c.id, failures.c.times)
    of_tenant = ours & (failures.c.epoch >= since_epoch)
    same = _is_same_record(failure.error)
    wanted = asked.where(of_tenant, failures.c.topic == topic, there, retried, same)
    return wanted.order_by(failures.c.id.desc()).limit(1).with_for_update()


def _is_same_record(error: SliceError) -> ColumnElement[bool]:
    """Whether a failure at the same offset has the same record, as far as is known."""
    at = failures.c.record_timestamp_ms
    if error.timestamp_ms is None:
        return true()
    key = failures.c.raw_key.is_not_distinct_from(error.raw_key)
    value = failures.c.raw_value.is_not_distinct_from(error.raw_value)
    unknown = at.is_(None) | failures.c.record_kept.is_(False)
    return unknown | ((at == error.timestamp_ms) & key & value)


def _with_room(connection: Connection, failure: Failure, number: int | None = None) -> Failure:
    """The failure as there is room for it; what has to go for that is gone."""
    tenant = failure.slice.lane.tenant
    asked = select(failures.c.id, failures.c.kept_bytes, failures.c.state)
    rows = connection.execute(asked.where(failures.c.tenant == tenant).order_by(failures.c.id))
    still = FailureState.OPEN.value
    kept = [keeping.KeptRow(r.id, r.kept_bytes, r.state == still) for r in rows if r.id != number]
    room = keeping.room_for(failure, kept)
    for some in portions(room.drop):
        _drop(connection, some)
    if room.drop:
        log.info("old failures dropped, to keep newer ones", tenant=tenant, failures=len(room.drop))
    return room.failure


def _drop(connection: Connection, numbers: Sequence[int]) -> None:
    """Forget failures, but for one that has just stopped its lane again."""
    ours = failures.c.id.in_(numbers) & (failures.c.state != FailureState.OPEN.value)
    asked = select(failures.c.id).where(ours).order_by(failures.c.id)
    over = connection.scalars(asked.with_for_update()).all()
    _forget_headers(connection, over)
    connection.execute(delete(failures).where(failures.c.id.in_(over)))


@dataclass(frozen=True, slots=True)
class Part:
    """Which failures are wanted, and how much of each."""

    only_open: bool
    with_records: bool
    #: no failures of earlier tenants of the same names
    current: bool
    #: an id, below all that are wanted
    after: int
    most: int | None


def every(connection: Connection, stream: StreamId | None, part: Part) -> list[Failure]:
    """Kept failures of all streams or of one, oldest first."""
    if stream is not None:
        streams.check_known(connection, [stream])
    wanted = failures.c.id > part.after
    if stream is not None:
        wanted &= of(failures, stream)
    if part.only_open:
        wanted &= failures.c.state == FailureState.OPEN.value
    if part.current:
        wanted &= _is_current()
    return _failures(connection, wanted, most=part.most, with_records=part.with_records)


def one(connection: Connection, number: int, tenant: str | None = None) -> Failure:
    """The failure of this id, if it is of this tenant or none is named.

    Raises:
        UnknownName: there is none.
    """
    wanted = failures.c.id == number
    if tenant is not None:
        wanted &= (failures.c.tenant == tenant) & _is_current()
    found = _failures(connection, wanted)
    if not found:
        raise UnknownName(f"there is no failure {number}; 'headrace quarantine list' shows them")
    return found[0]


def retry(connection: Connection, number: int) -> None:
    """Let the lane go on at the record."""
    _end(connection, one(connection, number), FailureState.RETRIED)


def skip(connection: Connection, number: int) -> None:
    """Let the lane go on behind the record, from exactly there; its epoch stays."""
    failure = one(connection, number)
    lane = failure.slice.lane
    streams.locked(connection, lane.stream)
    _end(connection, failure, FailureState.SKIPPED)
    ours = of(positions, lane.stream) & (positions.c.lane == lane.name)
    moved = update(positions).where(ours, positions.c.next_offset.in_(failure.skipped_from))
    passed = positions.c.ordinal + failure.skipped_records
    if not connection.execute(
        moved.values(next_offset=failure.skipped_to, ordinal=passed)
    ).rowcount:
        now = connection.scalar(select(positions.c.next_offset).where(ours))
        offset = failure.error.offset
        what = failure.slice if offset is None else f"the record at offset {offset}"
        raise ConfigError(
            f"failure {number}: lane {lane} reads next at {now}, from where {what} cannot be "
            "skipped; retry it, or use 'headrace streams seek'"
        )


def _is_current() -> ColumnElement[bool]:
    """Of the tenants that have their names now."""
    generation = select(tenants.c.generation).where(tenants.c.name == failures.c.tenant)
    return failures.c.epoch >= generation.scalar_subquery()


def _end(connection: Connection, failure: Failure, state: FailureState) -> None:
    assert failure.id is not None, "it came from the store"
    if not stops.end(connection, failure.id, state):
        raise ConfigError(
            f"failure {failure.id} of lane {failure.slice.lane} is not open any more: "
            f"it was {failure.state}"
        )


def _suspend_all(connection: Connection, failure: Failure) -> None:
    """Suspend what is active of the use case; rows are locked in the order of their keys."""
    lane, error = failure.slice.lane, failure.error
    ours = stream_rows.c.use_case == lane.use_case
    asked = select(stream_rows.c.tenant).where(ours).order_by(stream_rows.c.tenant)
    connection.execute(asked.with_for_update())
    where = "" if error.offset is None else f" at offset {error.offset}"
    reason = f"use case stopped by {lane.stream}, {spoken(lane.name)}{where}: {error.code}"
    # What one tenant sent is none of another's business.
    told = case(
        (stream_rows.c.tenant == lane.tenant, streams.one_line(f"{reason}: {error.message}")),
        else_=STOPPED_BY_ANOTHER,
    )
    by = stream_rows.c.stopped_by
    for before in (frozenset[Stopper](), frozenset({Stopper.TENANT})):
        # What an operator has stopped is left to the operator.
        known = by.is_(None) if not before else by == stoppers.written(before)
        now = stoppers.written(stopped(before, Stopper.FAILURE))
        connection.execute(
            update(stream_rows)
            .where(ours, stream_rows.c.state != State.REMOVED.value, known)
            .values(state=State.SUSPENDED.value, reason=told, stopped_by=now)
        )


def _failures(
    connection: Connection,
    wanted: ColumnElement[bool],
    *,
    most: int | None = None,
    with_records: bool = True,
) -> list[Failure]:
    columns = failures.c if with_records else _WITHOUT_RECORDS
    asked = select(*columns).where(wanted).order_by(failures.c.id).limit(most)
    found = connection.execute(asked).all()
    headers: dict[int, _Headers] = {}
    if with_records and found:
        headers = _headers(connection, wanted & (failures.c.id <= found[-1].id))
    return [_failure(row, headers.get(row.id, ())) for row in found]


def _row(failure: Failure) -> dict[str, Any]:
    values = asdict(failure.slice) | asdict(failure.error)
    lane = failure.slice.lane
    values |= {**lane.stream._asdict(), "lane": lane.name}
    values["record_offset"], values["record_behind"] = values.pop("offset"), failure.behind
    values["record_timestamp_ms"] = values.pop("timestamp_ms")
    values |= {"at_s": failure.at_s, "attempts": failure.attempts, "times": failure.times}
    values |= {"kept_bytes": keeping.bytes_of(failure), "record_kept": failure.record_kept}
    values["state"] = failure.state.value
    # What runs again has the depth that its lane has by then, and the ordinal, and is planned anew.
    del values["raw_headers"], values["depth"], values["ordinal"], values["most_bytes"]
    return values


def _failure(row: Row[Any], headers: _Headers) -> Failure:
    lane = LaneId(row.use_case, row.tenant, row.lane)
    return Failure(
        slice=Slice(
            lane,
            row.topic,
            row.from_offset,
            row.until_offset,
            row.epoch,
            row.more,
            records=row.records,
        ),
        error=SliceError(
            temporary=row.temporary,
            code=row.code,
            message=row.message,
            traceback=row.traceback,
            offset=row.record_offset,
            raw_key=row.raw_key,
            raw_value=row.raw_value,
            raw_headers=headers,
            timestamp_ms=row.record_timestamp_ms,
            retry_after_s=row.retry_after_s,
        ),
        at_s=row.at_s,
        attempts=row.attempts,
        state=FailureState(row.state),
        id=row.id,
        times=row.times,
        record_kept=row.record_kept,
        behind=row.record_behind,
    )


def _keep_headers(connection: Connection, number: int, headers: _Headers) -> None:
    rows = [
        {"failure_id": number, "place": place, "name": name, "value": value}
        for place, (name, value) in enumerate(headers)
    ]
    if rows:
        connection.execute(insert(failure_headers), rows)


def _forget_headers(connection: Connection, numbers: Sequence[int]) -> None:
    connection.execute(delete(failure_headers).where(failure_headers.c.failure_id.in_(numbers)))


def _headers(connection: Connection, wanted: ColumnElement[bool]) -> dict[int, _Headers]:
    asked = (
        select(failure_headers)
        .join(failures, failures.c.id == failure_headers.c.failure_id)
        .where(wanted)
        .order_by(failure_headers.c.failure_id, failure_headers.c.place)
    )
    return {
        number: tuple((row.name, row.value) for row in rows)
        for number, rows in groupby(connection.execute(asked), key=attrgetter("failure_id"))
    }
