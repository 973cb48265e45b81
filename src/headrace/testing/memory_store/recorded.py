"""What is left of the waves that were written down, after this or that happened to their lanes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.model.places import Place
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.topic_lists import is_of
from headrace.model.waves import Wave
from headrace.testing.memory_store.data import Data


def settle(
    data: Data,
    wave_id: str,
    driver: str | None = None,
    over: Collection[Slice] = (),
    nothing: Collection[Slice] = (),
    parts: Sequence[Wave] = (),
) -> None:
    """Keep of a wave what its lanes still wait for; see ``Progress.finish_intent``."""
    for piece in over:
        if piece.most_bytes and _epoch_at(data, piece) == piece.epoch:
            data.reads.pop(piece.lane, None)
    known, of = data.intents.get(wave_id, (None, None))
    if known is None or driver not in (None, of):
        return
    written = {piece.begin for piece in known.slices}
    theirs = (part.only(lambda piece: piece.begin in written) for part in parts)
    kept = [
        part for part in theirs if part.bins and all(is_ours(data, piece) for piece in part.slices)
    ]
    parted = {piece.begin for part in kept for piece in part.slices}
    ended = {(*piece.begin, piece.epoch) for piece in (*over, *nothing)}
    left = known.only(lambda piece: is_due(data, piece, ended) and piece.begin not in parted)
    data.intents[wave_id] = (left, of)
    if not left.bins:
        del data.intents[wave_id]
    data.intents |= {part.id: (part, driver) for part in kept}


def take(data: Data, wave_id: str, done: Collection[tuple[LaneId, Place]]) -> None:
    """Remember whether somebody came through under a wave's id, whose ever it is by now."""
    known, of = data.intents.get(wave_id, (None, None))
    if known is not None:
        data.intents[wave_id] = (replace(known, taken=known.is_taken_by(done)), of)


def leave_behind(
    data: Data, stream: StreamId, *, merged: bool = False, moves: Sequence[Move] = ()
) -> None:
    """Forget what was recorded of a stream but where its lanes stand, if it has any.

    With ``merged``, or if a move ends in the middle of a slice, nothing is left of merged lanes.
    """
    leave_reads_behind(data, stream)
    for name, (wave, of) in list(data.intents.items()):
        if all(piece.lane.stream != stream for piece in wave.slices):
            continue
        settle(data, name)
        if (merged or wave.is_cut_by(moves)) and name in data.intents and wave.merges_lanes:
            left = data.intents[name][0].only(lambda piece: piece.lane.stream != stream)
            data.intents[name] = (left, of)
            if not left.bins:
                del data.intents[name]


def leave_reads_behind(data: Data, stream: StreamId) -> None:
    """Forget what was read of lanes that stand elsewhere by now."""
    lanes = data.positions.get(stream, {})
    data.reads = {
        lane: read
        for lane, read in data.reads.items()
        if lane.stream != stream
        or (lane.name in lanes and lanes[lane.name].next_offset == read.from_offset)
    }


def forget(data: Data, stream: StreamId, topics: Collection[str]) -> None:
    """Forget what was recorded of a stream: its offsets are of other topics from now on."""
    data.reads = {
        lane: read
        for lane, read in data.reads.items()
        if lane.stream != stream or not is_of(lane.name, topics)
    }
    left = {
        name: (wave.without_topics(stream, topics), of) for name, (wave, of) in data.intents.items()
    }
    data.intents = {name: intent for name, intent in left.items() if intent[0].bins}


def is_ours(data: Data, piece: Slice) -> bool:
    """Whether who names a slice has its lane, or nobody waits there any more."""
    epoch = _epoch_at(data, piece)
    return epoch is None or epoch == piece.epoch


def is_due(data: Data, piece: Slice, ended: set[tuple[LaneId, Place, int]]) -> bool:
    """Whether a lane waits for a slice, which is none of those that came to nothing."""
    epoch = _epoch_at(data, piece)
    return epoch is not None and (*piece.begin, epoch) not in ended


def _epoch_at(data: Data, piece: Slice) -> int | None:
    """The epoch of its lane, if that stands where the slice begins."""
    position = data.positions[piece.lane.stream].get(piece.lane.name)
    if position is None or position.next_offset != piece.from_offset:
        return None
    return position.epoch
