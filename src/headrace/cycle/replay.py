"""What becomes of a recorded wave in this turn: run, wait, divide, give up or forget.

Only epoch, depth and ordinal of its slices are new: they are ours now, and the moves must be made
under our own token; and what comes after a seek is newer than what comes again before it.

A replay waits for whatever its stream would wait for. Of a wave in which only some do, the others
are divided from them first: nobody waits for somebody else's trouble.

A lane that is closed, since a seek sent back what it follows, waits for that too.

A slice that ends behind its log can never run again as it was: the topic is another one by now, or
was cut. Nor can one whose topic was made again since, long as that may be, nor one at the end of a
lane that its log does not list any more, in which there never was anything. It is given up, as its
lane would wait for records that nobody has to send. That a log is too short is believed when every
answer for longer than a broker's session says so (decision 0020): a leader that is cut off tells
too low an end, and new slices would leave effects beside those of the old one.

A handler of DataFrames writes under the id of its wave. What goes on of such a wave runs under that
id, so that it replaces all that a lost attempt left there, that of whoever waits included. Who
waits stays in the record, and has a name of its own when somebody came through, and not before, as
nobody ever may. Where calls hang, their tenants run so in groups, one after the other.

This only decides, and keeps on a lane what was told of its log; `recorded.py` does it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from headrace.board import Board
from headrace.model.places import UNKNOWN
from headrace.model.streams import LaneId, Slice, State, StreamId
from headrace.model.waves import Wave
from headrace.policies.data_loss import CUT_PATIENCE_S, seen_short

#: a log that seems too short for what was recorded is asked for again so often
_LOOK_EVERY_S = 2.0


class ReplayStep(Enum):
    """What becomes of a recorded wave in this turn."""

    RUN = auto()  #: what is due of it runs
    WAIT = auto()  #: it is not time, or all of its streams wait
    #: some of its streams wait, and the others go on in a part without them, or its id is taken
    DIVIDE = auto()
    GIVE_UP = auto()  #: some of its slices can never run again
    FORGET = auto()  #: nothing of it is due here


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded wave, looked at."""

    step: ReplayStep
    #: what is due of it, under this driver's epochs
    due: Wave
    #: what of that runs now, if any does
    going: Wave
    #: streams of it that wait
    waiting: set[StreamId]
    #: slices of it that can never run again
    gone: list[Slice]

    def labels(self) -> dict[StreamId, str]:
        """A name for each part it is divided into."""
        streams = {piece.lane.stream for piece in self.due.slices}
        return {stream: "stopped" if stream in self.waiting else "" for stream in streams}


def decide(
    recorded: Wave, is_time: bool, board: Board, groups: Sequence[Collection[StreamId]] = ()
) -> Replay:
    """Decide about a recorded wave.

    Args:
        recorded: as it is written down.
        is_time: the wait after a failure is over.
        board: what is known of its lanes.
        groups: streams of it that run one group after the other under its id.
    """
    due = renewed(recorded, board)
    streams, waiting = {piece.lane.stream for piece in due.slices}, stopped(due, board)
    short = [piece for piece in due.slices if _is_short(piece, board)]
    lost = [piece for piece in short if _is_surely_short(piece, board)]
    if due.merges_lanes:
        lost = _with_merged(lost, recorded, due, board)
    gone = [piece for piece in lost if piece.lane.stream not in waiting]
    gone += _of_another_topic(recorded, board)
    going = (piece for piece in due.slices if piece.lane.stream not in waiting)
    gone += [piece for piece in going if _is_over(piece, board)]
    if due.merges_lanes:
        gone += _before_others(due, board)
    waiting |= {piece.lane.stream for piece in short}
    if gone:
        step = ReplayStep.GIVE_UP
    elif not streams:
        step = ReplayStep.FORGET
    elif not is_time or waiting == streams:
        step = ReplayStep.WAIT
    else:
        divides = due.taken or (waiting and not due.writes_by_id)
        step = ReplayStep.DIVIDE if divides else ReplayStep.RUN
    now = _whose_turn(streams - waiting, groups)
    return Replay(step, due, due.only(lambda piece: piece.lane.stream in now), waiting, gone)


def _whose_turn(
    streams: set[StreamId], groups: Sequence[Collection[StreamId]]
) -> Collection[StreamId]:
    """The first group of which somebody can go; those of no group are the last one."""
    in_none = streams.difference(*groups)
    return next(filter(None, (streams.intersection(group) for group in (*groups, in_none))), ())


