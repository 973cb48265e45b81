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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from headrace.cycle.board import Board
from headrace.cycle.commit import Committer
from headrace.model.streams import Slice, State, StreamId
from headrace.model.waves import Wave


class Step(Enum):
    """What becomes of a recorded wave in this turn."""

    RUN = auto()  #: what is due of it runs
    WAIT = auto()  #: it is not time, or all of its streams wait
    DIVIDE = auto()  #: some of its streams wait, and the others go on without them
    GIVE_UP = auto()  #: some of its slices can never run again
    FORGET = auto()  #: nothing of it is due here


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded wave, looked at."""

    step: Step
    #: what is due of it, under this driver's epochs
    due: Wave
    #: streams of it that wait
    waiting: set[StreamId]
    #: slices of it that can never run again
    gone: list[Slice]

    def labels(self) -> dict[StreamId, str]:
        """A name for each of the two parts it can be divided into."""
        streams = {piece.lane.stream for piece in self.due.slices}
        return {each: "stopped" if each in self.waiting else "" for each in streams}


def look(recorded: Wave, is_time: bool, board: Board) -> Replay:
    """Decide about a recorded wave; ``is_time`` says that the wait after a failure is over."""
    due = renewed(recorded, board)
    streams, waiting = {piece.lane.stream for piece in due.slices}, stopped(due, board)
    gone = past_the_end(due, waiting, board)
    if gone:
        step = Step.GIVE_UP
    elif not streams:
        step = Step.FORGET
    elif not is_time or waiting == streams:
        step = Step.WAIT
    else:
        step = Step.DIVIDE if waiting else Step.RUN
    return Replay(step, due, waiting, gone)


def due_again(committer: Committer, board: Board, now_s: float) -> Iterator[Wave]:
    """Each recorded wave that is to run now; it is no longer waited for once it has been started.

    On the way those of which only some can run are divided, given up or forgotten, and what is left
    is looked at in turn. What waits has its lanes all the same.
    """
    replays, at = committer.replays, 0
    while at < len(replays):
        due_s, recorded = replays[at]
        replay = look(recorded, due_s <= now_s, board)
        # Nothing else of its lanes may be planned before it; their neighbours go on.
        board.claimed(recorded, replay.due)
        if replay.step is Step.RUN:
            yield replay.due
        left = _left(recorded, replay, committer, board)
        replays[at : at + 1] = [(due_s, each) for each in left]
        # What did not get less is not looked at again before the next turn.
        if any(len(list(each.slices)) >= len(list(recorded.slices)) for each in left):
            at += len(left)


def _left(recorded: Wave, replay: Replay, committer: Committer, board: Board) -> list[Wave]:
    """Do what was decided about a recorded wave; what is left to run of it."""
    match replay.step:
        case Step.RUN:
            return []
        case Step.WAIT:
            return [recorded]
        case Step.DIVIDE:
            left = committer.divide(replay.due, replay.labels())
            board.ended(recorded)
            return left
        case Step.GIVE_UP:
            return committer.give_up(recorded, replay.gone)
        case Step.FORGET:
            # What is still to do is of streams not held yet, or in a second record.
            return committer.forget(recorded)


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
