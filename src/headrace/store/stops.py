"""What stops a lane, and what ends the stop.

A lane is stopped exactly while it has an open failure. So every decision that sends a lane on (to
retry, to skip, to seek, to resume, to start afresh) has to close that failure in its own
transaction, and all of them do it here. That a lane has one open failure at most is also an index
of the table, for writers that know nothing of this.

What a failure holds, and how it is read, is in ``failures.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Connection, select, update

from headrace.model.records import FailureState
from headrace.model.streams import LaneId, StreamId
from headrace.store.pairs import among, of, portions
from headrace.store.schema import failures, streams

_is_open = failures.c.state == FailureState.OPEN.value


def open_ones(connection: Connection, lanes: Sequence[LaneId]) -> dict[LaneId, int]:
    """The ids of the open failures of these lanes; the others may go on."""
    found = {}
    column = failures.c
    for some in portions(lanes):
        asked = select(column.id, column.use_case, column.tenant, column.lane)
        for row in connection.execute(asked.where(among(failures, some), _is_open)):
            found[LaneId(row.use_case, row.tenant, row.lane)] = row.id
    wanted = set(lanes)
    return {lane: number for lane, number in found.items() if lane in wanted}


def of_driver(connection: Connection, driver: str) -> dict[LaneId, int]:
    """The open failure of each stopped lane of the streams that a driver holds."""
    same = (streams.c.use_case == failures.c.use_case) & (streams.c.tenant == failures.c.tenant)
    lane = (failures.c.use_case, failures.c.tenant, failures.c.lane)
    asked = select(failures.c.id, *lane).join(streams, same)
    rows = connection.execute(asked.where(_is_open, streams.c.holder == driver))
    return {LaneId(row.use_case, row.tenant, row.lane): row.id for row in rows}


def release(connection: Connection, stream: StreamId, names: Collection[str] | None = None) -> None:
    """Let lanes of a stream go on where they stand: all of them, or some."""
    ours = of(failures, stream)
    if names is not None:
        ours &= failures.c.lane.in_(names)
    _retry(connection, ours)


def leave_behind(connection: Connection, stream: StreamId, names: Collection[str]) -> None:
    """Let lanes of a stream go on where they stand: the records that they stopped at are gone.

    Such a failure does not come again: what fails at its offset is another record.
    """
    ours = of(failures, stream) & failures.c.lane.in_(names)
    _close(connection, ours, FailureState.SKIPPED)


def release_all(connection: Connection, tenants: Collection[str]) -> None:
    """Let no failure of these tenants be open."""
    _retry(connection, failures.c.tenant.in_(tenants))


def _retry(connection: Connection, ours: ColumnElement[bool]) -> None:
    """Close those of these failures that are open: whatever they stopped is tried again."""
    _close(connection, ours, FailureState.RETRIED)


def _close(connection: Connection, ours: ColumnElement[bool], became: FailureState) -> None:
    connection.execute(update(failures).where(ours, _is_open).values(state=became.value))


def end(connection: Connection, number: int, state: FailureState) -> bool:
    """Give an open failure another state; False if it is not open any more."""
    ended = update(failures).where(failures.c.id == number, _is_open).values(state=state.value)
    return connection.execute(ended).rowcount == 1
