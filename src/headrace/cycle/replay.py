"""Running recorded waves again, unchanged, after a driver died or a job failed.

An intent says exactly which slices ran. Whether they did, nobody knows, but their effects have an
identity, so running the very same slices again leaves the same state as once. New slices, cut
elsewhere, would not: that is why a replay comes before any planning of these lanes.

Only the epoch is new: the slices are ours now, and the moves must be made under our own token.

A replay waits for whatever its stream would wait for. Of a wave in which only some do, the others
are divided from them first: nobody waits for somebody else's trouble.

A slice that ends behind its log can never run again as it was: the topic is another one by now, or
was cut. It is given up, as its lane would wait for records that nobody has to send.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.cycle.board import Board
from headrace.model.streams import Slice, State, StreamId
from headrace.model.waves import Wave


def renewed(wave: Wave, board: Board) -> Wave:
    """The slices of a recorded wave that are still to do, under this driver's epochs.

    A slice whose position has moved away is done, or was sought past; one whose stream is not
    held here any more is somebody else's. One that runs is in a second record of the same slices,
    which a kill can leave behind while a wave is divided. Bins left empty are dropped.
    """
    bins = (
        replace(
            each,
            slices=tuple(
                replace(piece, epoch=board.streams[piece.lane.stream].epoch)
                for piece in each.slices
                if (lane := board.lane(piece.lane)) is not None
                and lane.position == piece.from_offset
                and lane.wave not in board.flights
            ),
        )
        for each in wave.bins
    )
    return replace(wave, bins=tuple(each for each in bins if each.slices))


def past_the_end(wave: Wave, wait: set[StreamId], board: Board) -> list[Slice]:
    """Slices of a renewed wave that their logs are too short for, but of streams that wait."""
    found = []
    for piece in wave.slices:
        lane = board.lane(piece.lane)
        if lane is None or piece.lane.stream in wait:
            continue
        if 0 <= lane.end < piece.until_offset:
            found.append(piece)
    return found


def stopped(wave: Wave, board: Board) -> set[StreamId]:
    """Streams of a wave that wait for a person, or for what is not clear about their topics."""
    found = set()
    for piece in wave.slices:
        held, lane = board.streams.get(piece.lane.stream), board.lane(piece.lane)
        if held is None or lane is None:
            continue
        if lane.failure is not None or held.waiting or held.state is State.SUSPENDED:
            found.add(piece.lane.stream)
    return found
