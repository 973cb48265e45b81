"""Claims that were carried out after somebody had looked whether they were, told all the same.

The answer to a claim is lost, positions are read back and are where they were, and then the server
goes on with the COMMIT. If the lane is planned again before anybody reads its position, its task
finds it moved, and that is told. Else the position would be taken over like any other, and what was
claimed would be lost without a word. What may yet be claimed is remembered (`board/doubts.py`);
here it is taken down as results come back, looked at again now and then, and told like all that
at-most-once loses.

A driver that leaves looks once more; after that, and where one dies, nobody does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import structlog

from headrace.board import Board
from headrace.board.doubts import Doubt
from headrace.cycle.claims import claims, told, unclaimed
from headrace.cycle.commit import Committed
from headrace.cycle.observe import Observer
from headrace.ports import Clock, Failures
from headrace.telemetry.log_fields import of_slice

log = structlog.get_logger(__name__)

#: lanes of which something is in doubt are looked at so often
LOOK_S = 5.0
#: at most so many at once
LANES_A_LOOK = 500


@dataclass(slots=True)
class LateClaims:
    """Finds and tells them."""

    failures: Failures
    board: Board
    observer: Observer
    clock: Clock
    _due_s: float = float("-inf")

    def came_back(self, done: Committed) -> None:
        """Take down what may yet be claimed of a result, before positions are read back."""
        result, doubts = done.result, self.board.doubts
        for piece in result.wave.slices:
            doubts.met(piece.lane, result.wave.id)
        if not claims(result):
            return
        for receipt in result.receipts:
            if receipt.reached > receipt.slice.from_offset:
                doubts.over(receipt.slice.lane)
        for piece, error in unclaimed(result, done.in_doubt):
            held = self.board.streams.get(piece.lane.stream)
            if held is not None and held.epoch == piece.epoch:
                doubts.begin(Doubt(piece, result.wave.id, error))

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be looked at or told."""
        return bool(self.board.doubts.open or self.board.doubts.late)

    def poll(self, now_s: float) -> None:
        """Look again if it is time for that, and tell what was found, here or by anybody.

        Raises:
            StoreUnavailable: what was found is told by the next call.
        """
        if self.board.doubts.open and now_s >= self._due_s:
            self._due_s = now_s + LOOK_S
            self._look(LANES_A_LOOK)
        self._tell()

    def finish(self) -> None:
        """Look at all of it for the last time, as nothing more is to come back.

        Raises:
            StoreUnavailable: call again.
        """
        if self.board.doubts.open:
            self._look(len(self.board.doubts.open))
            self.board.doubts.open.clear()
        self._tell()

    def _tell(self) -> None:
        """Keep what was found; twice only if the store's answer to it is lost."""
        late = self.board.doubts.late
        if not late:
            return
        now_s = self.clock.now_s()
        found = [told(doubt.slice, doubt.error, now_s) for doubt in late]
        self.failures.note(found)
        late.clear()
        for failure in found:
            log.warning(
                "records may be lost", **of_slice(failure.slice), error=failure.error.message
            )

    def _look(self, most: int) -> None:
        """Read where these lanes are, those first that were not looked at for longest."""
        doubts = self.board.doubts.open
        lanes = list(islice(doubts, most))
        for lane in lanes:
            doubt = doubts.pop(lane)
            held = self.board.streams.get(lane.stream)
            if held is not None and held.epoch == doubt.slice.epoch:
                doubts[lane] = doubt
        self.observer.load_positions({lane.stream for lane in lanes})
