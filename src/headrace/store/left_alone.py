"""Streams that nobody read for a while, noted when somebody takes them over.

That a driver gave a stream back shows in the stream: it has no holder. So whoever joins under the
name of one that is gone, or inherits from a dead one, takes over what was not given back, and then
is noted for how long nobody had committed it, if that is for as long as its use case says. What
comes of that is decided later, by whoever holds the stream then; the note survives all that may
happen until it is.

Nobody was to commit a stream that was free, or that a person had stopped. So the time counts from
when it was taken, resumed, or retried (``expect``), if that was after its last move. One that is
suspended is not noted: it goes on where it stopped, as it would without a crash.

Drivers of an earlier version move positions, take streams and say nothing of it here. A time is
believed only where its position is still where that move took it, and of a stream only one that a
driver of this version has taken; until then nobody left it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, func, select, update

from headrace.model.restarts import Restart
from headrace.model.streams import State, StreamId
from headrace.policies.restarting import is_left
from headrace.store.moments import now_s
from headrace.store.pairs import of
from headrace.store.schema import deployments, positions, streams, tenants

#: when a lane was moved; NULL: nobody knows
_BELIEVED_S = case((positions.c.moved_to == positions.c.next_offset, positions.c.moved_s))


def note(connection: Connection, holder: str) -> None:
    """Note which streams were left alone that this driver holds and did not give back."""
    left = list(_left(connection, holder))
    if left:
        ours = streams.c.use_case == bindparam("of"), streams.c.tenant == bindparam("whose")
        noted = update(streams).where(*ours, streams.c.holder == holder)
        connection.execute(noted.values(silent_s=bindparam("since_s")), left)


def forget(connection: Connection, stream: StreamId, epoch: int) -> bool:
    """Let a stream under this epoch go on where it is; whether it is under this one."""
    same = update(streams).where(of(streams, stream), streams.c.epoch == epoch)
    return connection.execute(same.values(silent_s=None)).rowcount == 1


def expect(connection: Connection, stream: StreamId) -> None:
    """A person lets it go on: that nobody commits it counts from now.

    One that waits for an heir, since its driver ended in good order, goes on waiting as that.
    """
    ours = update(streams).where(of(streams, stream), streams.c.expected_s.is_not(None))
    connection.execute(ours.values(expected_s=now_s(connection)))


def taken(connection: Connection) -> dict[str, Any]:
    """What is written of a stream that is taken, be it by who has it: from when on it counts."""
    was_held = streams.c.holder.is_not(None) & streams.c.expected_s.is_not(None)
    return {"expected_s": case((was_held, streams.c.expected_s), else_=now_s(connection))}


def known(connection: Connection) -> dict[str, Any]:
    """And of its positions: those of which nobody knows are there at least since now."""
    is_known = _BELIEVED_S.is_not(None)
    moved_s = case((is_known, positions.c.moved_s), else_=now_s(connection))
    return {"moved_s": moved_s, "moved_to": positions.c.next_offset}


def _left(connection: Connection, holder: str) -> Iterator[dict[str, Any]]:
    for row in _times(connection, holder):
        silent_s = row.now_s - max(row.moved_s, row.expected_s, row.resumed_s or 0.0)
        if is_left(silent_s, Restart(row.restart_after_s)):
            yield {"of": row.use_case, "whose": row.tenant, "since_s": silent_s}


def _times(connection: Connection, holder: str) -> list[Row[Any]]:
    """Streams of a driver that may pass something over and of which all is known, by their keys."""
    what = (
        *(streams.c.use_case, streams.c.tenant, streams.c.expected_s),
        *(deployments.c.restart_after_s, tenants.c.resumed_s),
    )
    moved_s = func.max(_BELIEVED_S).label("moved_s")
    asked = (
        select(*what, moved_s, now_s(connection).label("now_s"))
        .join(deployments, deployments.c.use_case == streams.c.use_case)
        .join(tenants, tenants.c.name == streams.c.tenant)
        .join(
            positions,
            (positions.c.use_case == streams.c.use_case) & (positions.c.tenant == streams.c.tenant),
        )
        .where(
            streams.c.holder == holder,
            streams.c.expected_s.is_not(None),
            deployments.c.restart_after_s.is_not(None),
            streams.c.state == State.ACTIVE,
            tenants.c.state == State.ACTIVE,
        )
        .group_by(*what)
        .having(func.count(_BELIEVED_S) == func.count())
        .order_by(streams.c.use_case, streams.c.tenant)
    )
    return list(connection.execute(asked))
