"""Failures that a person has to look at, kept with the bytes of the record.

Nothing is dropped in silence: the record that stopped a stream is kept as it came, key, value and
headers, and its stream stops in the same transaction. So there is no moment in which the failure
is known and the stream goes on, or the other way round.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, true, update

from headrace.model.receipts import SliceError
from headrace.model.records import Failure
from headrace.model.streams import LaneId, Slice, State, StreamId
from headrace.store import streams
from headrace.store.pairs import of
from headrace.store.schema import failure_headers, failures
from headrace.store.schema import streams as stream_rows

_Headers = tuple[tuple[str, bytes | None], ...]


def keep(connection: Connection, failure: Failure) -> int:
    """Keep a failure and suspend its stream, unless it was removed; return the failure's id."""
    stream = failure.slice.lane.stream
    state = streams.locked(connection, stream).state
    added = insert(failures).values(_row(failure)).returning(failures.c.id)
    number = int(connection.scalars(added).one())
    _keep_headers(connection, number, failure.error.raw_headers)
    if state != State.REMOVED:
        connection.execute(
            update(stream_rows)
            .where(of(stream_rows, stream))
            .values(state=State.SUSPENDED.value, reason=_reason(failure))
        )
    return number


def every(connection: Connection, stream: StreamId | None) -> list[Failure]:
    """Kept failures of all streams or of one, oldest first."""
    if stream is not None:
        streams.check_known(connection, [stream])
    wanted = true() if stream is None else of(failures, stream)
    headers = _headers(connection, wanted)
    asked = select(failures).where(wanted).order_by(failures.c.id)
    return [_failure(row, headers.get(row.id, ())) for row in connection.execute(asked)]


def _reason(failure: Failure) -> str:
    error = failure.error
    where = "" if error.offset is None else f" at offset {error.offset}"
    part = f"partition {failure.slice.lane.partition}"
    return streams.one_line(f"{error.code} in {part}{where}: {error.message}")


def _row(failure: Failure) -> dict[str, Any]:
    values = asdict(failure.slice) | asdict(failure.error)
    values |= LaneId(*values.pop("lane"))._asdict()
    values["record_offset"] = values.pop("offset")
    values["at_s"] = failure.at_s
    del values["raw_headers"]
    return values


def _failure(row: Any, headers: _Headers) -> Failure:
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
