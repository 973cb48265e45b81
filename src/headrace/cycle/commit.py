"""The fourth step: what the receipts say becomes positions.

A receipt is a hint and the store is the truth. Where the task itself moved the position the board
only follows; elsewhere the move is made here, by compare-and-set. Whenever the two disagree, or a
job failed as a whole, the positions are read back before anything of these lanes is planned again.

What is done about errors is `failing.py`'s matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import structlog

from headrace.crash_points import reached
from headrace.cycle.board import Board, HeldStream
from headrace.cycle.claims import claims, is_unclear, lost_claims
from headrace.cycle.failing import Failing, hurts
from headrace.cycle.fences import Fences
from headrace.cycle.observe import Observer
from headrace.cycle.parts import parts_of
from headrace.cycle.report import Reporter
from headrace.errors import CodeNotLoaded, HandlerHung
from headrace.log_fields import of_slice, of_wave
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Move
from headrace.model.streams import LaneId, Order, Slice, State, StreamId
from headrace.model.waves import Wave
from headrace.policies.cost import learn
from headrace.policies.data_loss import ABOUT_THE_LOG, NOT_READ
from headrace.policies.quarantine import ABOUT_RECORDS, divided
from headrace.ports import Clock, Store, WaveResult

log = structlog.get_logger(__name__)

#: a wave whose job was lost so often in a row may have a stream that executors die of
LOST_OFTEN = 4


@dataclass(slots=True)
class Committer:
    """Turns wave results into durable positions, and hands their errors on."""

    store: Store
    board: Board
    observer: Observer
    reporter: Reporter
    failing: Failing
    clock: Clock
    #: the name that waves are written down in
    driver: str
    #: told of each result once it is committed
    on_result: Callable[[WaveResult], None]
    #: recorded waves whose job failed: they run again as they were, after the given second
    replays: list[tuple[float, Wave]] = field(default_factory=list)
    _tries: dict[str, int] = field(default_factory=dict)
    #: recorded waves that were tried before, of which nobody knows what that left
    _tried: set[str] = field(default_factory=set)
    #: the last wave of which is told what at-most-once lost
    _told: str = ""
    #: a wave whose recording was not answered
    _unsure: Wave | None = None
    _fences: Fences = field(init=False)

    def __post_init__(self) -> None:
        """Give bins fences of this driver's name."""
        self._fences = Fences(self.driver)

    @property
    def owed(self) -> set[StreamId]:
        """Streams of which recorded waves wait to run again."""
        return {piece.lane.stream for _, wave in self.replays for piece in wave.slices}

    def record(self, wave: Wave, slots: int) -> Wave | None:
        """Write a new wave down, with fences that no other has; None if its streams are others'.

        Raises:
            StoreUnavailable: it may be written down all the same; see ``find_recorded``.
        """
        others = [flight.wave for flight in self.board.flights.values()]
        others += [each for _, each in self.replays]
        self._unsure = wave = self._fences.given(wave, others, slots)
        recorded = self.store.record_intent(wave, self.driver)
        self._unsure = None
        return wave if recorded else None

    def commit(self, result: WaveResult) -> None:
        """Take one wave's result all the way, under the terms that it began under.

        Raises:
            StoreUnavailable: call again with the same result; what was taken is not taken twice.
        """
        if result.error is not None:
            self._job_failed(result, result.error)
            return
        intended = result.wave.intended
        rest = self._unfinished(result) if intended else []
        disagreed, left = self._move(result, rest if intended else None)
        if disagreed:
            self.observer.reload_positions(disagreed)
        self._tell_lost(result)
        now_s, committed_s = self.clock.monotonic_s(), self.clock.now_s()
        self._judge(result)
        self._learn_costs(result)
        self.board.ended(result.wave)
        self.failing.settled()
        self._tries.pop(result.wave.id, None)
        if result.wave.id not in [each.id for each in left]:
            self._tried.discard(result.wave.id)
        self.replays += [(self._due_s(each, now_s), each) for each in left]
        for receipt in result.receipts:
            held = self.board.streams.get(receipt.slice.lane.stream)
            if held is not None:
                self.reporter.committed(receipt, committed_s, result.wave.id)
                self._came_through(receipt, held)
        self.on_result(result)

    def _unfinished(self, result: WaveResult) -> list[Wave]:
        """What of a recorded wave was not reached, or met trouble that passes.

        It runs again as it was: what was only not reached together, as there is nothing against
        it, and every stream that met trouble apart from the others.

        An earlier attempt, of another life or of a task that Spark ran again, may have written an
        effect that nobody heard of. Other slices would leave theirs beside it.
        """
        again = {
            each.slice
            for each in result.receipts
            if _untouched(each) or self._whole(each) or self._doubted(each)
        }
        terms = result.wave.terms
        for piece in result.wave.slices:
            if piece not in again and terms is not None and terms.order is Order.STREAM:
                # Its lanes are merged: what is left of one cannot run without the others.
                again -= {each for each in again if each.lane.stream == piece.lane.stream}
        left = result.wave.only(again.__contains__)
        if result.wave.writes_by_id and self._wrote_nothing(result):
            # Only under this id is met what an earlier attempt may have written under it.
            return [left]
        troubled = {each.slice.lane.stream for each in result.receipts if each.error is not None}
        streams = {piece.lane.stream for piece in again}
        labels = {each: str(each) if each in troubled else "" for each in streams}
        if left == result.wave and len(set(labels.values())) == 1:
            return [left]
        return parts_of(left, labels)

    def _wrote_nothing(self, result: WaveResult) -> bool:
        """Whether a handler that writes under the id of its wave was not called, or raised.

        What raises has not written. If it did so in the first attempt, nothing is there.
        """
        if all(map(_unread, result.receipts)):
            return True
        raised = any(map(_passed_up, result.receipts))
        return raised and result.wave.id in self._tried

    def _doubted(self, receipt: Receipt) -> bool:
        """Whether a log is to be looked at before a slice counts as lost with it.

        A broker that is cut off may not have what others do. What is lost indeed shows where the
        lane goes on; of a stream that was removed nobody looks any more.
        """
        held = self.board.streams.get(receipt.slice.lane.stream)
        about_log = receipt.error is not None and receipt.error.code in ABOUT_THE_LOG
        there = held is not None and held.state is not State.REMOVED
        return about_log and there and _nothing_done(receipt)

    def _whole(self, receipt: Receipt) -> bool:
        """Whether a recorded slice that its worker hung or died at is tried once more as it was.

        It may have been killed by somebody else, and have left its effect in an earlier attempt,
        beside which smaller slices would leave theirs. A slice that ends so as often as the use
        case retries has a handler that never came to its end: there smaller ones find the record.
        """
        error, piece = receipt.error, receipt.slice
        held, lane = self.board.streams.get(piece.lane.stream), self.board.lane(piece.lane)
        if error is None or held is None or lane is None or error.temporary or not hurts(error):
            return False
        begin = error.offset in (None, piece.from_offset)
        return begin and _nothing_done(receipt) and lane.attempts < held.deployment.retries

    def divide(self, recorded: Wave, labels: dict[StreamId, str]) -> list[Wave]:
        """Write a recorded wave down in parts, a part for each label; what is left to run of it."""
        parts = parts_of(recorded, labels)
        self._tries.pop(recorded.id, None)
        return self.store.finish_intent(recorded.id, [], self.driver, parts=parts).left

    def find_recorded(self, use_cases: Collection[str]) -> None:
        """Recorded waves of an earlier life come back before anything is planned.

        Of those that are known already some may be less by now: a tenant was added again.

        The commit of one whose recording was not answered may still be under way, where nobody sees
        it. To write it down again waits for that, and changes nothing if it was done.
        """
        if self._unsure is not None:
            self.store.record_intent(self._unsure, self.driver)
            self._unsure = None
        now_s = self.clock.monotonic_s()
        pending = self.store.pending_intents(self.driver)
        due_s = {wave.id: at_s for at_s, wave in self.replays}
        for _, wave in self.replays:
            self.board.ended(wave)
        self.replays.clear()
        for wave in pending:
            if wave.use_case not in use_cases or wave.id in self.board.flights:
                continue
            self.replays.append((due_s.get(wave.id, now_s), wave))
            if wave.id not in due_s:
                self._tried.add(wave.id)
                log.info("recorded wave found; it runs again unchanged", **of_wave(wave))

    def ask_again(self, lanes: Collection[LaneId]) -> None:
        """Ask anew where these logs end, of whom the cluster says leads them."""
        for lane in lanes:
            self.observer.ask_again(self.board.streams[lane.stream], lane.partition)

    def give_up(self, recorded: Wave, slices: Collection[Slice]) -> list[Wave]:
        """Forget slices of a recorded wave that can never run again; what is left to run of it."""
        left = self.store.finish_intent(recorded.id, [], self.driver, over=slices).left
        self.board.ended(recorded)
        log.warning("recorded slices given up: their logs lost some of them", **of_wave(recorded))
        return left

    def forget(self, recorded: Wave) -> list[Wave]:
        """A recorded wave of which nothing is due here is over, but for what is left to run."""
        left = self.store.finish_intent(recorded.id, [], self.driver).left
        if not left:
            self._tries.pop(recorded.id, None)
            self._tried.discard(recorded.id)
        return left

    def _due_s(self, wave: Wave, now_s: float) -> float:
        """When the waits of all lanes of a wave are over."""
        lanes = (self.board.lane(piece.lane) for piece in wave.slices)
        return max((lane.not_before_s for lane in lanes if lane is not None), default=now_s)

    def _move(
        self, result: WaveResult, rest: list[Wave] | None
    ) -> tuple[set[StreamId], list[Wave]]:
        """Move the positions; of a recorded wave the ``rest`` stays written down.

        Returns the streams whose positions were not where we thought, and recorded waves that are
        to run again.
        """
        mine = [
            each
            for each in result.receipts
            if not each.committed and not each.superseded and each.reached > each.slice.from_offset
        ]
        moves = [
            Move(each.slice.lane, each.slice.from_offset, each.reached, each.slice.epoch)
            for each in mine
        ]
        reached("mid-commit", result.wave.use_case)
        left: list[Wave] = []
        if rest is None:
            moved = self.store.positions.advance(moves) if moves else []
        else:
            moved, left = self.store.finish_intent(
                result.wave.id,
                moves,
                self.driver,
                over=_over(result, rest),
                parts=[each for each in rest if each.id != result.wave.id],
            )
        reached("committed", result.wave.use_case)
        refused = {each.slice.lane.stream for each, ok in zip(mine, moved, strict=True) if not ok}
        done = [each for each, ok in zip(mine, moved, strict=True) if ok]
        for each in [*done, *(other for other in result.receipts if other.committed)]:
            lane = self.board.lane(each.slice.lane)
            if lane is not None and lane.position == each.slice.from_offset:
                lane.position = each.reached
        superseded = {each.slice.lane.stream for each in result.receipts if each.superseded}
        return refused | superseded, left

    def _tell_lost(self, result: WaveResult) -> None:
        """Keep what a wave of at-most-once has claimed and not done.

        Once, also if its commit has to be repeated; twice only if the store's answer to it is lost.
        """
        if not claims(result) or self._told == result.wave.id:
            return
        streams = {piece.lane.stream for piece in result.wave.slices}
        known = self.store.load_positions(streams) if is_unclear(result) else []
        found = lost_claims(result, {each.lane: each for each in known}, self.clock.now_s())
        if found:
            self.store.note_failures(found)
        self._told = result.wave.id
        for each in found:
            log.warning("records may be lost", **of_slice(each.slice), error=each.error.message)

    def _judge(self, result: WaveResult) -> None:
        """Hand errors on, but not those of slices that a lane was sent away from meanwhile."""
        intended = result.wave.intended
        failed = [(each, each.error) for each in result.receipts if each.error is not None]
        final = {each.slice.lane.stream for each, error in failed if not error.temporary}
        if final:
            self.board.fill(self.store.load_positions(final))
        for receipt, error in failed:
            held = self.board.streams.get(receipt.slice.lane.stream)
            lane = self.board.lane(receipt.slice.lane)
            if held is None or lane is None:
                continue
            here = _as_of(lane.position, receipt, error)
            if here is None:
                log.info("error of a slice that its lane left", **of_slice(receipt.slice))
            elif error.code in ABOUT_THE_LOG:
                self.failing.lost([receipt.slice], error)
                self.observer.doubt(held, lane, f"{error.message}; checking why")
            elif intended and error.offset is not None and error.offset > here.reached:
                self.failing.approach(here, error, held, lane)
            else:
                whole = intended and self._whole(receipt)
                self.failing.failed(here, error, held, lane, whole=whole)

    def _learn_costs(self, result: WaveResult) -> None:
        """Take the receipts of slices, or of merged lanes that were one call, into the averages."""
        merged: dict[StreamId, list[Receipt]] = defaultdict(list)
        for each in result.receipts:
            held = self.board.streams.get(each.slice.lane.stream)
            if held is None or not each.records:
                continue
            if held.deployment.order is Order.STREAM:
                merged[held.stream.id].append(each)
            else:
                held.cost = learn(held.cost, each.records, each.bytes, each.seconds)
        for stream, lanes in merged.items():
            # The seconds of a call are spread by records, so one lane says nothing of a fixed cost.
            held, count = self.board.streams[stream], len(lanes)
            records = round(sum(each.records for each in lanes) / count)
            bytes_ = round(sum(each.bytes for each in lanes) / count)
            seconds = sum(each.seconds for each in lanes) / count
            held.cost = learn(held.cost, records, bytes_, seconds)

    def _came_through(self, receipt: Receipt, held: HeldStream) -> None:
        lane = held.lanes.get(receipt.slice.lane.partition)
        if lane is None:
            return
        # A slice that a spent budget left untouched says nothing, neither good nor bad.
        moved = receipt.reached > receipt.slice.from_offset
        if receipt.error is None and moved and not receipt.superseded:
            self.failing.worked(receipt, held, lane)

    def _job_failed(self, result: WaveResult, error: SliceError) -> None:
        """Nobody knows what was done: ask the store, then wait, or look for the culprit."""
        wave, intended = result.wave, result.wave.intended
        self.observer.reload_positions({piece.lane.stream for piece in wave.slices})
        self._tell_lost(result)
        log.warning("wave failed", **of_wave(wave), error=error.message, again=intended)
        flight = self.board.flights.get(wave.id)
        if flight is not None and flight.cancelled:
            error = replace(error, temporary=False, code=HandlerHung.__name__, message=_HUNG)
        if error.code == CodeNotLoaded.__name__:
            # No slice came so far as to have a receipt that tells of it.
            for stream in {piece.lane.stream for piece in wave.slices}:
                told = f"{error.code}: {error.message}"
                self.reporter.meter(stream).note(told, self.clock.now_s())
        again = self._again(wave, error) if intended else []
        if hurts(error):
            self.failing.died(wave, error, recorded=intended)
        # Replays take their lanes before anything is planned.
        self.board.ended(wave)
        if intended:
            self.replays += again
        elif not hurts(error):
            self.failing.lost(tuple(wave.slices), error)
        self.on_result(replace(result, receipts=self._found(wave)))
        self.failing.settled()

    def _again(self, wave: Wave, error: SliceError) -> list[tuple[float, Wave]]:
        """A recorded wave runs again as it was; in parts, if one of its streams kills it.

        An executor that dies blames nobody, though a stream may be what it dies of. So a wave that
        is lost again and again is divided as well, slowly, as most often it is the cluster.

        What is left of it is the store's to say: a tenant may have been added again meanwhile.
        """
        streams = {piece.lane.stream for piece in wave.slices}
        now_s, tries = self.clock.monotonic_s(), self._tries.get(wave.id, 0) + 1
        if hurts(error) and len(streams) > 1:
            return [(now_s, part) for part in self.divide(wave, divided(streams, wave.id))]
        # A handler of frames writes under the name of the wave, which parts do not have.
        apart = not wave.writes_by_id and len(streams) > 1
        if apart and tries % LOST_OFTEN == 0:
            left = self.divide(wave, divided(streams, wave.id))
        else:
            left = self.forget(wave)
        self._tries |= {each.id: tries for each in left}
        self._tried |= {each.id for each in left}
        due_s = now_s + self.failing.wait_s(tries - 1, error)
        return [(due_s, each) for each in left]

    def _found(self, wave: Wave) -> tuple[Receipt, ...]:
        """What a lost wave did all the same, by where its lanes are now.

        One that is not in its slice any more was sought, or is another driver's.
        """
        at = {piece: self.board.lane(piece.lane) for piece in wave.slices}
        return tuple(
            Receipt(piece, lane.position, committed=False)
            for piece, lane in at.items()
            if lane is not None and piece.from_offset <= lane.position <= piece.until_offset
        )


