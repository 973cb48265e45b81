"""Failures that a person has to look at, kept with the bytes of the record.

Nothing is dropped in silence: the record that stopped a lane is kept as it came, key, value and
headers, and the failure being there, open, is what stops the lane (``stops.py``). So there is no
moment in which the failure is known and the lane goes on, or the other way round; and a record is
passed over only together with the note that it was.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    case,
    insert,
    literal,
    null,
    select,
    update,
)

from headrace.errors import ConfigError, UnknownName
from headrace.model.receipts import SliceError
from headrace.model.records import STOPPED_BY_ANOTHER, Failure, FailureState
from headrace.model.streams import LaneId, Slice, State, StreamId
from headrace.store import stops, streams
from headrace.store.pairs import of
from headrace.store.schema import failure_headers, failures, positions
from headrace.store.schema import streams as stream_rows

_Headers = tuple[tuple[str, bytes | None], ...]

#: what may be large, and what a list shows instead
_LARGE = {"raw_key": null(), "raw_value": null(), "traceback": literal("")}
_WITHOUT_RECORDS = [
    _LARGE[each.name].label(each.name) if each.name in _LARGE else each for each in failures.c
]


def keep(connection: Connection, failure: Failure, *, stop_use_case: bool) -> int:
    """Keep an open failure, unless its lane has one; return the id of the one that is open."""
    lane = failure.slice.lane
    if stop_use_case:
        _suspend_all(connection, failure)
    streams.locked(connection, lane.stream)
    number = stops.open_one(connection, lane)
    if number is None:
        added = insert(failures).values(_row(failure)).returning(failures.c.id)
        number = int(connection.scalars(added).one())
        _keep_headers(connection, number, failure.error.raw_headers)
    return number


def note(connection: Connection, failure: Failure) -> None:
    """Keep a failure that is over and stops nothing; it has no record."""
    connection.execute(insert(failures).values(_row(failure) | {"state": failure.state.value}))


@dataclass(frozen=True, slots=True)
class Part:
    """Which failures are wanted, and how much of each."""

    only_open: bool
    with_records: bool
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
    return _failures(connection, wanted, most=part.most, with_records=part.with_records)


def one(connection: Connection, number: int, tenant: str | None = None) -> Failure:
    """The failure of this id, if it is of this tenant or none is named.

    Raises:
        UnknownName: there is none.
    """
    wanted = failures.c.id == number
    if tenant is not None:
        wanted &= failures.c.tenant == tenant
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
    state = streams.locked(connection, lane.stream).state
    _end(connection, failure, FailureState.SKIPPED)
    if state == State.REMOVED:
        raise ConfigError(f"stream {lane.stream} was removed; its position stays where it is")
    ours = of(positions, lane.stream) & (positions.c.partition == lane.partition)
    moved = update(positions).where(ours, positions.c.next_offset.in_(failure.skipped_from))
    if not connection.execute(moved.values(next_offset=failure.skipped_to)).rowcount:
        now = connection.scalar(select(positions.c.next_offset).where(ours))
        offset = failure.error.offset
        what = failure.slice if offset is None else f"the record at offset {offset}"
        raise ConfigError(
            f"failure {number}: lane {lane} reads next at {now}, from where {what} cannot be "
            "skipped; retry it, or use 'headrace streams seek'"
        )


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
    reason = f"use case stopped by {lane.stream}, partition {lane.partition}{where}: {error.code}"
    # What one tenant sent is none of another's business.
    told = case(
        (stream_rows.c.tenant == lane.tenant, streams.one_line(f"{reason}: {error.message}")),
        else_=STOPPED_BY_ANOTHER,
    )
    connection.execute(
        update(stream_rows)
        .where(ours, stream_rows.c.state == State.ACTIVE.value)
        .values(state=State.SUSPENDED.value, reason=told)
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
    values |= LaneId(*values.pop("lane"))._asdict()
    values["record_offset"] = values.pop("offset")
    values |= {"at_s": failure.at_s, "attempts": failure.attempts}
    values["state"] = FailureState.OPEN.value
    del values["raw_headers"]
    return values


def _failure(row: Row[Any], headers: _Headers) -> Failure:
    lane = LaneId(row.use_case, row.tenant, row.partition)
    return Failure(
        slice=Slice(lane, row.topic, row.from_offset, row.until_offset, row.epoch, row.more),
        error=SliceError(
            temporary=row.temporary,
            code=row.code,
            message=row.message,
            traceback=row.traceback,
            offset=row.record_offset,
            raw_key=row.raw_key,
            raw_value=row.raw_value,
            raw_headers=headers,
            retry_after_s=row.retry_after_s,
        ),
        at_s=row.at_s,
        attempts=row.attempts,
        state=FailureState(row.state),
        id=row.id,
    )


def _keep_headers(connection: Connection, number: int, headers: _Headers) -> None:
    rows = [
        {"failure_id": number, "place": place, "name": name, "value": value}
        for place, (name, value) in enumerate(headers)
    ]
    if rows:
        connection.execute(insert(failure_headers), rows)


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
