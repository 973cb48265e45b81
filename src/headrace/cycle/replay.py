"""Running recorded waves again, unchanged, after a driver died or a job failed.

An intent says exactly which slices ran. Whether they did, nobody knows, but their effects have an
identity, so running the very same slices again leaves the same state as once. New slices, cut
elsewhere, would not: that is why a replay comes before any planning of these lanes.

Only the epoch is new: the slices are ours now, and the moves must be made under our own token.

A replay waits for whatever its stream would wait for. Of a wave in which only some do, the others
are divided from them first: nobody waits for somebody else's trouble.

A slice that ends behind its log can never run again as it was: the topic is another one by now, or
was cut. Nor can one whose topic was made again since, long as that may be. It is given up, as its
lane would wait for records that nobody has to send. That a log is too short is believed when every
answer for longer than a broker's session says so (decision 0020): a leader that is cut off tells
too low an end, and new slices would leave effects beside those of the old one.

A handler of DataFrames writes under the id of its wave. What goes on of such a wave keeps that id,
so that it replaces all that a lost attempt left there, that of whoever waits included.

A wave that no version here can run as it was holds back its streams, and tells people why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

import structlog

from headrace.cycle.board import Board
from headrace.cycle.commit import Committer
from headrace.cycle.versions import Versions
from headrace.log_fields import of_stream
from headrace.model.streams import LaneId, Order, Slice, State, StreamId
from headrace.model.waves import Wave
from headrace.policies.data_loss import CUT_PATIENCE_S, seen_short

log = structlog.get_logger(__name__)

#: a log that seems too short for what was recorded is asked for again so often
_LOOK_EVERY_S = 2.0


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
        """A name for each part it is divided into; streams without one stay in the wave itself."""
        streams = {piece.lane.stream for piece in self.due.slices}
        if self.due.writes_by_id:
            streams &= self.waiting
        return {each: "stopped" if each in self.waiting else "" for each in streams}


def look(recorded: Wave, is_time: bool, board: Board) -> Replay:
    """Decide about a recorded wave; ``is_time`` says that the wait after a failure is over."""
    due = renewed(recorded, board)
    streams, waiting = {piece.lane.stream for piece in due.slices}, stopped(due, board)
    short = [piece for piece in due.slices if _is_short(piece, board)]
    lost = [piece for piece in short if _is_surely_short(piece, board)]
    if due.terms is not None and due.terms.order is Order.STREAM:
        lost = _with_merged(lost, recorded, due, board)
    gone = [piece for piece in lost if piece.lane.stream not in waiting]
    gone += _of_another_topic(recorded, board)
    waiting |= {piece.lane.stream for piece in short}
    if gone:
        step = Step.GIVE_UP
    elif not streams:
        step = Step.FORGET
    elif not is_time or waiting == streams:
        step = Step.WAIT
    else:
        step = Step.DIVIDE if waiting else Step.RUN
    return Replay(step, due, waiting, gone)


def due_again(
    committer: Committer, versions: Versions, board: Board, now_s: float
) -> Iterator[Wave]:
    """Each recorded wave that is to run now; it is no longer waited for once it has been started.

    On the way those of which only some can run are divided, given up or forgotten, and what is left
    is looked at in turn. What waits has its lanes all the same.
    """
    replays, at = committer.replays, 0
    waves = [recorded for _, recorded in replays]
    _hold_back(waves, versions, board)
    committer.ask_again(past_the_end(waves, board, now_s))
    while at < len(replays):
        due_s, recorded = replays[at]
        replay = look(recorded, due_s <= now_s, board)
        # Nothing else of its lanes may be planned before it; their neighbours go on.
        board.claimed(recorded, replay.due)
        if replay.step is Step.RUN:
            due = versions.again(replay.due)
            assert due is not None, "it is held back"
            yield due
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


def _hold_back(waves: Iterable[Wave], versions: Versions, board: Board) -> None:
    """Let the streams of waves that nothing here can run as they were wait for a decision."""
    reasons = {
        piece.lane.stream: versions.why_not(each, piece.lane.stream)
        for each in waves
        if versions.again(each) is None
        for piece in renewed(each, board).slices
    }
    for stream in reasons.keys() - board.owing:
        log.error("recorded slices can not run", **of_stream(stream), why=reasons[stream])
    board.owe(reasons)


def renewed(wave: Wave, board: Board) -> Wave:
    """The slices of a recorded wave that are still to do, under this driver's epochs.

    A slice whose position has moved away is done, or was sought past; one whose stream is not
    held here any more is somebody else's; one of a topic that was made again since means other
    records by now. One that runs is in a second record of the same slices, which a kill can leave
    behind while a wave is divided. Bins left empty are dropped.
    """
    bins = (
        replace(
            each,
            slices=tuple(
                replace(piece, epoch=held.epoch)
                for piece in each.slices
                if (held := board.streams.get(piece.lane.stream)) is not None
                and (lane := board.lane(piece.lane)) is not None
                and piece.epoch >= held.topic_since
                and lane.position == piece.from_offset
                and lane.wave not in board.flights
            ),
        )
        for each in wave.bins
    )
    return replace(wave, bins=tuple(each for each in bins if each.slices))


def _of_another_topic(recorded: Wave, board: Board) -> Iterator[Slice]:
    """Slices whose topic was made again since: other records have their offsets by now."""
    for piece in recorded.slices:
        held = board.streams.get(piece.lane.stream)
        if held is not None and piece.epoch < held.topic_since:
            yield replace(piece, epoch=held.epoch)


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
    if lane is None or lane.position != piece.from_offset or lane.end < 0:
        return False
    before = lane.behind
    if lane.end >= piece.until_offset:
        lane.behind = None
        return False
    if before is not None and now_s - before.last_s < _LOOK_EVERY_S:
        return False
    lane.behind = seen_short(before, piece.until_offset, now_s, CUT_PATIENCE_S)
    return True


def _is_short(piece: Slice, board: Board) -> bool:
    """Whether its log ended before the slice does, when it was last told."""
    lane = board.lane(piece.lane)
    return lane is not None and lane.behind is not None and lane.end < piece.until_offset


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
    """Streams of a wave that wait for a person, or for what is not clear about their topics."""
    found = set()
    for piece in wave.slices:
        held, lane = board.streams.get(piece.lane.stream), board.lane(piece.lane)
        if held is None or lane is None:
            continue
        if lane.failure is not None or held.waits or held.state is State.SUSPENDED:
            found.add(piece.lane.stream)
    return found
