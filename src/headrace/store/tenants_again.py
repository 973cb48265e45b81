"""Tenants that are added under the names of removed ones, together.

Of whoever had a name before nothing is left to the next: no position, no open failure, no history,
no epoch that was ever handed out. Only the ids of topics that were left stay, so that no stream
goes back to one. One by one that would be a dozen statements for each, under the
one lock that every writer of the store waits for, and ten thousand that come back after a holiday
would stop all drivers for half a minute. So each step is done for all with a few statements.

Rows of streams are locked in the order of their keys, as drivers do that take them over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from headrace.model.everyone import EVERYONE, has_stream
from headrace.model.streams import StreamId
from headrace.store import depths, state, stops, streams
from headrace.store.pairs import matching, portions
from headrace.store.schema import deployments, points, positions, tenants
from headrace.store.schema import streams as stream_rows


class _Before(NamedTuple):
    """What a stream was that begins anew."""

    epoch: int
    #: topics that it left, as ``streams.left_of`` has them
    left: str | None


def begin_anew(connection: Connection, again: Mapping[str, Mapping[str, Any]], at_s: float) -> None:
    """Let removed tenants begin, with the streams of each use case that is for all.

    Args:
        connection: a transaction for a change.
        again: what is kept of each, by name.
        at_s: the time now.
    """
    if not again:
        return
    names = sorted(again)
    before = _left_behind(connection, names)
    generations = _generations(connection, names, before)
    told_until_s = _told_until_s(connection, names, at_s)
    rows = [
        {
            "of": name,
            **again[name],
            "generation": generations[name],
            "added_again_s": max(at_s, told_until_s.get(name, at_s)),
        }
        for name in names
    ]
    connection.execute(update(tenants).where(tenants.c.name == bindparam("of")), rows)
    _start(connection, generations, before)


def _left_behind(connection: Connection, names: Sequence[str]) -> dict[StreamId, _Before]:
    """The streams that there were; nothing else is left of them."""
    known: list[StreamId] = []
    for several in portions(names):
        asked = select(stream_rows.c.use_case, stream_rows.c.tenant)
        rows = connection.execute(asked.where(stream_rows.c.tenant.in_(several)))
        known += [StreamId(row.use_case, row.tenant) for row in rows]
    before: dict[StreamId, _Before] = {}
    kept = (stream_rows.c.epoch, stream_rows.c.topic_id, stream_rows.c.left_ids)
    for some in matching(stream_rows, known):
        named = select(stream_rows.c.use_case, stream_rows.c.tenant, *kept)
        locked = named.where(some).order_by(stream_rows.c.tenant).with_for_update()
        before |= {
            StreamId(row.use_case, row.tenant): _Before(
                row.epoch, streams.left_of(row.left_ids, row.topic_id, None)
            )
            for row in connection.execute(locked)
        }
    for some in matching(stream_rows, known):
        connection.execute(update(stream_rows).where(some).values(reason=None))
    depths.deepen_all(connection, known)
    for some in matching(positions, known):
        connection.execute(delete(positions).where(some))
    state.forget_streams(connection, known)
    for several in portions(names):
        stops.release_all(connection, several)
    return before


def _generations(
    connection: Connection, names: Sequence[str], before: Mapping[StreamId, _Before]
) -> dict[str, int]:
    """For each tenant an epoch that no stream of its name ever had."""
    highest: dict[str, int] = {}
    for several in portions(names):
        asked = select(tenants.c.name, tenants.c.generation).where(tenants.c.name.in_(several))
        highest |= {row.name: row.generation for row in connection.execute(asked)}
    for stream, was in before.items():
        highest[stream.tenant] = max(highest[stream.tenant], was.epoch)
    return {name: epoch + 1 for name, epoch in highest.items()}


def _told_until_s(connection: Connection, names: Sequence[str], at_s: float) -> dict[str, float]:
    """After all history of names: a clock that is set back must not give it to the next tenants.

    Where the clock is right nobody has any from later on, and none is looked for by name.
    """
    latest_s = connection.scalar(select(func.max(points.c.from_s)))
    if latest_s is None or latest_s + 1 <= at_s:
        return {}
    use_cases = select(stream_rows.c.use_case).distinct()
    told: dict[str, float] = {}
    for several in portions(names):
        asked = select(points.c.tenant, func.max(points.c.from_s).label("latest_s")).where(
            points.c.use_case.in_(use_cases), points.c.tenant.in_(several)
        )
        found = connection.execute(asked.group_by(points.c.tenant))
        told |= {row.tenant: row.latest_s + 1.0 for row in found}
    return told


def _start(
    connection: Connection, generations: Mapping[str, int], before: Mapping[StreamId, _Before]
) -> None:
    for_all = select(deployments.c.use_case, deployments.c.topic).where(deployments.c.all_tenants)
    for row in connection.execute(for_all.order_by(deployments.c.use_case)).all():
        there, first = [], []
        for name, epoch in generations.items():
            # Who had the reserved name as a customer is not added again; see `tenants.add`.
            if not has_stream(row.topic, reserved=name == EVERYONE):
                continue
            stream, topic = StreamId(row.use_case, name), streams.topic_of(row.topic, name)
            if was := before.get(stream):
                there.append(streams.fresh(stream, topic, epoch, was.left))
            else:
                first.append(streams.fresh(stream, topic, epoch))
        if first:
            connection.execute(insert(stream_rows), first)
        if there:
            _set(connection, row.use_case, there)


def _set(connection: Connection, use_case: str, fresh: Sequence[Mapping[str, Any]]) -> None:
    """Give streams of one use case, which are there, what those that begin have."""
    ours = (stream_rows.c.use_case == use_case) & (stream_rows.c.tenant == bindparam("of"))
    kept = ("use_case", "tenant")
    rows = [
        {"of": new["tenant"], **{name: new[name] for name in new if name not in kept}}
        for new in fresh
    ]
    connection.execute(update(stream_rows).where(ours), rows)
