"""What lanes follow, kept beside their positions.

A lane that its log made of others is not read before they are done (``model/lineage.py``). Its log
forgets its parents one day, and a driver that is started anew asks the log and the store. So
parents are written in the transaction that gives a lane its first place, in its own row, and stay
there: a JSON array of ``[lane, end]``, or NULL. Rows of a stream without any cost nothing.

An end is NULL when nobody waits for that parent any more, and a parent without a row is never
waited for: its row goes only when it is done, or when somebody decided about what it lost.

Callers hold the lock of the stream's row.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, select, update

from headrace.model.lineage import Lineage, Parent, without
from headrace.model.places import read_place, text_of
from headrace.model.streams import StreamId
from headrace.store import depths, state, stops
from headrace.store.pairs import of
from headrace.store.schema import positions, reads


def read(text: str | None) -> tuple[Parent, ...]:
    """The parents that ``written`` wrote."""
    if text is None:
        return ()
    return tuple(
        Parent(lane, None if end is None else read_place(end)) for lane, end in json.loads(text)
    )


def written(parents: Sequence[Parent]) -> str | None:
    """Parents as text; ends as text too, since they may be of any width."""
    if not parents:
        return None
    return json.dumps([(lane, None if end is None else text_of(end)) for lane, end in parents])


def decide(
    connection: Connection,
    stream: StreamId,
    lineage: Lineage | None,
    gone: Collection[str],
    sent: Collection[str],
) -> None:
    """Do what was decided: some lanes are no more, and others follow these, if it is said which."""
    if gone:
        stops.release(connection, stream, gone)
        forget(connection, stream, gone)
    if lineage is not None:
        let(connection, stream, lineage, sent)


def let(connection: Connection, stream: StreamId, lineage: Lineage, sent: Collection[str]) -> None:
    """Let lanes of a stream follow these, and those that are sent somewhere nothing else.

    Whoever decided may not have known all of its lanes: one may have come since. What that follows
    stays, or it would be open from now on.
    """
    kept = _kept(connection, stream)
    followed = kept | {name: lineage.get(name, ()) for name in kept.keys() & {*lineage, *sent}}
    for name, parents in followed.items():
        wanted = without(parents, {parent.lane for parent in parents} - kept.keys())
        if wanted != kept[name]:
            _write(connection, stream, name, wanted)
    depths.anew(connection, stream, followed)


def forget(connection: Connection, stream: StreamId, gone: Collection[str]) -> None:
    """Let lanes be no more, and nobody wait for them."""
    lanes = positions.c.lane.in_(list(gone))
    connection.execute(delete(positions).where(of(positions, stream), lanes))
    connection.execute(delete(reads).where(of(reads, stream), reads.c.lane.in_(list(gone))))
    state.forget_gone(connection, stream, gone)
    for name, parents in _kept(connection, stream).items():
        left = without(parents, gone)
        if left != parents:
            _write(connection, stream, name, left)


def _kept(connection: Connection, stream: StreamId) -> dict[str, tuple[Parent, ...]]:
    asked = select(positions.c.lane, positions.c.parents).where(of(positions, stream))
    rows = connection.execute(asked.order_by(positions.c.lane).with_for_update())
    return {row.lane: read(row.parents) for row in rows}


def _write(connection: Connection, stream: StreamId, name: str, parents: Sequence[Parent]) -> None:
    lane = of(positions, stream) & (positions.c.lane == name)
    connection.execute(update(positions).where(lane).values(parents=written(parents)))
