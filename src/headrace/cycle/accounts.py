"""What a slice pays when it starts, and what it gets back when it is over.

A stream pays twice for a slice: tokens of the gates that it stands behind, and predicted seconds of
its credit. Neither is known for sure before it is over. So whatever starts pays, a wave that runs
again as well, and what its slices paid is kept here. When it is over, what was paid and not used is
given back to the very gates that it was taken from, once. So waves that fail and run again make
no tokens, and a stream that went to another driver meanwhile leaves no debt to the other streams of
its tenant.

A wave that runs again does not wait for tokens, as its lanes wait for it; it makes a debt. So do
records that are larger than they were thought to be: a slice pays for bytes by a guess, and once it
is read, for those that there were.

What was claimed and lost counts as used: its lane has passed it. So does what a task passed before
it died: where the next attempt finds its lane moved, the lane's position says how far. Of a job
that failed nobody knows what it used. Tokens for records that its lanes did not pass are given
back, as these are read again; should a claim of it be carried out after that, those records were
free. So they may be where the answer to a transaction was lost: the attempt that finds its lane
moved pays, and there is none if positions are read before. Its seconds are not: it had its slot,
and who runs apart owes for all the time that it had it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.board import Board, HeldStream
from headrace.cycle.gates import Gates, Payment
from headrace.model.buckets import parts_of
from headrace.model.places import Place
from headrace.model.receipts import Receipt
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Wave
from headrace.planning.shares import most_debt_s
from headrace.policies.fairness import settled
from headrace.ports import WaveResult


@dataclass(frozen=True, slots=True)
class _Paid:
    """What one slice paid."""

    held: HeldStream
    payment: Payment
    predicted_s: float


@dataclass(slots=True)
class Accounts:
    """The payments of all waves in flight."""

    board: Board
    gates: Gates
    #: task-seconds up to which credit and debt are remembered
    most_credit_s: float
    _paid: dict[str, dict[tuple[LaneId, Place], _Paid]] = field(default_factory=dict)

    def planned(self, wave: Wave) -> None:
        """Undo that the plan took the seconds of a wave: it pays when it starts, if it does."""
        for held, _, predicted_s in self._predicted(wave):
            held.credit_s += predicted_s

    def started(self, wave: Wave, now_s: float) -> None:
        """Let the slices of a wave pay."""
        paid = self._paid[wave.id] = {}
        for held, piece, predicted_s in self._predicted(wave):
            self._settle(held, 0.0, predicted_s)
            paid[piece.begin] = _Paid(held, self.gates.passed(held, piece, now_s), predicted_s)

    def returned(self, result: WaveResult) -> None:
        """Give back what the slices of a wave that is over did not use."""
        receipts = {receipt.slice.begin: receipt for receipt in result.receipts}
        for begin, paid in self._paid.pop(result.wave.id, {}).items():
            receipt = receipts.get(begin)
            undone = 1.0 if receipt is None else _undone(receipt, paid.held)
            used = 0.0 if receipt is None else _bytes_of(receipt, undone, paid.payment.bytes)
            paid.payment.give_back(undone, used)
            if receipt is not None and result.error is None:
                self._settle(paid.held, paid.predicted_s, receipt.seconds)
            elif result.error is not None and paid.held.apart:
                # One that had to be ended, or took its worker along, had the slot all that time.
                self._settle(paid.held, paid.predicted_s, result.seconds)

    def _predicted(self, wave: Wave) -> Iterator[tuple[HeldStream, Slice, float]]:
        """Each slice with its stream and the seconds it takes; merged lanes are one call."""
        slices = Counter(piece.lane.stream for piece in wave.slices)
        for piece in wave.slices:
            held = self.board.streams[piece.lane.stream]
            parts = slices[held.stream.id] if held.deployment.order.merges_lanes else 1
            fixed_s = held.cost.seconds_per_slice / parts
            yield held, piece, fixed_s + piece.records * held.cost.seconds_per_record

    def _settle(self, held: HeldStream, predicted_s: float, measured_s: float) -> None:
        most_s, call_limit_s = self.most_credit_s, held.deployment.handler_timeout_s
        most_owed_s = most_debt_s(most_s, call_limit_s, apart=bool(held.apart))
        held.credit_s = settled(held.credit_s, predicted_s, measured_s, most_s, most_owed_s)


def _bytes_of(receipt: Receipt, undone: float, guessed: float) -> float:
    """How many bytes a slice had, of what its lane passed: what was read is known, the rest is not.

    Args:
        receipt: of the slice.
        undone: the part of it that its lane did not pass.
        guessed: how many the whole slice was to have.
    """
    records = max(1, receipt.slice.records)
    unseen = receipt.lost
    if receipt.superseded:
        unseen = max(unseen, round((1.0 - undone) * records) - receipt.records)
    return receipt.bytes + guessed * unseen / records


def _undone(receipt: Receipt, held: HeldStream) -> float:
    """The part of a slice that its lane did not pass, be it in an attempt that nobody heard of.

    Of a bucket nobody knew how many records there were: below 0 where they were more.
    """
    piece, reached, taken = receipt.slice, receipt.reached, receipt.records + receipt.lost
    if parts_of(piece.lane.name) > 1 and not receipt.superseded:
        return 1.0 - taken / max(1, piece.records)
    lane = held.lanes.get(piece.lane.name)
    if receipt.superseded and lane is not None and held.epoch == piece.epoch:
        reached = max(reached, min(lane.position, piece.until_offset))
    left = None if piece.is_open else held.measures.between(piece.until_offset, reached)
    if left is None:
        # What an attempt passed of it that nobody heard of can not be counted: it counts as all.
        unheard = receipt.superseded and reached > piece.from_offset
        left = 0 if unheard else piece.records - taken
        return left / max(1, piece.records)
    whole = held.measures.between(piece.until_offset, piece.from_offset)
    return left / max(1, whole or piece.records)
