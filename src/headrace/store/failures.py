"""Failures that a person has to look at, kept with the bytes of the record.

Nothing is dropped in silence: the record that stopped a lane is kept as it came, key, value,
headers and timestamp, and the failure being there, open, is what stops the lane (``stops.py``). So
there is no moment in which the failure is known and the lane goes on, or the other way round; and a
record is passed over only together with the note that it was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    case,
    delete,
    insert,
    literal,
    null,
    select,
    update,
)

from headrace.errors import ConfigError, UnknownName
from headrace.model.lane_names import spoken
from headrace.model.receipts import SliceError
from headrace.model.records import STOPPED_BY_ANOTHER, Failure, FailureState
from headrace.model.streams import LaneId, Slice, State, Stopper, StreamId
from headrace.model.topic_lists import topic_of_lane
from headrace.policies import keeping
from headrace.policies.stops import stopped
from headrace.store import left_alone, stoppers, stops, streams
from headrace.store.moments import moved
from headrace.store.pairs import among, of, portions
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


def keep(connection: Connection, new: Sequence[Failure], *, stop_use_case: bool) -> list[int]:
    """Keep open failures, unless their lanes have one; return the ids of those that are open.

    What was judged under an earlier epoch is over: the lane is another driver's by now, or was sent
    elsewhere, or its tenant is another one. It is noted, and stops nothing.

    Many lanes stop at once where all their records are bad, so what is asked and written for all of
    them is a few statements for some hundred.
    """
    generations = streams.generations_of(connection, {f.slice.lane.tenant for f in new})
    if stop_use_case:
        _lock_all_of(connection, {f.slice.lane.use_case for f in new})
    epochs = streams.lock_all(connection, {f.slice.lane.stream for f in new})
    ours = [f for f in new if _is_now(f.slice, epochs)]
    if stop_use_case:
        for failure in {f.slice.lane.use_case: f for f in reversed(ours)}.values():
            _suspend_all(connection, failure)
    numbers = stops.open_ones(connection, [f.slice.lane for f in ours])
    first: dict[LaneId, Failure] = {}
    for failure in ours:
        if failure.slice.lane not in numbers:
            first.setdefault(failure.slice.lane, replace(failure, state=FailureState.OPEN))
    opened = note(connection, _again(connection, list(first.values()), generations))
    numbers |= zip(first, opened, strict=True)
    late = [f for f in new if not _is_now(f.slice, epochs)]
    noted = iter(note(connection, [replace(f, state=FailureState.RETRIED) for f in late]))
    return [numbers[f.slice.lane] if _is_now(f.slice, epochs) else next(noted) for f in new]


def _is_now(piece: Slice, epochs: Mapping[StreamId, int]) -> bool:
    """Whether it is under the epoch that its stream has now."""
    return piece.epoch >= epochs[piece.lane.stream]


def note(connection: Connection, new: Sequence[Failure]) -> list[int]:
    """Keep failures in the state they are in; return their ids.

    One that has an id is written in the place of the one that has it.
    """
    new = _with_room(connection, new)
    again = [failure for failure in new if failure.id is not None]
    if again:
        rows = [{**_row(failure), "number": failure.id} for failure in again]
        connection.execute(update(failures).where(failures.c.id == bindparam("number")), rows)
        _forget_headers(connection, [failure.id for failure in again if failure.id is not None])
    rows = [_row(failure) for failure in new if failure.id is None]
    added = insert(failures).returning(failures.c.id, sort_by_parameter_order=True)
    made = iter(connection.scalars(added, rows).all() if rows else ())
    numbers = [next(made) if failure.id is None else failure.id for failure in new]
    _keep_headers(connection, zip(numbers, new, strict=True))
    return numbers


def _again(
    connection: Connection, new: Sequence[Failure], generations: Mapping[str, int]
) -> list[Failure]:
    """These, each with the id of the one that comes again with it (``Failure.comes_again``).

    That one is of the same tenant and was retried. Its row is locked: it may just go to make room
    for another one.
    """
    at, found = {failure.place: failure for failure in new}, []
    retried = failures.c.state == FailureState.RETRIED.value
    column = failures.c
    where = (column.use_case, column.tenant, column.lane, column.topic)
    asked = select(column.id, column.epoch, column.record_offset, column.from_offset, *where)
    for some in portions(new):
        of_some = among(failures, [failure.slice.lane for failure in some])
        for row in connection.execute(asked.where(of_some, retried)):
            is_slice = row.record_offset is None
            place = row.from_offset if is_slice else row.record_offset
            lane = LaneId(row.use_case, row.tenant, row.lane)
            is_ours = row.epoch >= generations.get(row.tenant, 0)
            topic = topic_of_lane(row.lane, row.topic)
            if is_ours and (lane, topic, place, is_slice) in at:
                found.append(row.id)
    for numbers in portions(sorted(found)):
        for before in _failures(connection, column.id.in_(numbers) & retried, lock=True):
            failure = at[before.place]
            if failure.comes_again(before):
                at[before.place] = replace(failure, id=before.id, times=before.times + 1)
    return [at[failure.place] for failure in new]


def _with_room(connection: Connection, new: Sequence[Failure]) -> list[Failure]:
    """The failures as there is room for them; what has to go for that is gone."""
    of_tenant: dict[str, list[int]] = defaultdict(list)
    for number, failure in enumerate(new):
        of_tenant[failure.slice.lane.tenant].append(number)
    kept = _kept(connection, sorted(of_tenant), {failure.id for failure in new})
    fitted = list(new)
    drop: list[int] = []
    for tenant, numbers in of_tenant.items():
        room = keeping.room_for([new[number] for number in numbers], kept[tenant])
        for number, failure in zip(numbers, room.failures, strict=True):
            fitted[number] = failure
        drop += room.drop
        if room.drop:
            many = len(room.drop)
            log.info("old failures dropped, to keep newer ones", tenant=tenant, failures=many)
    for some in portions(sorted(drop)):
        _drop(connection, some)
    return fitted


def _kept(
    connection: Connection, tenants: Sequence[str], but: Collection[int | None]
) -> dict[str, list[keeping.KeptRow]]:
    """What is there of these tenants, the oldest first, without some."""
    kept: dict[str, list[keeping.KeptRow]] = defaultdict(list)
    column, still = failures.c, FailureState.OPEN.value
    asked = select(column.id, column.tenant, column.kept_bytes, column.state).order_by(column.id)
    for some in portions(tenants):
        for row in connection.execute(asked.where(column.tenant.in_(some))):
            if row.id not in but:
                is_open = row.state == still
                kept[row.tenant].append(keeping.KeptRow(row.id, row.kept_bytes, is_open))
    return kept


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
    failure = one(connection, number)
    left_alone.expect(connection, failure.slice.lane.stream)
    _end(connection, failure, FailureState.RETRIED)


def skip(connection: Connection, number: int) -> None:
    """Let the lane go on behind the record, from exactly there; its epoch stays."""
    failure = one(connection, number)
    lane = failure.slice.lane
    streams.locked(connection, lane.stream)
    _end(connection, failure, FailureState.SKIPPED)
    ours = of(positions, lane.stream) & (positions.c.lane == lane.name)
    there = update(positions).where(ours, positions.c.next_offset.in_(failure.skipped_from))
    passed = positions.c.ordinal + failure.skipped_records
    gone_on = there.values(ordinal=passed, **moved(connection, failure.skipped_to))
    if not connection.execute(gone_on).rowcount:
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


def _lock_all_of(connection: Connection, use_cases: Collection[str]) -> None:
    """Lock all streams of use cases, in the order of their keys, before any of them by itself."""
    ours = stream_rows.c.use_case.in_(sorted(use_cases))
    asked = select(stream_rows.c.tenant).where(ours)
    in_order = asked.order_by(stream_rows.c.use_case, stream_rows.c.tenant)
    connection.execute(in_order.with_for_update())


def _suspend_all(connection: Connection, failure: Failure) -> None:
    """Suspend what is active of the use case, whose rows are locked."""
    lane, error = failure.slice.lane, failure.error
    ours = stream_rows.c.use_case == lane.use_case
    where = "" if error.offset is None else f" at offset {error.offset}"
    at = spoken(lane.name, failure.slice.topic)
    reason = f"use case stopped by {lane.stream}, {at}{where}: {error.code}"
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
    lock: bool = False,
) -> list[Failure]:
    columns = failures.c if with_records else _WITHOUT_RECORDS
    asked = select(*columns).where(wanted).order_by(failures.c.id).limit(most)
    if lock:
        asked = asked.with_for_update()
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
    for name in ("raw_headers", "depth", "ordinal", "most_bytes", "passed_range"):
        del values[name]
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


def _keep_headers(connection: Connection, kept: Iterable[tuple[int, Failure]]) -> None:
    rows = [
        {"failure_id": number, "place": place, "name": name, "value": value}
        for number, failure in kept
        for place, (name, value) in enumerate(failure.error.raw_headers)
    ]
    if rows:
        connection.execute(insert(failure_headers), rows)


def _forget_headers(connection: Connection, numbers: Sequence[int]) -> None:
    for some in portions(numbers):
        connection.execute(delete(failure_headers).where(failure_headers.c.failure_id.in_(some)))


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
