"""When recorded waves of streams that run apart have a slot to run again.

What is recorded runs before anything is planned, since its lanes wait for it. But a stream that
runs apart may hold its slot for as long as a call may take, and with a few of them nobody else
would have one. So these obey the rule that holds for what is planned (`policies/express.py`): they
never take the last slot.

Nor do they have the others one after the other. What is planned pays with credits and waits for
its turn with debts; lanes of a recorded wave are not planned, and their stream's credit stands
still. So when one of them comes back and is still apart, the next waits for as long as that one had
its slot, if anybody else has something to run.

They come in the order in which they wait, so none of them starves: as soon as a slot that they may
have is free, and that rest is over, it is the next one's before anything is planned.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.board import Board, HeldStream
from headrace.model.waves import Wave, planned_id
from headrace.policies.express import may_run_again
from headrace.ports import WaveResult


@dataclass(slots=True)
class ApartAgain:
    """Says when such a wave may run."""

    board: Board
    #: of the steady clock
    _rests_until_s: float = float("-inf")

    def may_run(self, wave: Wave, slots: int, now_s: float) -> bool:
        """Whether a recorded wave that is due may have its slots now."""
        if not self._is_apart(wave):
            return True
        if now_s < self._rests_until_s and self._others_wait(now_s):
            return False
        board = self.board
        long = sum(flight.long_bins for flight in board.flights.values())
        hung = board.hung_bins if self._hung(wave) else None
        return may_run_again(len(wave.bins), slots, board.busy_slots, long, hung)

    def returned(self, result: WaveResult, now_s: float) -> None:
        """A wave came back, and what it says of its streams is known."""
        if result.wave.intended and self._is_apart(result.wave):
            self._rests_until_s = now_s + result.seconds

    def _is_apart(self, wave: Wave) -> bool:
        streams = self._streams(wave)
        was_divided = wave.id != planned_id(wave.id)
        return any(held.apart for held in streams) or (
            # A driver that starts knows nobody; but for a reason it was written down alone.
            was_divided and len(streams) == 1 and not streams[0].cost.samples
        )

    def _hung(self, wave: Wave) -> bool:
        return any(held.hung for held in self._streams(wave))

    def _streams(self, wave: Wave) -> list[HeldStream]:
        streams = {piece.lane.stream for piece in wave.slices}
        return [self.board.streams[name] for name in streams if name in self.board.streams]

    def _others_wait(self, now_s: float) -> bool:
        return any(not held.apart for held in self.board.each_runnable(now_s))
