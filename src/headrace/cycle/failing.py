"""What becomes of slices that failed: waits, retries apart, open failures and dead letters.

`policies/quarantine.py` decides; here it is done. Everything that a kill may not lose is in the
store before the board follows: a lane is stopped exactly while it has an open failure there.
A dead letter may take its time, so a thread keeps it (`dead_letters.py`): its lane stands still
until it is acknowledged, and only then its position moves.
What is only remembered here (how often a lane was tried, who is suspected of killing workers) is
learned again by a driver that starts anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

import structlog

from headrace.board import Board, HeldStream, Lane
from headrace.cycle.dead_letters import LetterOutcome, PendingLetter, PendingLetters
from headrace.cycle.in_doubt import doubt, past, widen
from headrace.cycle.observe import Observer
from headrace.model.lane_names import spoken
from headrace.model.places import OPEN, Place
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Deployment, Failure, Move
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Wave
from headrace.policies.quarantine import (
    HURTS_NEIGHBOURS,
    FailureRules,
    LaneHistory,
    LaneStep,
    Verdict,
    divided,
    judge,
)
from headrace.policies.retry import Backoff
from headrace.ports import Clock, DeadLetter, Store
from headrace.telemetry.log_fields import of_slice, of_wave
from headrace.telemetry.report import Reporter

log = structlog.get_logger(__name__)

BACKOFF = Backoff(first_s=0.2, most_s=30.0)


@dataclass(slots=True)
class Failing:
    """Does what is decided about failed slices and dead waves."""

    store: Store
    letters: PendingLetters
    board: Board
    observer: Observer
    reporter: Reporter
    clock: Clock
    chance: Callable[[], float] = random.random
    #: lanes of the present result that were judged, should its commit have to be repeated
    _judged: set[LaneId] = field(default_factory=set)
    #: failures of it that stop lanes, or with True the use case, and are not in the store yet
    _stops: list[tuple[Failure, bool]] = field(default_factory=list)
    #: letters that came back, and whose lanes do not follow yet
    _kept: list[LetterOutcome] = field(default_factory=list)

    def reload(self, driver: str) -> None:
        """Stop the lanes of this driver that have an open failure in the store, and no others."""
        stopped = self.store.failures.stopped_lanes(driver)
        lanes = {
            LaneId(*held.stream.id, name): lane
            for held in self.board.streams.values()
            for name, lane in held.lanes.items()
        }
        told = self._told(
            number
            for name, number in stopped.items()
            if name in lanes and number != lanes[name].failure
        )
        for name, lane in lanes.items():
            number = stopped.get(name)
            if lane.failure is not None and number is None:
                lane.tries = lane.attempts = lane.letters = 0
                lane.not_before_s = float("-inf")
            lane.failure = number
            if number is None:
                lane.stopped_until = None
            elif number in told:
                failure = told[number]
                lane.stopped_until = _until(failure)
                lane.trouble = _told(failure.slice, failure.error)

    def _told(self, news: Iterable[int]) -> dict[int, Failure]:
        """Failures without their records, which others kept, or this driver before it started."""
        numbers = set(news)
        if not numbers:
            return {}
        found = self.store.failures.every(only_open=True, with_records=False)
        return {one.id: one for one in found if one.id in numbers}

    def worked(self, receipt: Receipt, held: HeldStream, lane: Lane) -> None:
        """A slice came through: trouble at its position is over."""
        lane.tries = lane.attempts = lane.letters = 0
        if lane.suspect_until is None and held.apart and held.in_doubt:
            widen(held, held.most_records, receipt)
            return  # it says nothing of those that are
        most = held.most_records if lane.most_records is None else lane.most_records
        if lane.suspect_until is not None and lane.position >= lane.suspect_until:
            lane.suspect_until = lane.most_records = None
        held.hung = False
        if not any(lane.suspect_until is not None for lane in held.lanes.values()):
            held.apart = ""
            widen(held, most, receipt)

    def failed(
        self,
        receipt: Receipt,
        error: SliceError,
        held: HeldStream,
        lane: Lane,
        *,
        whole: bool = False,
    ) -> None:
        """A slice failed: wait, or stop its lane (``keep``), or set the record aside.

        With ``whole`` it can only be tried again as it is, not in smaller parts.

        Raises:
            StoreUnavailable: nothing was done; call again with the same receipt.
        """
        if receipt.slice.lane in self._judged:
            return
        piece = _rest(receipt, held)
        verdict = judge(
            _rules(held.deployment),
            LaneHistory(lane.tries, lane.attempts, lane.letters),
            error,
            1 if whole else _most_in(receipt.slice, held),
            self.chance(),
            claimed=receipt.committed,
        )
        if verdict.step is LaneStep.RETRY:
            self._again(piece, error, verdict, held, lane)
        elif verdict.step is LaneStep.DEAD_LETTER:
            self._set_aside(piece, error, verdict, held, lane)
        else:
            self._stop(self._bounded(piece, receipt, error, held), error, verdict, held, lane)
        self._judged.add(piece.lane)

    def keep(self) -> None:
        """Stop the lanes of all slices that were judged to: in the store, and then on the board.

        Where all records of a tenant are bad all its lanes stop at once, and a transaction for each
        of a thousand would hold up the turn for longer than its lease. So they have one.

        Raises:
            StoreUnavailable: call again with the same; what is kept is not kept twice.
        """
        for stop_use_case in (False, True):
            new = [failure for failure, is_all in self._stops if is_all is stop_use_case]
            if not new:
                continue
            numbers = self.store.failures.keep(new, stop_use_case=stop_use_case)
            for failure, number in zip(new, numbers, strict=True):
                self._told_stopped(failure, number, is_all=stop_use_case)
        self._stops.clear()

    def _told_stopped(self, failure: Failure, number: int, *, is_all: bool) -> None:
        """Let the board follow, unless the lane was sent elsewhere before its failure was kept."""
        piece, error = failure.slice, failure.error
        held, lane = self.board.streams.get(piece.lane.stream), self.board.lane(piece.lane)
        if held is None or held.epoch > piece.epoch:
            log.warning(
                "failed before it was sent elsewhere",
                **of_slice(piece),
                offset=error.offset,
                error=error.message,
                failure=number,
            )
            return
        if lane is not None:
            lane.failure, lane.stopped_until = number, _until(failure)
        log.error(
            "use case stopped" if is_all else "lane stopped",
            **of_slice(piece),
            offset=error.offset,
            error=error.message,
            failure=number,
        )

    def settled(self) -> None:
        """A result was committed as a whole."""
        self._judged.clear()

    def approach(self, receipt: Receipt, error: SliceError, held: HeldStream, lane: Lane) -> None:
        """Do what comes before a record that failed, in a slice that ends there.

        A recorded wave does whole slices only: of a part of one, its replay would know nothing. And
        lanes that are merged cannot be put in order where one of them is not read to its end.
        """
        assert error.offset is not None, "only a record that is named can be approached"
        if held.deployment.order.merges_lanes:
            held.most_records = held.measures.between(error.offset, receipt.reached)
        else:
            lane.stop_before, lane.before_stop = error.offset, receipt.slice.records
        log.info("slice is cut short", **of_slice(receipt.slice), offset=error.offset)

    def died(self, wave: Wave, error: SliceError, again: Collection[Wave] | None) -> None:
        """A wave killed its worker, or had to be ended, and nobody knows at which slice.

        Slices of a recorded wave run ``again`` as they were, so smaller ones can not tell more.
        """
        streams = {piece.lane.stream for piece in wave.slices}
        if len(streams) == 1:
            for piece in wave.slices:
                held, lane = self.board.streams.get(piece.lane.stream), self.board.lane(piece.lane)
                if held is None or lane is None:
                    continue
                # What it did before it died, and what somebody skipped meanwhile, is not to blame.
                if piece.from_offset <= lane.position < piece.until_offset:
                    receipt = Receipt(piece, lane.position, committed=False)
                    self.failed(receipt, error, held, lane, whole=again is not None)
            self.keep()
            return
        labels = divided(streams, wave.id)
        for piece in wave.slices:
            held, lane = self.board.streams.get(piece.lane.stream), self.board.lane(piece.lane)
            if held is not None and lane is not None:
                held.apart = labels[piece.lane.stream]
                lane.suspect_until = past(piece, held)
        if again is not None and not again:
            return  # it is over: no part of it runs
        log.warning(
            "one stream hurts its neighbours; they run in parts until it is found",
            **of_wave(wave),
            streams=len(streams),
            parts=len(set(labels.values())),
        )

    def lost(self, slices: Collection[Slice], error: SliceError) -> None:
        """A wave was lost for reasons of its own: all of it waits a little."""
        now_s = self.clock.monotonic_s()
        for piece in slices:
            lane = self.board.lane(piece.lane)
            if lane is not None:
                lane.trouble = _told(piece, error)
                lane.not_before_s = now_s + self.wait_s(lane.tries, error)
                lane.tries += 1

    def wait_s(self, tries: int, error: SliceError) -> float:
        """Seconds to wait after temporary trouble."""
        if error.retry_after_s is not None:
            return error.retry_after_s
        return BACKOFF.wait_s(tries, self.chance())

    def _again(
        self, piece: Slice, error: SliceError, verdict: Verdict, held: HeldStream, lane: Lane
    ) -> None:
        self._remember(piece, error, verdict, lane)
        lane.not_before_s = self.clock.monotonic_s() + verdict.wait_s
        if verdict.apart:
            doubt(piece, error, verdict, held, lane)
        else:
            held.most_records = verdict.most_records
        log.warning(
            "slice held back",
            **of_slice(piece),
            tries=lane.tries,
            attempts=lane.attempts,
            error=error.message,
        )

    def _stop(
        self, piece: Slice, error: SliceError, verdict: Verdict, held: HeldStream, lane: Lane
    ) -> None:
        behind = None if error.offset is None else held.measures.behind(error.offset)
        attempts = verdict.history.attempts
        failure = Failure(piece, error, self.clock.now_s(), attempts, behind=behind)
        self._stops.append((failure, verdict.step is LaneStep.FAIL))
        self._remember(piece, error, verdict, lane)
        lane.suspect_until = lane.most_records = None

    def _bounded(
        self, piece: Slice, receipt: Receipt, error: SliceError, held: HeldStream
    ) -> Slice:
        """What is left of a slice that stops its lane, with an end, so that a person can skip it.

        That was written down when it was read. Of one record nothing is left if it came anywhere,
        as where it was claimed. What was never read, as its worker died of reading, ends behind one
        record, if its log can count up to there.
        """
        if not piece.is_open or error.offset is not None:
            return piece
        (read,) = self.store.positions.reads_of([piece])
        if read is not None:
            return replace(piece, until_offset=read.until_offset, records=read.records)
        if piece.records != 1:
            return piece
        if receipt.reached > receipt.slice.from_offset:
            return replace(piece, until_offset=piece.from_offset, records=0)
        return replace(piece, until_offset=held.measures.after(piece.from_offset, 1))

    def _set_aside(
        self, piece: Slice, error: SliceError, verdict: Verdict, held: HeldStream, lane: Lane
    ) -> None:
        """Have the record kept in the dead letters; its lane stands still until it is."""
        assert error.offset is not None, "only a record that is named can be set aside"
        letter = DeadLetter(piece, error, verdict.history.attempts)
        behind = held.measures.behind(error.offset)
        move = Move(piece.lane, piece.from_offset, behind, held.epoch, passed=1)
        if not self.letters.take(PendingLetter(letter, move, lane.tries, verdict.history.letters)):
            self._try_again(letter, lane, "too many wait for brokers that do not take them")
            return
        lane.aside, lane.aside_gone = behind, False
        lane.trouble = f"{_lane(piece)}: offset {error.offset} waits until its dead letter is kept"

    def poll(self) -> None:
        """Let lanes go on whose dead letters are kept by now; never waits for brokers.

        Raises:
            StoreUnavailable: the rest of them is done by the next call.
        """
        self._kept += self.letters.poll()
        while self._kept:
            self._answered(*self._kept[0])
            self._kept.pop(0)

    @property
    def is_busy(self) -> bool:
        """Whether a lane waits for its dead letter."""
        return self.letters.is_busy or bool(self._kept)

    def _answered(self, aside: PendingLetter, trouble: Exception | None) -> None:
        """A letter is kept, or it is not; where its lane began anew meanwhile that is all."""
        move, lane = aside.move, self._lane_of(aside)
        if trouble is not None:
            # The lane may not go on without it: the record is tried again, and then set aside.
            if lane is not None:
                lane.aside = None
                self._try_again(aside.letter, lane, str(trouble))
            return
        # Where its log was cut meanwhile, what is next is another record.
        stays = move.to_offset <= move.from_offset or (lane is not None and lane.aside_gone)
        moved = not stays and all(self.store.positions.advance([move]))
        if lane is not None and not moved:
            # Somebody else moved it, its row is gone, or the answer to our own move was lost.
            self.observer.load_positions([move.lane.stream])
        self._count(aside, moved=moved)
        if lane is None:
            return
        lane.aside = None
        if moved:
            lane.position = move.to_offset
            lane.ordinal += move.passed
        lane.tries = lane.attempts = 0
        lane.letters = aside.letters

    def _lane_of(self, aside: PendingLetter) -> Lane | None:
        """The lane of a letter, if it is still as it was when the letter was taken."""
        held = self.board.streams.get(aside.move.lane.stream)
        if held is None or held.epoch != aside.move.epoch:
            return None
        return held.lanes.get(aside.move.lane.name)

    def _count(self, aside: PendingLetter, *, moved: bool) -> None:
        piece, error = aside.letter.slice, aside.letter.error
        meter = self.reporter.meter(piece.lane.stream)
        # A letter whose lane does not go on comes again.
        meter.dead_letters += moved
        meter.note(_told(piece, error), self.clock.now_s())
        log.warning("record set aside", **of_slice(piece), offset=error.offset, error=error.message)

    def _try_again(self, letter: DeadLetter, lane: Lane, why: str) -> None:
        piece, error = letter.slice, letter.error
        log.warning("dead letter not kept", **of_slice(piece), error=why)
        lane.trouble = (
            f"{_lane(piece)}: the dead letter of offset {error.offset} is not kept: {why}"
        )
        lane.not_before_s = self.clock.monotonic_s() + self.wait_s(lane.tries, error)
        lane.tries += 1

    def _remember(self, piece: Slice, error: SliceError, verdict: Verdict, lane: Lane) -> None:
        lane.tries, lane.attempts = verdict.history.tries, verdict.history.attempts
        lane.trouble = _told(piece, error)


def _rest(receipt: Receipt, held: HeldStream) -> Slice:
    """What of a slice was not reached."""
    piece, reached = receipt.slice, receipt.reached
    rest = replace(piece, from_offset=reached, ordinal=piece.ordinal + receipt.passed)
    counted = _counted(rest, held)
    return rest if counted is None else replace(rest, records=counted)


def _most_in(piece: Slice, held: HeldStream) -> int:
    """Most records that there may be in a slice; in one of a bucket more than are expected."""
    counted = _counted(piece, held)
    return piece.records if counted is None else max(piece.records, counted)


def _counted(piece: Slice, held: HeldStream) -> int | None:
    """How many records its log counts in a slice; None: nobody knows without reading."""
    return None if piece.is_open else held.measures.between(piece.until_offset, piece.from_offset)


def hurts(error: SliceError) -> bool:
    """Whether what happened says that a stream of the wave hangs or kills its worker."""
    return error.code in HURTS_NEIGHBOURS


def _until(failure: Failure) -> Place | None:
    """Behind what it is about, where a person can say that this be passed over."""
    return None if failure.skipped_to == OPEN else failure.skipped_to


def _told(piece: Slice, error: SliceError) -> str:
    return f"{_lane(piece)}: {error.code}: {error.message}"


def _lane(piece: Slice) -> str:
    return spoken(piece.lane.name, piece.topic)


def _rules(deployment: Deployment) -> FailureRules:
    return FailureRules(deployment.bad_record, deployment.retries, BACKOFF)
