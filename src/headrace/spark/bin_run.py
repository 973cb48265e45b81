"""Running the portions of one bin: claim, handle, write, group by group.

The order of these three steps is what a guarantee is; `task.py` has the table. A sink that refuses
a portion for good does not say which record it was, so the portion is halved until it is one
record: everything before the culprit is written and the position stops exactly at it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.records import Move
from headrace.model.streams import Guarantee
from headrace.ports import Effect, Positions, SinkWriter, Written
from headrace.spark.handling import error_of, handle, name_record
from headrace.spark.portions import Portion, cut_to, rest_of
from headrace.spark.tally import Tally
from headrace.use_cases import SliceContext, UseCase


@dataclass
class BinRun:
    """One bin on its way: claims, handles and writes group by group."""

    use_case: UseCase
    options: dict[str, str]
    positions: Positions
    writer: SinkWriter
    tally: Tally

    def group(self, portions: list[Portion]) -> None:
        """Take some portions, no lane twice, all the way to the sink and into the tally."""
        if self.use_case.guarantee is Guarantee.AT_MOST_ONCE:
            portions = self._claim(portions)
        handled: list[Portion] = []
        effects: list[Effect] = []
        for portion in portions:
            done, effect = self._handle(portion)
            if effect is not None:
                handled.append(done)
                effects.append(effect)
        if effects:
            for done, written in zip(handled, self._write(effects), strict=True):
                if self._can_narrow(done, written):
                    self._narrow(done)
                else:
                    self.tally.wrote(done, written)

    def _claim(self, portions: list[Portion]) -> list[Portion]:
        """Move the positions first; keep only the portions whose positions were ours to move."""
        moves = [_moves(portion) for portion in portions]
        moved = iter(self.positions.advance([move for each in moves for move in each]))
        # Every answer is taken, also after a False, or the next portion would be given it.
        ours = [all([next(moved) for _ in each]) for each in moves]  # noqa: C419
        for portion, mine in zip(portions, ours, strict=True):
            self.tally.claimed(portion, mine)
        return [portion for portion, mine in zip(portions, ours, strict=True) if mine]

    def _handle(self, portion: Portion) -> tuple[Portion, Effect | None]:
        first = portion.planned[0]
        context = SliceContext(self.use_case.name, first.lane.tenant, portion.slices, self.options)
        began = time.monotonic()
        rows = portion.records.num_rows
        handled = handle(self.use_case, portion.records, context) if rows else None
        self.tally.spent(portion, time.monotonic() - began)
        if handled is not None and handled.error is not None:
            portion = cut_to(portion, handled.rows, handled.error)
        nothing_reached = portion.reached == tuple(each.from_offset for each in portion.slices)
        if nothing_reached:
            self.tally.stop(portion, portion.error)
            return portion, None
        output = handled.output if handled is not None else None
        return portion, Effect(
            portion.slices,
            portion.reached,
            portion.records.slice(0, 0).select([]) if output is None else output,
            move_positions=self.use_case.transacts,
        )

    def _can_narrow(self, portion: Portion, written: Written) -> bool:
        """Whether halving is allowed: not after a claim, not for effects of a fixed identity."""
        if written.error is None or written.error.temporary:
            return False
        repeatable = self.use_case.guarantee is not Guarantee.AT_MOST_ONCE
        return repeatable and not self.use_case.intends and len(portion.slices) == 1

    def _narrow(self, portion: Portion) -> None:
        """Write a refused portion piece by piece, up to the record that the sink refuses."""
        rest = portion
        while rest.records.num_rows > 0:
            rows = (rest.records.num_rows + 1) // 2
            half, effect = self._handle(cut_to(rest, rows, None))
            if effect is None:
                return
            written = self._write([effect])[0]
            if written.error is None or written.error.temporary:
                self.tally.wrote(half, written)
                if self.tally.stopped(half.planned[0]):
                    return
                rest = rest_of(rest, half)
            elif rows == 1:
                self.tally.stop(half, name_record(written.error, half.records, 0))
                return
            else:
                rest = half

    def _write(self, effects: list[Effect]) -> Sequence[Written]:
        try:
            return self.writer.write(effects)
        except Exception as error:
            return [Written(error=error_of(error))] * len(effects)


def _moves(portion: Portion) -> tuple[Move, ...]:
    return tuple(
        Move(each.lane, each.from_offset, reached, each.epoch)
        for each, reached in zip(portion.slices, portion.reached, strict=True)
    )
