"""Streams that nobody read for a while, noted when somebody takes them over.

That a driver gave a stream back shows in the stream: it has no holder. So whoever joins under the
name of one that is gone, or inherits from a dead one, takes over what was not given back, and then
is noted for how long nobody had committed it, if that is for as long as its use case says. What
comes of that is decided later, by whoever holds the stream then; the note survives all that may
happen until it is.

One that somebody suspended is not noted: it goes on where it stopped, as it would without a crash.
"""

from __future__ import annotations

from sqlalchemy import Connection, Row, func, select, update

from headrace.model.restarts import Restart
from headrace.model.streams import State, StreamId
from headrace.policies.restarting import is_left
from headrace.store.moments import now_s
from headrace.store.pairs import of
from headrace.store.schema import deployments, positions, streams, tenants


def note(connection: Connection, holder: str) -> None:
    """Note which streams were left alone that this driver holds and did not give back."""
    for row in _silent(connection, holder):
        if is_left(row.silent_s, Restart(row.restart_after_s)):
            stream = StreamId(row.use_case, row.tenant)
            noted = update(streams).where(of(streams, stream), streams.c.holder == holder)
            connection.execute(noted.values(silent_s=row.silent_s))


def forget(connection: Connection, stream: StreamId, epoch: int) -> bool:
    """Let a stream under this epoch go on where it is; whether it is under this one."""
    known = update(streams).where(of(streams, stream), streams.c.epoch == epoch)
    return connection.execute(known.values(silent_s=None)).rowcount == 1


def _silent(connection: Connection, holder: str) -> list[Row[str, str, float, float]]:
    """Streams of a driver that may pass something over, by their keys."""
    silent_s = (now_s(connection) - func.max(positions.c.moved_s)).label("silent_s")
    key = streams.c.use_case, streams.c.tenant
    asked = (
        select(*key, deployments.c.restart_after_s, silent_s)
        .join(deployments, deployments.c.use_case == streams.c.use_case)
        .join(tenants, tenants.c.name == streams.c.tenant)
        .join(
            positions,
            (positions.c.use_case == streams.c.use_case) & (positions.c.tenant == streams.c.tenant),
        )
        .where(
            streams.c.holder == holder,
            deployments.c.restart_after_s.is_not(None),
            streams.c.state == State.ACTIVE,
            tenants.c.state == State.ACTIVE,
        )
        .group_by(*key, deployments.c.restart_after_s)
        .order_by(*key)
    )
    return list(connection.execute(asked))
