"""The fourth step: what the receipts say becomes positions.

A receipt is a hint and the store is the truth. Where the task itself moved the position there is
nothing to do; elsewhere the move is made here, by compare-and-set. What at-most-once lost is kept,
and what is left of a recorded wave stays written down.

All of that is in the store, and comes back as one value, `Committed`: what moved, what was refused,
what is in doubt, what is to run again. Nothing else is changed here: `apply.py` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from headrace.board import Board
from headrace.cycle.claims import as_claimed, claims, is_unclear, lost_claims
from headrace.cycle.recorded import RecordedWaves
from headrace.cycle.unfinished import over, tells_no_end, unfinished
from headrace.errors import CodeNotLoaded, EngineStopped, HandlerHung, StoreUnavailable
from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Failure, Move
from headrace.model.streams import LaneId, Position, StreamId
from headrace.model.waves import Wave
from headrace.ports import Clock, Store, WaveResult
from headrace.process.crash_points import reached
from headrace.telemetry.log_fields import of_slice, of_wave

log = structlog.get_logger(__name__)

_HUNG = "a use case did not come back, could not be interrupted, and its worker was ended"


@dataclass(frozen=True, slots=True)
class Committed:
    """What a wave's result came to in the store."""

    result: WaveResult
    #: receipts up to whose ends positions have moved
    moved: tuple[Receipt, ...] = ()
    #: streams whose positions are not where we thought, or may not be
    refused: frozenset[StreamId] = frozenset()
    #: what at-most-once claimed and may not have done
    in_doubt: tuple[Failure, ...] = ()
    #: recorded waves that are to run again
    to_replay: tuple[Wave, ...] = ()
    #: how often in a row their job was lost; 0: they need not wait for that
    times_lost: int = 0
    #: seconds since 1970 at which all of it was durable
    at_s: float = 0.0


@dataclass(slots=True)
class Committer:
    """Takes wave results into the store."""

    store: Store
    #: only read
    board: Board
    recorded: RecordedWaves
    clock: Clock

    def commit(self, result: WaveResult) -> Committed:
        """Take one wave's result into the store, under the terms that it began under.

        Raises:
            StoreUnavailable: call again with the same result; what was taken is not taken twice.
        """
        positions = self._claimed(result)
        result = as_claimed(result, positions)
        done = self._lost(result) if result.error is not None else self._moved(result)
        done = replace(done, in_doubt=self._keep_doubt(result, positions))
        return replace(done, at_s=self.clock.now_s())

    def give_up(self, end: EngineStopped) -> None:
        """Tell what waves that never come back had claimed, as far as the store can be asked."""
        error = SliceError(temporary=False, code=EngineStopped.__name__, message=str(end))
        try:
            for flight in self.board.flights.values():
                result = WaveResult(flight.wave, (), 0.0, error)
                self._keep_doubt(result, self._claimed(result))
        except StoreUnavailable as trouble:
            log.warning("nobody can tell what was claimed", error=str(trouble))

    def _moved(self, result: WaveResult) -> Committed:
        """Move the positions; what is left of a recorded wave stays written down."""
        mine = [receipt for receipt in result.receipts if _is_ours_to_move(receipt)]
        moves = [Move.of(receipt.slice, receipt.reached, receipt.passed) for receipt in mine]
        rest: list[Wave] = []
        if result.wave.intended:
            rest = unfinished(result, self.board, tried=self.recorded.was_tried(result.wave))
        reached("mid-commit", result.wave.use_case)
        left: list[Wave] = []
        if result.wave.intended:
            left_out = [receipt.slice for receipt in result.receipts if tells_no_end(receipt)]
            again = {piece for wave in rest for piece in wave.slices}
            nothing = [piece for piece in left_out if piece not in again]
            ended = over(result, rest)
            moved, left = self.recorded.finish(result.wave, moves, ended, nothing, rest)
        else:
            moved = self.store.positions.advance(moves) if moves else []
        reached("committed", result.wave.use_case)
        done = [receipt for receipt, was_moved in zip(mine, moved, strict=True) if was_moved]
        refused = {
            receipt.slice.lane.stream
            for receipt, was_moved in zip(mine, moved, strict=True)
            if not was_moved
        }
        refused |= {receipt.slice.lane.stream for receipt in result.receipts if receipt.superseded}
        done += [receipt for receipt in result.receipts if receipt.committed]
        return Committed(result, tuple(done), refused=frozenset(refused), to_replay=tuple(left))

    def _lost(self, result: WaveResult) -> Committed:
        """A job failed as a whole: nobody knows what was done of it, but the store."""
        wave, error = result.wave, self._blamed(result)
        log.warning("wave failed", **of_wave(wave), error=error.message, again=wave.intended)
        streams = frozenset(piece.lane.stream for piece in wave.slices)
        done = Committed(replace(result, error=error), refused=streams)
        if not wave.intended:
            return done
        again = self.recorded.lost(wave, error)
        return replace(done, to_replay=tuple(again.waves), times_lost=again.times)

    def _blamed(self, result: WaveResult) -> SliceError:
        """Why a job failed; one that was ended here hung, unless its code was still loading."""
        assert result.error is not None, "only a failed job is blamed"
        flight = self.board.flights.get(result.wave.id)
        if flight is None or not flight.cancelled or result.error.code == CodeNotLoaded.__name__:
            return result.error
        return replace(result.error, temporary=False, code=HandlerHung.__name__, message=_HUNG)

    def _claimed(self, result: WaveResult) -> dict[LaneId, Position]:
        """Where lanes of at-most-once are, as far as nobody who came back can tell."""
        if not claims(result) or not is_unclear(result):
            return {}
        streams = {piece.lane.stream for piece in result.wave.slices}
        return {position.lane: position for position in self.store.progress.load_positions(streams)}

    def _keep_doubt(
        self, result: WaveResult, positions: dict[LaneId, Position]
    ) -> tuple[Failure, ...]:
        """Keep what a wave of at-most-once has claimed and not done.

        Once; twice only if the store's answer to it is lost.
        """
        found = lost_claims(result, positions, self.clock.now_s()) if claims(result) else []
        if found:
            self.store.failures.note(found)
        for failure in found:
            log.warning(
                "records may be lost", **of_slice(failure.slice), error=failure.error.message
            )
        return tuple(found)


def _is_ours_to_move(receipt: Receipt) -> bool:
    elsewhere = receipt.committed or receipt.superseded
    return not elsewhere and receipt.reached > receipt.slice.from_offset