def _as_of(position: int, receipt: Receipt, error: SliceError) -> Receipt | None:
    """A receipt as of where its lane is now; None if the error is of no concern there."""
    if position == receipt.reached:
        return receipt
    # An earlier attempt of the task may have come further than the last, which tells of its end.
    inside = receipt.reached < position < receipt.slice.until_offset
    if inside and (error.offset is None or error.offset >= position):
        return replace(receipt, reached=position)
    return None


def _over(result: WaveResult, rest: Collection[Wave]) -> list[Slice]:
    """Slices that came to nothing, and are not to run again as they were."""
    again = {piece for wave in rest for piece in wave.slices}
    lost = {each.slice.lane.stream for each in result.receipts if each.superseded}
    return [
        each.slice
        for each in result.receipts
        if each.slice not in again and each.slice.lane.stream not in lost
    ]


def _untouched(receipt: Receipt) -> bool:
    """Whether nothing was done of a slice, for want of time or for trouble that is not its own.

    What is neither of its records nor of its log passes, be it when a person has come: a warehouse
    that is read-only, a right that was taken away.
    """
    error = receipt.error
    passes = error is None or error.temporary or error.code not in ABOUT_RECORDS | ABOUT_THE_LOG
    return passes and _nothing_done(receipt)


def _unread(receipt: Receipt) -> bool:
    """Whether nobody would hand the slice's records out just now."""
    error = receipt.error
    return error is not None and error.code in NOT_READ and _nothing_done(receipt)


def _passed_up(receipt: Receipt) -> bool:
    """Whether the slice was read, and its handler met trouble that passes."""
    error = receipt.error
    if error is None or not error.temporary or error.code in NOT_READ:
        return False
    return _nothing_done(receipt)


def _nothing_done(receipt: Receipt) -> bool:
    nothing = receipt.reached == receipt.slice.from_offset < receipt.slice.until_offset
    return nothing and not receipt.committed and not receipt.superseded


_HUNG = "a use case did not come back, could not be interrupted, and its worker was ended"
