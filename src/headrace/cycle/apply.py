"""After a commit: the board, the figures and what is planned next follow what the store has.

The one place where a `Committed` has effects: positions on the board, errors handed on, costs
learned, lanes set free, recorded waves due again. Where the store was somewhere else than we
thought, or a job failed as a whole, positions are read back before anything of these lanes is
planned again.

What is done about errors is `failing.py`'s matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from headrace.board import Board, HeldStream
from headrace.cycle.commit import Committed
from headrace.cycle.failing import Failing, hurts
from headrace.cycle.late_claims import LateClaims
from headrace.cycle.observe import Observer
from headrace.cycle.recorded import RecordedWaves, WaitingReplay
from headrace.cycle.unfinished import runs_whole, waits_for_neighbours
from headrace.errors import CodeNotLoaded
from headrace.model.buckets import parts_of
from headrace.model.places import Place
from headrace.model.receipts import Receipt, SliceError
from headrace.model.streams import LaneId, StreamId
from headrace.model.waves import Wave
from headrace.policies.cost import learn, learn_guessed
from headrace.policies.data_loss import ABOUT_THE_LOG
from headrace.policies.density import likely, seen
from headrace.ports import Clock, WaveResult
from headrace.telemetry.log_fields import of_slice
from headrace.telemetry.report import Reporter

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Applier:
    """Lets everything follow what was committed."""

    board: Board
    observer: Observer
    failing: Failing
    reporter: Reporter
    recorded: RecordedWaves
    late_claims: LateClaims
    clock: Clock
    #: told of each result at its end
    on_result: Callable[[WaveResult], None]

    def apply(self, done: Committed) -> None:
        """Follow one commit.

        Raises:
            StoreUnavailable: call again with the same; what was done is not done twice.
        """
        self.late_claims.came_back(done)
        self._take_positions(done)
        if done.result.error is not None:
            self._job_failed(done, done.result.error)
        else:
            self._came_back(done)
        self.failing.settled()

    def _take_positions(self, done: Committed) -> None:
        for receipt in done.moved:
            lane = self.board.lane(receipt.slice.lane)
            if lane is not None and lane.position == receipt.slice.from_offset:
                lane.position = receipt.reached
                lane.ordinal += receipt.passed
        if done.refused:
            self.observer.reload_positions(done.refused)

    def _came_back(self, done: Committed) -> None:
        result, now_s = done.result, self.clock.monotonic_s()
        self._judge(done)
        self._learn_costs(result)
        self.board.ended(result.wave)
        self.recorded.came_back(result.wave, done.to_replay)
        self.recorded.waiting += [
            WaitingReplay(self._due_s(wave, now_s), wave) for wave in done.to_replay
        ]
        for receipt in result.receipts:
            held = self.board.streams.get(receipt.slice.lane.stream)
            if held is not None:
                self.reporter.committed(receipt, done.at_s, result.wave.id)
                self._came_through(receipt, held)
                if held.is_divided:
                    _learn_density(receipt, held)
                self._visited(receipt, held, now_s)
        self.on_result(result)

    def _due_s(self, wave: Wave, now_s: float) -> float:
        """When the waits of all lanes of a wave are over."""
        lanes = (self.board.lane(piece.lane) for piece in wave.slices)
        return max((lane.not_before_s for lane in lanes if lane is not None), default=now_s)

    def _judge(self, done: Committed) -> None:
        """Hand errors on, but not those of slices that a lane was sent away from meanwhile."""
        result = done.result
        intended, whole_only = result.wave.intended, _all_or_nothing(result.wave)
        failed = [
            (receipt, receipt.error) for receipt in result.receipts if receipt.error is not None
        ]
        final = {receipt.slice.lane.stream for receipt, error in failed if not error.temporary}
        there = self.observer.load_positions(final) if final else set[LaneId]()
        for receipt, error in failed:
            name = receipt.slice.lane
            held, lane = self.board.streams.get(name.stream), self.board.lane(name)
            is_gone = name.stream in final and name not in there  # so it is taken up anew
            if held is None or lane is None or is_gone:
                continue
            here = _as_of(lane.position, receipt, error)
            if here is None:
                log.info("error of a slice that its lane left", **of_slice(receipt.slice))
            elif error.code in ABOUT_THE_LOG:
                self.failing.lost([receipt.slice], error)
                lane.found_start = error.goes_on_at
                self.observer.doubt(held, lane, f"{error.message}; checking why")
            elif waits_for_neighbours(receipt, done.to_replay, result.wave):
                self.failing.lost([receipt.slice], error)
            elif whole_only and error.offset is not None and error.offset > here.reached:
                self.failing.approach(here, error, held, lane)
            else:
                whole = intended and runs_whole(receipt, self.board)
                self.failing.failed(here, error, held, lane, whole=whole)
        self.failing.keep()

    def _learn_costs(self, result: WaveResult) -> None:
        """Take the receipts of slices, or of merged lanes that were one call, into the averages."""
        merged: dict[StreamId, list[Receipt]] = defaultdict(list)
        for receipt in result.receipts:
            held = self.board.streams.get(receipt.slice.lane.stream)
            if held is None:
                continue
            if held.deployment.order.merges_lanes:
                merged[held.stream.id].append(receipt)
            elif guessed := _guessed(receipt):
                told = receipt.records, receipt.bytes, receipt.seconds
                held.cost = learn_guessed(held.cost, *told, guessed)
            elif receipt.records:
                held.cost = learn(held.cost, receipt.records, receipt.bytes, receipt.seconds)
        for stream, receipts in merged.items():
            if any(receipt.records for receipt in receipts):
                _learn_merged(self.board.streams[stream], receipts)

    def _came_through(self, receipt: Receipt, held: HeldStream) -> None:
        lane = held.lanes.get(receipt.slice.lane.name)
        if lane is None:
            return
        # A slice that a spent budget left untouched says nothing, neither good nor bad.
        moved = receipt.reached > receipt.slice.from_offset
        if receipt.error is None and moved and not receipt.superseded:
            self.failing.worked(receipt, held, lane)

    def _visited(self, receipt: Receipt, held: HeldStream, now_s: float) -> None:
        """A slice is over: what its log said of the lane, if it does not tell ends, is known."""
        lane = held.lanes.get(receipt.slice.lane.name)
        if lane is not None:
            lane.visited(receipt, now_s, held.readers)

    def _job_failed(self, done: Committed, error: SliceError) -> None:
        """Nobody knows what was done: wait, or look for the culprit."""
        wave = done.result.wave
        if error.code == CodeNotLoaded.__name__:
            # No slice came so far as to have a receipt that tells of it.
            for stream in {piece.lane.stream for piece in wave.slices}:
                told = f"{error.code}: {error.message}"
                self.reporter.meter(stream).note(told, self.clock.now_s())
        if hurts(error):
            self.failing.died(wave, error, done.to_replay if wave.intended else None)
        # Replays take their lanes before anything is planned.
        self.board.ended(wave)
        if wave.intended:
            due_s = self.clock.monotonic_s() + self._wait_s(done, error)
            self.recorded.waiting += [WaitingReplay(due_s, part) for part in done.to_replay]
        elif not hurts(error):
            self.failing.lost(tuple(wave.slices), error)
        self.on_result(replace(done.result, receipts=self._found(wave)))

    def _wait_s(self, done: Committed, error: SliceError) -> float:
        return self.failing.wait_s(done.times_lost - 1, error) if done.times_lost else 0.0

    def _found(self, wave: Wave) -> tuple[Receipt, ...]:
        """What a lost wave did all the same, by where its lanes are now.

        How many records a lane that has moved was moved over nobody heard. One that is not in its
        slice any more was sought, or is another driver's.
        """
        at = {piece: self.board.lane(piece.lane) for piece in wave.slices}
        return tuple(
            Receipt(
                piece,
                lane.position,
                committed=False,
                superseded=lane.position > piece.from_offset,
            )
            for piece, lane in at.items()
            if lane is not None and piece.from_offset <= lane.position <= piece.until_offset
        )


def _learn_density(receipt: Receipt, held: HeldStream) -> None:
    """Of a bucket it is known now how many records it had in so many places."""
    piece, lane = receipt.slice, held.lanes.get(receipt.slice.lane.name)
    if lane is not None and lane.bucket is not None and receipt.reached > piece.from_offset:
        places = held.measures.between(receipt.reached, piece.from_offset) or 0
        lane.likely_every = likely(lane.one_of, places, receipt.records)
        lane.every = seen(lane.every, places, receipt.records, lane.bucket.of)


def _all_or_nothing(wave: Wave) -> bool:
    """Whether an error can name a record while nothing of what comes before it is done.

    Of a recorded slice no part is done, and of merged lanes nothing if one cannot be read to its
    end.
    """
    return wave.intended or wave.merges_lanes


def _guessed(receipt: Receipt) -> int:
    """How many records were guessed to be in a slice of a bucket that was read to its end; or 0."""
    piece = receipt.slice
    is_whole = receipt.reached == piece.until_offset and not receipt.superseded
    return piece.records if is_whole and parts_of(piece.lane.name) > 1 else 0


def _learn_merged(held: HeldStream, receipts: Sequence[Receipt]) -> None:
    """Take lanes that were one call into the averages, as one slice.

    The seconds of a call are spread by records, so one lane says nothing of a fixed cost.
    """
    held.cost = learn(
        held.cost,
        sum(receipt.records for receipt in receipts),
        sum(receipt.bytes for receipt in receipts),
        sum(receipt.seconds for receipt in receipts),
        planned=sum(receipt.slice.records for receipt in receipts),
    )
    for receipt in receipts:
        lane = held.lanes.get(receipt.slice.lane.name)
        if lane is not None:
            lane.taken = receipt.records


def _as_of(position: Place, receipt: Receipt, error: SliceError) -> Receipt | None:
    """A receipt as of where its lane is now; None if the error is of no concern there."""
    if position == receipt.reached:
        return receipt
    # An earlier attempt of the task may have come further than the last, which tells of its end.
    inside = receipt.reached < position < receipt.slice.until_offset
    if inside and (error.offset is None or error.offset >= position):
        return replace(receipt, reached=position)
    return None
