"""Waves of exactly-once: written down before they run, and run again as they were.

An intent says exactly which slices ran. Whether they did, nobody knows after a kill, but their
effects have an identity, so running the very same slices again leaves the same state as once. New
slices, cut elsewhere, would not: that is why what is recorded comes before any planning of its
lanes.

A wave that no version here can run as it was holds back its streams, and tells people why.

Here is all that is done with them: recording, finding those of an earlier life, dividing, running
again, giving up, forgetting. What is to be done with one in this turn is decided in `replay.py`,
what is left of one that came back in `unfinished.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from headrace.board import Board
from headrace.cycle.fences import Fences
from headrace.cycle.parts import parts_of
from headrace.cycle.replay import Replay, ReplayStep, decide, past_the_end, renewed
from headrace.cycle.versions import Versions
from headrace.model.receipts import SliceError
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.topic_lists import part_of_lane
from headrace.model.waves import Wave
from headrace.policies.quarantine import HURTS_NEIGHBOURS, divided
from headrace.ports import Clock, Finished, Progress
from headrace.telemetry.log_fields import of_stream, of_wave

log = structlog.get_logger(__name__)

#: a wave whose job was lost so often in a row may have a stream that executors die of
LOST_OFTEN = 4


class WaitingReplay(NamedTuple):
    """A recorded wave that is to run again."""

    #: of the steady clock; not before
    due_s: float
    wave: Wave


class LostWave(NamedTuple):
    """What is left of a recorded wave whose job was lost."""

    waves: list[Wave]
    #: how often in a row its job was lost; 0 where it was divided, and need not wait
    times: int


@dataclass(slots=True)
class _Known:
    """What this life knows of a recorded wave; forgotten when nothing of it is written down."""

    #: how often in a row its job was lost
    times_lost: int = 0
    #: it was tried before, and nobody knows what that left
    tried: bool = False
    #: streams that run one group after the other under its id, in that order
    groups: list[set[StreamId]] = field(default_factory=list)

    def to_the_end(self, ran: Collection[set[StreamId]], left: Collection[StreamId]) -> None:
        """Groups that ran and did not come through do so again when what else is left did."""
        others = set(left).difference(*self.groups)
        before = [group.difference(*ran) for group in (*self.groups, others)]
        self.groups = [group for group in (*before, *ran) if not group.isdisjoint(left)]


@dataclass(slots=True)
class RecordedWaves:
    """The recorded waves of one driver."""

    progress: Progress
    board: Board
    clock: Clock
    #: the name that they are written down in
    driver: str
    #: those that are to run again, in the order in which they are looked at
    waiting: list[WaitingReplay] = field(default_factory=list)
    _known: defaultdict[str, _Known] = field(default_factory=lambda: defaultdict(_Known))
    #: somebody else may have a wave that was to run: who has its streams is to be looked at
    is_refused: bool = False
    #: one whose recording was not answered
    _unsure: Wave | None = None
    _fences: Fences = field(init=False)

    def __post_init__(self) -> None:
        """Give bins fences of this driver's name."""
        self._fences = Fences(self.driver)

    @property
    def streams(self) -> set[StreamId]:
        """Streams of which something waits to run again."""
        return {piece.lane.stream for _, wave in self.waiting for piece in wave.slices}

    # recording and finding

    def record(self, wave: Wave, slots: int) -> Wave | None:
        """Write a new wave down, with fences that no other has; None if its streams are others'.

        Raises:
            StoreUnavailable: it may be written down all the same; see ``find``.
        """
        others = [flight.wave for flight in self.board.flights.values()]
        others += [waiting for _, waiting in self.waiting]
        self._unsure = wave = self._fences.given(wave, others, slots)
        recorded = self.progress.record_intent(wave, self.driver)
        self._unsure = None
        return wave if recorded else None

    def find(self, use_cases: Collection[str]) -> None:
        """Recorded waves of an earlier life come back before anything is planned.

        Of those that are known already some may be less by now: a tenant was added again.

        The commit of one whose recording was not answered may still be under way, where nobody sees
        it. To write it down again waits for that, and changes nothing if it was done.
        """
        if self._unsure is not None:
            self.progress.record_intent(self._unsure, self.driver)
            self._unsure = None
        now_s = self.clock.monotonic_s()
        pending = self.progress.pending_intents(self.driver)
        due_s = {wave.id: at_s for at_s, wave in self.waiting}
        for _, wave in self.waiting:
            self.board.ended(wave)
            self._forget_unless(pending, wave)
        self.waiting.clear()
        for wave in pending:
            if wave.use_case not in use_cases or wave.id in self.board.flights:
                continue
            self.waiting.append(WaitingReplay(due_s.get(wave.id, now_s), wave))
            if wave.id not in due_s:
                known = self._known[wave.id] = _Known(tried=True)
                if wave.turn:
                    # Its last call may be asleep, and replace what others wrote under the id.
                    known.groups.append({StreamId(wave.use_case, name) for name in wave.turn})
                log.info("recorded wave found; it runs again unchanged", **of_wave(wave))

    def was_tried(self, wave: Wave) -> bool:
        """Whether an attempt was made at it of which nobody knows what it left."""
        return self._known[wave.id].tried

    # coming back

    def finish(
        self,
        wave: Wave,
        moves: Sequence[Move],
        over: Collection[Slice],
        nothing: Collection[Slice],
        rest: Collection[Wave],
    ) -> Finished:
        """Move positions; the ``rest`` stays written down, in parts where it has other names.

        Whoever came through under the id of a wave has it from now on: the store says then that it
        is taken, and those who waited beside get names of their own when they are to run.

        Raises:
            StoreUnavailable: call again with the same.
        """
        parts = [part for part in rest if part.id != wave.id]
        return self.progress.finish_intent(
            wave.id, moves, self.driver, over=over, nothing=nothing, parts=parts
        )

    def came_back(self, wave: Wave, left: Collection[Wave]) -> None:
        """A wave's job came back; nothing is remembered of it but what is left.

        Of groups that run under the id of a wave one that did not come through is the last from now
        on: the next one does not wait until a broker is back, or a handler works.
        """
        known = self._known[wave.id]
        known.times_lost = 0
        if known.groups:
            known.to_the_end([{piece.lane.stream for piece in wave.slices}], _under(wave.id, left))
        self._forget_unless(left, wave)

    def _forget_unless(self, left: Collection[Wave], wave: Wave) -> None:
        """Remember nothing of a wave, unless it is among what is left."""
        if wave.id not in [part.id for part in left]:
            self._known.pop(wave.id, None)

    def lost(self, wave: Wave, error: SliceError) -> LostWave:
        """A wave whose job was lost runs again as it was; in parts, if one of its streams kills it.

        An executor that dies blames nobody, though a stream may be what it dies of. So a wave that
        is lost again and again is divided as well, slowly, as most often it is the cluster.

        What an attempt may have written under the id of its wave, only that id replaces. So streams
        of such a wave run one group after the other under it, until one comes through.

        What is left of it is the store's to say: a tenant may have been added again meanwhile.
        """
        streams = {piece.lane.stream for piece in wave.slices}
        known = self._known[wave.id]
        times = known.times_lost + 1
        hurts = error.code in HURTS_NEIGHBOURS and len(streams) > 1
        apart = hurts or (times % LOST_OFTEN == 0 and len(streams) > 1)
        if apart and not wave.writes_by_id:
            left = self._divide(wave, divided(streams, wave.id))
        else:
            left = self._forget(wave)
            if apart or known.groups:
                known.to_the_end(_apart(streams, wave.id), _under(wave.id, left))
        times = 0 if hurts else times
        for part in left:
            self._known[part.id].times_lost = times
            self._known[part.id].tried = True
        return LostWave(left, times)

    # running again

    def short_logs(self, versions: Versions, now_s: float) -> list[LaneId]:
        """Lanes whose logs seem too short for what waits, each due to be asked again.

        Streams of waves that nothing here can run as they were wait for a decision from now on.
        """
        waves = [wave for _, wave in self.waiting]
        reasons = {
            piece.lane.stream: versions.why_not(wave, piece.lane.stream)
            for wave in waves
            if versions.again(wave) is None
            for piece in renewed(wave, self.board).slices
        }
        for stream in reasons.keys() - self.board.owing:
            log.error("recorded slices can not run", **of_stream(stream), why=reasons[stream])
        self.board.owe(reasons)
        self.board.owe_of_topics(self._away(waves))
        return past_the_end(waves, self.board, now_s)

    def _away(self, waves: Collection[Wave]) -> dict[StreamId, set[str]]:
        """Topics and partitions that are not there, by streams of which some of it is recorded."""
        found = dict[StreamId, set[str]]()
        for piece in (piece for wave in waves for piece in renewed(wave, self.board).slices):
            lane = self.board.lane(piece.lane)
            if lane is not None and lane.away:
                part = part_of_lane(piece.lane.name, piece.topic)
                found.setdefault(piece.lane.stream, set()).add(part)
        return found

    def due(
        self, versions: Versions, now_s: float, may_run: Callable[[Wave], bool]
    ) -> Iterator[Wave]:
        """Each wave that is to run now; it waits no longer once it has been started.

        One that ``may_run`` has no slot for keeps its place and its lanes.

        On the way those of which only some can run are divided, given up or forgotten, and what is
        left is looked at in turn. What waits has its lanes all the same.
        """
        at = 0
        while at < len(self.waiting):
            due_s, wave = self.waiting[at]
            replay = decide(wave, due_s <= now_s, self.board, self._known[wave.id].groups)
            # Nothing else of its lanes may be planned before it; their neighbours go on.
            self.board.claimed(wave, replay.due)
            if replay.step is ReplayStep.RUN and not may_run(replay.going):
                at += 1
                continue
            if replay.step is ReplayStep.RUN and not self._takes_turn(wave, replay.going):
                replay = replace(replay, step=ReplayStep.WAIT)
            if replay.step is ReplayStep.RUN:
                again = versions.again(replay.going)
                assert again is not None, "it is held back"
                yield again
            left = self._left(wave, replay)
            self.waiting[at : at + 1] = [WaitingReplay(due_s, part) for part in left]
            # What did not get less is not looked at again before the next turn, but for a new name.
            size = len(list(wave.slices))
            if any(part.id == wave.id and len(list(part.slices)) >= size for part in left):
                at += len(left)

    def _labels(self, wave: Wave, replay: Replay) -> dict[StreamId, str]:
        """A name for each part it is divided into; who ran in a group of their own stay in it.

        Else one at whom calls hang would be looked for in all of them once more.
        """
        labels = replay.labels()
        for number, group in enumerate(self._known[wave.id].groups):
            labels |= {
                stream: str(number) for stream in labels.keys() & group if not labels[stream]
            }
        return labels

    def _takes_turn(self, wave: Wave, going: Wave) -> bool:
        """Write down who runs under the id of a wave; False if somebody else may have it by now."""
        all_begins, begins = ({piece.begin for piece in of.slices} for of in (wave, going))
        tenants = {piece.lane.tenant for piece in going.slices}
        turn = () if begins == all_begins else tuple(sorted(tenants))
        if not wave.writes_by_id or turn == wave.turn:
            return True
        takes = self.progress.take_turn(going, turn, self.driver)
        self.is_refused |= not takes
        return takes

    def _left(self, wave: Wave, replay: Replay) -> list[Wave]:
        """Do what was decided about a recorded wave; what is left to run of it."""
        match replay.step:
            case ReplayStep.RUN:
                return []
            case ReplayStep.WAIT:
                return [wave]
            case ReplayStep.DIVIDE:
                left = self._divide(replay.due, self._labels(wave, replay))
                self.board.ended(wave)
                return left
            case ReplayStep.GIVE_UP:
                return self._give_up(wave, replay.gone)
            case ReplayStep.FORGET:
                # What is still to do is of streams not held yet, or in a second record.
                return self._forget(wave)

    def _divide(self, wave: Wave, labels: dict[StreamId, str]) -> list[Wave]:
        """Write a wave down in parts, a part for each label; what is left to run of it."""
        parts = parts_of(wave, labels)
        self._known[wave.id].times_lost = 0
        left = self.progress.finish_intent(wave.id, [], self.driver, parts=parts).left
        self._forget_unless(left, wave)
        return left

    def _give_up(self, wave: Wave, slices: Collection[Slice]) -> list[Wave]:
        """Forget slices of a wave that can never run again; what is left to run of it."""
        left = self.progress.finish_intent(wave.id, [], self.driver, over=slices).left
        self._forget_unless(left, wave)
        self.board.ended(wave)
        log.warning("recorded slices given up: nobody can read them any more", **of_wave(wave))
        return left

    def _forget(self, wave: Wave) -> list[Wave]:
        """A wave of which nothing is due here is over, but for what is left to run."""
        left = self.progress.finish_intent(wave.id, [], self.driver).left
        self._forget_unless(left, wave)
        return left


def _under(wave_id: str, left: Collection[Wave]) -> set[StreamId]:
    """Streams of what is left under the id of a wave."""
    return {piece.lane.stream for part in left if part.id == wave_id for piece in part.slices}


def _apart(streams: Collection[StreamId], label: str) -> list[set[StreamId]]:
    """Streams of which one may hurt the others, in groups; see ``divided``."""
    labels = divided(streams, label)
    return [
        {stream for stream in streams if labels[stream] == one}
        for one in sorted(set(labels.values()))
    ]
