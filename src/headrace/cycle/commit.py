"""The fourth step: what the receipts say becomes positions.

A receipt is a hint and the store is the truth. Where the task itself moved the position the board
only follows; elsewhere the move is made here, by compare-and-set. Whenever the two disagree, or a
job failed as a whole, the positions are read back before anything of these lanes is planned again.

A temporary error holds the lane back for a while. A permanent one suspends its stream alone, with
the error, the offset and the raw record kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from headrace.cycle.board import Board
from headrace.cycle.observe import Observer
from headrace.cycle.report import Reporter
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Failure, Move
from headrace.model.streams import StreamId
from headrace.model.waves import Wave
from headrace.policies.cost import learn
from headrace.policies.retry import Backoff, retry
from headrace.ports import Clock, Store, WaveResult

log = structlog.get_logger(__name__)

BACKOFF = Backoff(first_s=0.2, most_s=30.0)


@dataclass(slots=True)
class Committer:
    """Turns wave results into durable positions, and their errors into decisions."""

    store: Store
    board: Board
    observer: Observer
    reporter: Reporter
    clock: Clock
    chance: Callable[[], float] = random.random
    #: recorded waves whose job failed: they run again as they were, after the given second
    replays: list[tuple[float, Wave]] = field(default_factory=list)
    _tries: dict[str, int] = field(default_factory=dict)

    def commit(self, result: WaveResult, intended: bool) -> None:
        """Take one wave's result all the way.

        Raises:
            StoreUnavailable: nothing of it was taken; call again with the same result.
        """
        if result.error is not None:
            self._job_failed(result.wave, result.error, intended)
            return
        disagreed = self._move(result, intended)
        now_s, committed_s = self.clock.monotonic_s(), self.clock.now_s()
        for receipt in result.receipts:
            if receipt.error is not None and not receipt.error.temporary:
                self._keep(receipt, receipt.error)
        if disagreed:
            self.observer.reload_positions(disagreed)
        self.board.ended(result.wave)
        self._tries.pop(result.wave.id, None)
        for receipt in result.receipts:
            self._learn(receipt, now_s, committed_s, result.wave.id)

    def _move(self, result: WaveResult, intended: bool) -> set[StreamId]:
        """Move the positions; return the streams whose positions were not where we thought."""
        mine = [
            each
            for each in result.receipts
            if not each.committed and not each.superseded and each.reached > each.slice.from_offset
        ]
        moves = [
            Move(each.slice.lane, each.slice.from_offset, each.reached, each.slice.epoch)
            for each in mine
        ]
        if intended:
            moved = self.store.finish_intent(result.wave.id, moves)
        else:
            moved = self.store.positions.advance(moves) if moves else []
        refused = {each.slice.lane.stream for each, ok in zip(mine, moved, strict=True) if not ok}
        done = [each for each, ok in zip(mine, moved, strict=True) if ok]
        for each in [*done, *(other for other in result.receipts if other.committed)]:
            lane = self.board.lane(each.slice.lane)
            if lane is not None and lane.position == each.slice.from_offset:
                lane.position = each.reached
        return refused | {each.slice.lane.stream for each in result.receipts if each.superseded}

    def _learn(self, receipt: Receipt, now_s: float, committed_s: float, wave: str) -> None:
        stream = receipt.slice.lane.stream
        held = self.board.streams.get(stream)
        if held is None:
            return
        meter = self.reporter.meter(stream)
        meter.last_wave = wave
        meter.add(receipt, committed_s, now_s)
        if receipt.records:
            held.cost = learn(held.cost, receipt.records, receipt.bytes, receipt.seconds)
        lane = held.lanes.get(receipt.slice.lane.partition)
        if lane is None:
            return
        if receipt.error is None:
            lane.tries = 0
        elif receipt.error.temporary:
            meter.last_error = receipt.error.message
            lane.not_before_s = now_s + self._wait_s(lane.tries, receipt.error)
            lane.tries += 1
            log.warning(
                "slice held back",
                slice=str(receipt.slice),
                tries=lane.tries,
                error=receipt.error.message,
            )

    def _wait_s(self, tries: int, error: SliceError) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s
        return retry(BACKOFF, tries, self.chance()).wait_s

    def _keep(self, receipt: Receipt, error: SliceError) -> None:
        piece = receipt.slice
        number = self.store.keep_failure(Failure(piece, error, self.clock.now_s()))
        held = self.board.streams.get(piece.lane.stream)
        if held is not None:
            held.waiting = f"{error.code}: {error.message}"
        log.error(
            "stream suspended",
            stream=str(piece.lane.stream),
            slice=str(piece),
            offset=error.offset,
            error=error.message,
            failure=number,
        )

    def _job_failed(self, wave: Wave, error: SliceError, intended: bool) -> None:
        """Nobody knows what was done: ask the store, then wait a little."""
        self.observer.reload_positions({piece.lane.stream for piece in wave.slices})
        log.warning("wave failed", wave=wave.id, error=error.message, again=intended)
        now_s = self.clock.monotonic_s()
        if intended:
            tries = self._tries[wave.id] = self._tries.get(wave.id, 0) + 1
            self.replays.append((now_s + self._wait_s(tries - 1, error), wave))
            # Its lanes stay marked: nothing of them may be planned before the replay.
            self.board.waves.pop(wave.id, None)
            return
        self.board.ended(wave)
        for piece in wave.slices:
            lane = self.board.lane(piece.lane)
            if lane is not None:
                lane.not_before_s = now_s + self._wait_s(lane.tries, error)
                lane.tries += 1
