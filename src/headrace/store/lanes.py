"""Reading positions, and setting them by decision rather than by work done.

A lane gets its first position when its topic is first seen, and an operator may seek it. Both take
the lock of the stream's row, so that a lane never gets an epoch that is just being raised. Moves
by work done are in ``positions.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from sys import intern

from sqlalchemy import ColumnElement, Connection, insert, select, true, update

from headrace.errors import lanes_divided, stream_removed
from headrace.model.buckets import divided_otherwise
from headrace.model.lineage import Lineage, Parent, is_undecided, without
from headrace.model.places import Place
from headrace.model.records import LaneStart
from headrace.model.streams import LaneId, PassedRange, Position, State, StreamId
from headrace.model.topic_lists import id_without, others
from headrace.store import depths, left_alone, parents, reads, state, stops, streams
from headrace.store.depths import Depths
from headrace.store.moments import moved, now_s
from headrace.store.pairs import matching, of
from headrace.store.schema import positions
from headrace.store.schema import streams as stream_rows

_NOTHING_PASSED = {"passed_from": None, "passed_until": None}


def load(connection: Connection, wanted: Collection[StreamId] | None) -> list[Position]:
    """Committed positions by lane, of all streams or of some."""
    if wanted is None:
        return _positions(connection, true())
    found = [
        position
        for some in matching(positions, wanted)
        for position in _positions(connection, some)
    ]
    without_lanes = set(wanted) - {position.lane.stream for position in found}
    streams.check_known(connection, without_lanes)
    return found


def start(connection: Connection, first: LaneStart) -> None:
    """Give lanes that have no position their first one, and remember the topic's id."""
    stream, offsets = first.stream, first.offsets
    row = streams.locked(connection, stream)
    if row.topic_id not in (first.known_id, first.topic_id, None):
        return  # who asks was asleep while somebody decided for another topic
    if first.epoch not in (row.epoch, None):
        return  # somebody else has the stream, and it is elsewhere by now
    if first.begins and (row.topic_id is not None or row.begun_without_topic):
        return  # it has begun, and lanes that come later begin elsewhere
    if first.topic_id is None:
        begun = update(stream_rows).where(of(stream_rows, stream))
        connection.execute(begun.values(begun_without_topic=True))
        return
    if row.topic_id != first.topic_id:
        streams.be_of(connection, row, stream, first.topic_id)
    known = depths.depths_of(connection, stream, row.depth)
    early = {name for name, of in first.parents.items() if is_undecided(of, known.lanes)}
    new = _without(offsets, known.lanes.keys() | early)
    known = known._replace(deeper=first.deeper)
    _insert(connection, stream, row.epoch, new, first.parents, known)


def seek(  # noqa: PLR0913 - all that a seek decides is done in one place
    connection: Connection,
    stream: StreamId,
    offsets: Mapping[str, Place],
    topic_id: str | None,
    lineage: Lineage | None = None,
    gone: Collection[str] = (),
    *,
    forget_state: bool = False,
) -> bool:
    """Set positions, whatever they were, and the topic's id, or none; whether one was elsewhere.

    The lanes go on from there, also those that a failure had stopped. The epoch is raised: what
    still runs may begin where a lane is sent to, and would commit beside what is read again.
    """
    row = streams.locked(connection, stream)
    if row.state == State.REMOVED:
        raise stream_removed(stream.tenant, stream.use_case)
    reads.leave_behind(connection, stream)
    epoch = streams.turn_to(connection, row, stream, topic_id)
    if offsets:  # who only gives something up says nothing about the rest
        left_alone.forget(connection, stream, epoch)
    before = {at.lane.name: at.next_offset for at in _positions(connection, of(positions, stream))}
    if divided_otherwise(offsets, before.keys() - set(gone)):
        raise lanes_divided(stream.tenant, stream.use_case)
    left = {name: at for name, at in before.items() if name not in gone}
    other = others(row.topic_id, topic_id)
    state.sent(connection, stream, left, offsets, other, forget=forget_state)
    known = depths.deepen(connection, stream, row.depth)
    stops.release(connection, stream, set(offsets))
    for name in sorted(known.lanes.keys() & set(offsets)):
        connection.execute(
            update(positions)
            .where(of(positions, stream), positions.c.lane == name)
            .values(**moved(connection, offsets[name]), **_NOTHING_PASSED)
        )
    new = _without(offsets, known.lanes)
    _insert(connection, stream, epoch, new, lineage or {}, known)
    return any(before.get(name) != offset for name, offset in offsets.items())


def forget(
    connection: Connection,
    stream: StreamId,
    names: Collection[str],
    epoch: int,
    topics: Collection[str],
) -> bool:
    """Forget lanes, and topics of several, if the stream is under this epoch."""
    row = streams.locked(connection, stream)
    if row.epoch != epoch:
        return False
    if topics and row.topic_id is not None:
        fewer = update(stream_rows).where(of(stream_rows, stream))
        connection.execute(fewer.values(topic_id=id_without(row.topic_id, topics)))
    if topics:
        depths.leave_behind(connection, stream, row.depth, names)
    parents.forget(connection, stream, names)
    # When those were moved that are gone nobody knows any more.
    left = update(positions).where(of(positions, stream))
    connection.execute(left.values(moved(connection, positions.c.next_offset)))
    return True


def _positions(connection: Connection, some: ColumnElement[bool]) -> list[Position]:
    asked = select(positions).where(some).order_by(*positions.primary_key)
    return [
        Position(
            LaneId(use_case, tenant, intern(name)),
            next_offset,
            epoch,
            parents.read(followed) if followed else (),
            depth,
            ordinal,
            PassedRange(passed_from, passed_until) if passed_until == next_offset else None,
        )
        for (
            use_case,
            tenant,
            name,
            next_offset,
            epoch,
            followed,
            depth,
            ordinal,
            _,
            _,
            passed_from,
            passed_until,
        ) in connection.execute(asked)
    ]


def _without(offsets: Mapping[str, Place], names: Collection[str]) -> dict[str, Place]:
    return {name: offset for name, offset in offsets.items() if name not in names}


def _insert(
    connection: Connection,
    stream: StreamId,
    epoch: int,
    offsets: Mapping[str, Place],
    lineage: Lineage,
    known: Depths,
) -> None:
    if not offsets:
        return
    there = known.lanes.keys() | offsets.keys()
    deep = depths.of_new(connection, stream, offsets, lineage, known)
    rows = [
        {
            **stream._asdict(),
            "lane": name,
            "next_offset": offset,
            "moved_to": offset,
            "epoch": epoch,
            "parents": parents.written(_followed(lineage.get(name, ()), there)),
            "depth": deep[name],
        }
        for name, offset in sorted(offsets.items())
    ]
    connection.execute(insert(positions).values(moved_s=now_s(connection)), rows)


def _followed(lineage: Sequence[Parent], there: Collection[str]) -> Sequence[Parent]:
    """What a lane follows; nobody waits for a lane that is not there."""
    return without(lineage, {parent.lane for parent in lineage} - set(there)) if lineage else ()
