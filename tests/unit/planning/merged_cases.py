"""Lanes of one stream in one order, a call at a time: plan, take what is old enough, learn, again.

When a record happened is a number. A call takes the records of all slices up to the end of the
first slice whose lane goes on behind it, as `spark/portions.py` does, and costs so much however few
they are. What is younger was read in vain. Time is a number too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.connectors.kafka import OFFSETS
from headrace.model.lane_names import number_of
from headrace.model.plans import Cost, LaneView, Limits, Snapshot, StreamView
from headrace.model.streams import Order, Slice, StreamId
from headrace.planning import check, plan
from headrace.policies.cost import learn
from headrace.policies.fairness import settled

RECORD_BYTES = 50
TIMEOUT_S = 30.0
#: what a bin costs its slot besides its work
OVERHEAD_S = 0.03


@dataclass
class Merged:
    """A stream, when the records of each of its lanes happened, and what its handler costs."""

    happened_s: Sequence[Sequence[float]]
    fixed_s: float
    record_s: float
    cost: Cost = field(default_factory=lambda: Cost(bytes_per_record=RECORD_BYTES))
    credit_s: float = 0.0
    now_s: float = 0.0
    turn: int = 0
    #: of each call: when it ended, records, those that were planned, seconds
    ran: list[tuple[float, int, int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Every lane begins at its beginning."""
        self.positions = [0] * len(self.happened_s)
        self.taken = [0] * len(self.happened_s)

    @property
    def left(self) -> int:
        """Records that are not done."""
        return sum(map(len, self.happened_s)) - sum(self.positions)

    def run(self, until_s: float, limits: Limits | None = None) -> None:
        """Call until then, or until nothing is left."""
        while self.now_s < until_s and self.left:
            self.turn += 1
            asked = Snapshot(f"turn-{self.turn}", (self.view(),), 1, limits or Limits())
            made = plan(asked, OFFSETS)
            assert check(asked, made, OFFSETS) == []
            self.credit_s = made.credits[0].credit_s
            (wave,) = made.waves
            self._call(tuple(wave.slices), wave.bins[0].predicted_s)

    def view(self) -> StreamView:
        """What the planner is shown."""
        lanes = tuple(
            LaneView(
                f"merged.visits[{number}]",
                self.positions[number],
                len(times),
                len(times) - self.positions[number],
                taken=self.taken[number],
            )
            for number, times in enumerate(self.happened_s)
        )
        return StreamView(
            StreamId("call", "merged"),
            "merged.visits",
            lanes,
            order=Order.STREAM,
            cost=self.cost,
            credit_s=self.credit_s,
            call_limit_s=TIMEOUT_S,
        )

    def rate(self, from_s: float) -> float:
        """Records a second of the calls that ended later."""
        found = [(n, seconds + OVERHEAD_S) for at_s, n, _, seconds in self.ran if at_s > from_s]
        return sum(n for n, _ in found) / sum(seconds for _, seconds in found)

    def _call(self, slices: Sequence[Slice], predicted_s: float) -> None:
        reached = self._reached(slices)
        planned = sum(piece.records for piece in slices)
        self.taken = [0] * len(self.happened_s)
        for piece, upto in zip(slices, reached, strict=True):
            self.positions[number_of(piece.lane.name)] = upto
            self.taken[number_of(piece.lane.name)] = upto - piece.from_offset
        records = sum(self.taken)
        assert records, "every call makes progress"
        seconds = self.fixed_s + records * self.record_s
        self.now_s += seconds + OVERHEAD_S
        self.credit_s = settled(self.credit_s, predicted_s, seconds, 16.0)
        self.cost = learn(self.cost, records, records * RECORD_BYTES, seconds, planned)
        self.ran.append((self.now_s, records, planned, seconds))

    def _reached(self, slices: Sequence[Slice]) -> list[int]:
        times = [self.happened_s[number_of(piece.lane.name)] for piece in slices]
        going = [
            (lane_s[piece.until_offset - 1], number_of(piece.lane.name))
            for piece, lane_s in zip(slices, times, strict=True)
            if piece.more
        ]
        horizon = min(going, default=(float("inf"), 0))
        return [
            bisect_right(
                lane_s,
                horizon,
                piece.from_offset,
                piece.until_offset,
                key=lambda at_s, name=piece.lane.name: (at_s, number_of(name)),  # type: ignore[misc]
            )
            for piece, lane_s in zip(slices, times, strict=True)
        ]


def steady(records: int, every_s: int, start_s: int = 0) -> range:
    """When the records of a lane happened of which one comes each so many seconds."""
    return range(start_s, start_s + records * every_s, every_s)


def in_blocks(lanes: int, blocks: int, records: int) -> list[list[int]]:
    """Lanes that take turns: so many records of one, then of the next."""
    happened: list[list[int]] = [[] for _ in range(lanes)]
    for block in range(blocks):
        happened[block % lanes] += range(block * records, (block + 1) * records)
    return happened