def renewed(wave: Wave, board: Board) -> Wave:
    """The slices of a recorded wave that are still to do, under this driver's epochs.

    A slice whose position has moved away is done, or was sought past; one whose stream is not
    held here any more is somebody else's; one of a topic that was made again since means other
    records by now. One that runs is in a second record of the same slices, which a kill can leave
    behind while a wave is divided. Bins left empty are dropped.
    """
    bins = (
        replace(
            bin_,
            slices=tuple(
                replace(piece, epoch=held.epoch, depth=lane.depth, ordinal=lane.ordinal)
                for piece in bin_.slices
                if (held := board.streams.get(piece.lane.stream)) is not None
                and (lane := board.lane(piece.lane)) is not None
                and piece.epoch >= held.since(piece.lane.name)
                and lane.position == piece.from_offset
                and lane.wave not in board.flights
            ),
        )
        for bin_ in wave.bins
    )
    return replace(wave, bins=tuple(bin_ for bin_ in bins if bin_.slices))


def _of_another_topic(recorded: Wave, board: Board) -> Iterator[Slice]:
    """Slices whose topic was made again since: other records have their offsets by now."""
    for piece in recorded.slices:
        held = board.streams.get(piece.lane.stream)
        if held is not None and piece.epoch < held.since(piece.lane.name):
            yield replace(piece, epoch=held.epoch)


def _is_over(piece: Slice, board: Board) -> bool:
    """Whether it is at the end of a lane that its log does not list any more: nobody can read it.

    Of one whose end nobody tells it was recorded before that was read. What is lost of a lane that
    is not at its end is told, and decided about, before this is asked.
    """
    held, lane = board.streams.get(piece.lane.stream), board.lane(piece.lane)
    if held is None or lane is None or not lane.gone:
        return False
    until = held.ends.get(piece.lane.name)
    return until is not None and piece.from_offset >= until


def _before_others(due: Wave, board: Board) -> list[Slice]:
    """Slices of merged lanes of which one is closed since: what it follows was sent back.

    They are one call, which would hold the lanes that have to be done before it.
    """
    streams = {piece.lane.stream for piece in due.slices if _is_closed(piece, board)}
    return [piece for piece in due.slices if piece.lane.stream in streams]


def _is_closed(piece: Slice, board: Board) -> bool:
    """Whether something comes before it still; of a removed stream nothing does any more."""
    held = board.streams.get(piece.lane.stream)
    if held is None or not held.heirs or held.state is State.REMOVED:
        return False
    return piece.lane.name in held.closed


def past_the_end(waves: Iterable[Wave], board: Board, now_s: float) -> list[LaneId]:
    """Lanes whose logs seem too short for recorded waves, each due to be asked again.

    What is told of each is kept on its lane.
    """
    found = []
    for wave in waves:
        waiting = stopped(wave, board)
        going = [piece for piece in wave.slices if piece.lane.stream not in waiting]
        found += [piece.lane for piece in going if _seems_short(piece, board, now_s)]
    return found


def _seems_short(piece: Slice, board: Board, now_s: float) -> bool:
    """Keep what is known of the end of a log; whether it is to be asked for again."""
    lane = board.lane(piece.lane)
    if lane is None or lane.position != piece.from_offset or lane.end == UNKNOWN:
        return False
    if lane.visits is not None:
        return False  # nobody knows where its log ends
    before = lane.behind
    if lane.end >= piece.until_offset:
        lane.behind = None
        return False
    if before is not None and now_s - before.last_s < _LOOK_EVERY_S:
        return False
    lane.behind = seen_short(before, piece.until_offset, lane.asked_s, now_s, CUT_PATIENCE_S)
    return True


def _is_short(piece: Slice, board: Board) -> bool:
    """Whether its log ended before the slice does, when it was last told."""
    lane = board.lane(piece.lane)
    if lane is None or lane.visits is not None:
        return False
    return lane.behind is not None and lane.end < piece.until_offset


def _is_surely_short(piece: Slice, board: Board) -> bool:
    lane = board.lane(piece.lane)
    known = lane and lane.behind
    return bool(known and known.position == piece.until_offset and known.lasts(CUT_PATIENCE_S))


def _with_merged(lost: Collection[Slice], recorded: Wave, due: Wave, board: Board) -> list[Slice]:
    """What can not run without slices that are lost, or that their lanes are in the middle of.

    Its lanes are merged. What is left of those slices is planned anew, and belongs between the
    records of the others, which would be before it if they ran as they were.
    """
    streams = {piece.lane.stream for piece in lost}
    for piece in recorded.slices:
        lane = board.lane(piece.lane)
        if lane is not None and piece.from_offset < lane.position < piece.until_offset:
            streams.add(piece.lane.stream)
    return [piece for piece in due.slices if piece.lane.stream in streams]


def stopped(wave: Wave, board: Board) -> set[StreamId]:
    """Streams of a wave that wait: for a person, for other lanes, or until a topic is clear."""
    found = set()
    for piece in wave.slices:
        held, lane = board.streams.get(piece.lane.stream), board.lane(piece.lane)
        if held is None or lane is None:
            continue
        waits = held.waits or held.state is State.SUSPENDED or _is_closed(piece, board)
        waits = waits or lane.away
        if lane.failure is not None or waits:
            found.add(piece.lane.stream)
    return found
