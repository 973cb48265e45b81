"""What becomes of a stream that was left alone and whose use case wants nothing old.

The store has noted such a stream when it was taken over (``Stream.silent_s``). From then on nothing
new of it is planned: first whatever was recorded of it comes to its end, and then its log is asked
where it ends, or which records are young enough. What is before that is passed over, all lanes in
one transaction with the note of each range, as what a log lost is (`losses.py`): the range is kept
as a failure that is over, and the first slice behind it says to its handler what is missing
(``Slice.passed_over``). The epoch is raised, so what still runs of a dead driver is refused. What
retention took meanwhile is part of such a range, if what is left has waited; of other losses
`losses.py` decides before.

A stream of which nothing waited for long enough goes on where it is. Which it is, and where lanes
go on, is decided in ``policies/restarting.py``; that a stream was left alone, in the store.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import structlog

from headrace.board import Board, HeldStream
from headrace.cycle.ends import Ends
from headrace.cycle.talks import Talk
from headrace.model.buckets import share_of
from headrace.model.lane_names import said
from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.restarts import Restart
from headrace.model.streams import LaneId, Slice, State, StreamId
from headrace.policies.restarting import RestartEdges, movable, passed_over, unanswered
from headrace.ports import Clock, Log, Progress
from headrace.telemetry.log_fields import of_stream
from headrace.telemetry.report import Reporter

log = structlog.get_logger(__name__)

#: code of what is kept of a range that was passed over
PASSED_OVER = "PassedOver"
#: a log that could not tell is asked again after so long
_AGAIN_S = 1.0
#: for so long a turn may decide
_MOST_S = 0.2


class _Asked(NamedTuple):
    """A stream whose log is asked, as it was then."""

    held: HeldStream
    epoch: int
    restart: Restart | None
    #: of the lanes that may be moved
    places: dict[str, Place]


class _Told(NamedTuple):
    """What a log says of lanes: by seconds since 1970, and their ends."""

    then: Mapping[float, Mapping[str, Place]]
    starts: Mapping[str, Place]
    ends: Mapping[str, Place]

    def edges(self, restart: Restart, now_s: float) -> RestartEdges:
        """What is needed of it for a stream."""
        waited = self.then.get(now_s - restart.after_s, {})
        if restart.max_age_s is None:
            return RestartEdges(self.starts, waited, self.ends)
        return RestartEdges(self.starts, waited, self.then.get(now_s - restart.max_age_s, {}))


@dataclass(slots=True)
class Restarts:
    """Lets streams on a board pass over what is too old of them."""

    progress: Progress
    board: Board
    reporter: Reporter
    clock: Clock
    #: told which streams' lanes are elsewhere
    ends: Ends
    _due: dict[StreamId, HeldStream] = field(default_factory=dict)
    #: of which their log has told, and nothing is decided yet
    _told: deque[tuple[_Asked, _Told, float]] = field(default_factory=deque)
    _not_before_s: float = float("-inf")

    def follow(self, held: HeldStream) -> None:
        """Let a stream pass over what is too old, if that was noted of it."""
        if held.restarts:
            self._due[held.stream.id] = held
        else:
            self.leave(held.stream.id)

    def leave(self, stream: StreamId) -> None:
        """Nothing of it is to be passed over here."""
        self._due.pop(stream, None)

    def ask(self, now_s: float) -> Talk[None]:
        """Pass over what is due, as soon as nothing of it runs or is to run again.

        Each decision is a transaction, and after a crash a thousand may be due; so a turn makes as
        many as a moment has room for, and the next one goes on.

        Raises:
            BrokerUnavailable: nothing was learned; it is asked again.
            StoreUnavailable: a decision may or may not be in the store; look at it again.
        """
        if not self._told:
            due = [held for held in self._due.values() if self._is_settled(held)]
            if not due or now_s < self._not_before_s:
                return
            self._not_before_s = now_s + _AGAIN_S
            asked, asked_s = [self._asked(held) for held in due], self.clock.now_s()
            told: _Told = yield partial(_ask, *_wanted(asked, asked_s))
            self._told.extend((one, told, asked_s) for one in asked)
        until_s = self.clock.monotonic_s() + _MOST_S
        while self._told:
            self._decide_if_same(*self._told.popleft())
            if self.clock.monotonic_s() >= until_s:
                return

    def _decide_if_same(self, asked: _Asked, told: _Told, asked_s: float) -> None:
        """Decide about a stream, if it is as it was when its log was asked."""
        held = asked.held
        same = self._due.get(held.stream.id) is held and held.epoch == asked.epoch
        if same and self._is_settled(held) and self._asked(held) == asked:
            self._decide(asked, told, asked_s)

    def _is_settled(self, held: HeldStream) -> bool:
        """Whether nothing of a stream runs, is to run again, or holds it back."""
        if held.state is not State.ACTIVE or held.waits or not held.lanes:
            return False
        owes = held.sets_aside or held.stream.id in self.board.owed
        return not (owes or self.board.runs(held))

    def _asked(self, held: HeldStream) -> _Asked:
        there = {name: lane.position for name, lane in held.lanes.items() if not lane.gone}
        stopped = {name for name, lane in held.lanes.items() if lane.failure is not None}
        merged = held.deployment.order.merges_lanes
        restart = held.deployment.restart
        return _Asked(
            held, held.epoch, restart, movable(there, stopped, held.lineage, merged=merged)
        )

    def _decide(self, asked: _Asked, told: _Told, asked_s: float) -> None:
        held, restart, to = asked.held, asked.restart, dict[str, Place]()
        if restart is not None:
            edges = told.edges(restart, asked_s)
            if (silent := unanswered(asked.places, edges)) is not None:
                held.too_old = (
                    f"it was left alone and goes to the end of its log, and nobody says now where "
                    f"{silent} ends"
                )
                return
            to = passed_over(asked.places, edges, held.ends)
        held.too_old = None
        if to and restart is not None:
            self._pass_over(held, to, restart)
        elif self.progress.stay(held.stream.id, held.epoch):
            self._is_over(held)

    def _pass_over(self, held: HeldStream, to: Mapping[str, Place], restart: Restart) -> None:
        """Send lanes on, and keep what they passed over: all of them, or none."""
        stream = held.stream.id
        moves = [
            Move(LaneId(*stream, name), held.lanes[name].position, at, held.epoch)
            for name, at in to.items()
        ]
        notes = [self._note(held, move, restart) for move in moves]
        epoch = self.progress.pass_over(stream, moves, notes)
        positions = self.progress.load_positions([stream])
        if epoch is not None:
            held.epoch, held.stream = epoch, replace(held.stream, epoch=epoch)
            for name, at in to.items():
                held.lanes[name].restart(at)
        self.board.fill(positions)
        if epoch is not None:
            self._tell(stream, notes)
            self._is_over(held)

    def _is_over(self, held: HeldStream) -> None:
        """It goes on from where its lanes are."""
        held.stream = replace(held.stream, silent_s=None)
        self.leave(held.stream.id)
        self.ends.follow(held)
        self.ends.hurry(held)
        self.board.ready[held.stream.id] = None

    def _note(self, held: HeldStream, move: Move, restart: Restart) -> Failure:
        """A range that is passed over, as a failure that stops nothing."""
        start, until = move.from_offset, move.to_offset
        records = held.measures.between(until, start) or 0
        piece = Slice(move.lane, held.stream.topic, start, until, held.epoch, records=records)
        error = SliceError(temporary=False, code=PASSED_OVER, message=_why(held, piece, restart))
        return Failure(piece, error, self.clock.now_s(), attempts=0, state=FailureState.SKIPPED)

    def _tell(self, stream: StreamId, notes: Sequence[Failure]) -> None:
        passed = {note.slice.lane.name: note.slice.records for note in notes}
        self.reporter.meter(stream).passed_over_records += share_of(passed)
        for note in notes:
            self.reporter.meter(stream).note(note.error.message, self.clock.now_s())
            log.warning("old records passed over", **of_stream(stream), why=note.error.message)


def _wanted(asked: Sequence[_Asked], now_s: float) -> tuple[dict[float, list[str]], list[str]]:
    """Which lanes are asked about by time, and of which the end is."""
    then, ends = dict[float, list[str]](), list[str]()
    for _, _, restart, places in asked:
        if restart is None:
            continue
        then.setdefault(now_s - restart.after_s, []).extend(places)
        if restart.max_age_s is None:
            ends.extend(places)
        elif restart.max_age_s != restart.after_s:
            then.setdefault(now_s - restart.max_age_s, []).extend(places)
    return then, ends


def _ask(then: Mapping[float, Sequence[str]], ends: Sequence[str], log: Log) -> _Told:
    """Asked in a thread."""
    told = {at_s: log.offsets_at(lanes, at_s) for at_s, lanes in then.items()}
    lanes = {name for wanted in then.values() for name in wanted}
    starts = log.start_offsets(lanes) if lanes else {}
    return _Told(told, starts, log.end_offsets(ends) if ends else {})


def _why(held: HeldStream, piece: Slice, restart: Restart) -> str:
    records = f", {piece.records} records" if piece.records else ""
    offsets = f"{piece.from_offset}..{piece.until_offset}"
    gone = f"{piece.lane.name} passed over offsets {offsets}{records}"
    left = (
        f"its last driver did not give the stream back, and nobody had committed it for "
        f"{held.stream.silent_s:.0f} s (restart latest after {restart.after_s:g} s)"
    )
    young = "" if restart.max_age_s is None else f"; it goes on {restart.max_age_s:g} s ago"
    return f"{gone}: {left}{young}; {_reads_them(piece)}"


def _reads_them(piece: Slice) -> str:
    stream, topic = piece.lane.stream, piece.lane_topic
    to = json.dumps({topic: {said(piece.lane.name, topic): piece.from_offset}})
    return f"headrace streams seek {stream} --to '{to}' reads them"
