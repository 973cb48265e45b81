"""Going on behind records that Kafka no longer has.

Whoever decides that has looked at Kafka a moment ago, and may have been fenced since, or an
operator may have sought the stream. So all lanes move by one compare-and-set, or none does; and
with them goes, in the same transaction, the note of what was passed over. There is no moment in
which the lanes have moved and nobody is told. The epoch of a note is compared as that of a move is:
where all that was lost is of lanes that nobody began, nothing else tells who was replaced.

The epoch is raised too. In a topic that was made again old offsets mean other records, and a slice
of the old one that still runs somewhere could commit where a new one is expected. One that is
recorded and begins where the new topic does would be run on it under the old effect's identity, so
it is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, case, literal, select, update

from headrace.model.records import Failure, Move
from headrace.model.streams import State, StreamId
from headrace.model.topic_lists import is_another, is_of, others
from headrace.store import depths, failures, reads, stops, streams
from headrace.store.moments import moved
from headrace.store.pairs import of
from headrace.store.schema import PlaceText, positions


def skip(
    connection: Connection,
    stream: StreamId,
    moves: Sequence[Move],
    notes: Sequence[Failure],
    topic_id: str | None,
    *,
    anew: bool = False,
) -> int | None:
    """Move lanes behind what is lost; the new epoch, or None if they are not where they were.

    Lanes get deeper if one is sent back, or reads another topic, or with ``anew``. Without a
    ``topic_id`` the stream stays in the topic that it is of.
    """
    assert all(move.lane.stream == stream for move in moves), "the lanes are the stream's"
    row = streams.locked(connection, stream)
    ours = {*(move.epoch for move in moves), *(note.slice.epoch for note in notes)} == {row.epoch}
    if row.state == State.REMOVED or not ours or not _as_thought(connection, stream, moves):
        return None
    topic_id = row.topic_id if topic_id is None else topic_id
    reads.leave_behind(connection, stream)
    back = any(move.to_offset < move.from_offset for move in moves)
    if anew or back or is_another(row.topic_id, topic_id):
        depths.deepen(connection, stream, row.depth)
    epoch = streams.turn_to(connection, row, stream, topic_id)
    for move in moves:
        lane = of(positions, stream) & (positions.c.lane == move.lane.name)
        passed = _passed(move, row.topic_id, topic_id)
        there = moved(connection, move.to_offset)
        connection.execute(update(positions).where(lane).values(**there, **passed))
    stops.leave_behind(connection, stream, {move.lane.name for move in moves})
    failures.note(connection, notes)
    return epoch


def _passed(move: Move, was_of: str | None, now_of: str | None) -> dict[str, Any]:
    """What of a lane is passed over with a move, in the topic that it stays in."""
    if move.to_offset < move.from_offset or is_of(move.lane.name, others(was_of, now_of)):
        return {"passed_from": None, "passed_until": None}
    if move.to_offset == move.from_offset:
        return {}
    begin = literal(move.from_offset, PlaceText())
    # Nobody was told yet of what was passed over right before.
    adjoins = positions.c.passed_until == move.from_offset
    since = case((adjoins, positions.c.passed_from), else_=begin)
    return {"passed_from": since, "passed_until": move.to_offset}


def _as_thought(connection: Connection, stream: StreamId, moves: Sequence[Move]) -> bool:
    """Whether all lanes are where the moves begin; they stay there until the transaction ends."""
    asked = select(positions.c.lane, positions.c.next_offset).where(of(positions, stream))
    in_order = asked.order_by(positions.c.lane).with_for_update()
    at = {row.lane: row.next_offset for row in connection.execute(in_order)}
    return all(at.get(move.lane.name) == move.from_offset for move in moves)
