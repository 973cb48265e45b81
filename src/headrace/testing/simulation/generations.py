"""Where each lane was sent, when, and how far it came from there.

A guarantee counts effects from a beginning, and several things make a lane begin anew: a person
seeks it, or adds its stream again after it was removed; Kafka lost its next records; its topic is
another one. Without a book of that, a record that comes again because somebody asked for it looks
like a fault, and whoever forgives it forgives the faults beside it. So each way of a lane from one
beginning to the next is a *generation*, and the books are balanced generation by generation.

A slice belongs to the generation it was started in. One that was started late, from where its lane
was before it was sent elsewhere, belongs to the generation that was there: each decision gives the
stream a new epoch, by which a slice tells whether whoever planned it knew of that. So a lane that
is sent to where it stands has two generations there. A driver may read the epoch before a decision
and the position after it: such a slice begins where its lane is now, under an epoch that is over.
Its move is refused, and its effects are of the generation whose records it was given.

It is told of decisions and of moves at the moment the store has them, and asks the store nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from headrace.model.places import number_at
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.testing.chain_checker import OffsetChain


@dataclass(eq=False, slots=True)
class Generation:
    """A lane's way from one beginning to the next."""

    number: int
    #: the how-manieth topic of that name it reads
    log: int
    #: where it began
    start: int
    #: where its lane is, or was when it ended
    at: int
    #: everywhere it was
    stands: set[int]
    #: the how-manieth way of its stream it is part of: its lanes begin anew together
    way: int = 0
    #: how many records had been written anywhere when it began
    written: int = 0
    #: of its stream since it began; what was planned under an older one is of an earlier generation
    epoch: int = 0
    #: where it was when its topic was deleted
    gone_at: int | None = None

    @property
    def done(self) -> range:
        """Offsets that it has passed, and that had to have their effects."""
        return range(self.start, self.at if self.gone_at is None else min(self.at, self.gone_at))


@dataclass(eq=False, slots=True)
class Generations:
    """The generations of all lanes, oldest first."""

    chain: OffsetChain = field(default_factory=OffsetChain)
    #: what cannot be
    found: list[str] = field(default_factory=list)
    _lanes: dict[LaneId, list[Generation]] = field(default_factory=dict)
    #: lanes without a position: their streams were added again, and no driver has begun them
    _bare: set[LaneId] = field(default_factory=set)
    #: how often a stream was sent elsewhere as a whole
    _ways: dict[StreamId, int] = field(default_factory=dict)
    #: ranges that were moved over, lane by lane
    _moves: dict[LaneId, list[range]] = field(default_factory=dict)

    def of(self, lane: LaneId) -> list[Generation]:
        """The generations of a lane."""
        return self._lanes.get(lane, [])

    def now(self, lane: LaneId) -> Generation | None:
        """The one it is in; None before its first position."""
        return None if lane in self._bare or lane not in self._lanes else self._lanes[lane][-1]

    def lanes(self, wanted: Callable[[LaneId], bool]) -> Iterator[LaneId]:
        """Lanes that ever had a position."""
        return (lane for lane in sorted(self._lanes) if wanted(lane))

    def moves(self, lane: LaneId) -> list[range]:
        """What its slices moved it over, in all generations."""
        return self._moves.get(lane, [])

    def of_slice(self, piece: Slice) -> int:
        """The generation that a slice belongs to which starts now."""
        for generation in reversed(self.of(piece.lane)):
            if generation.epoch <= piece.epoch and piece.from_offset in generation.stands:
                return generation.number
        now = self.now(piece.lane)
        if self.is_late(piece) and now is not None and piece.from_offset in now.stands:
            return now.number
        self.found.append(f"{piece} begins where its lane never was")
        return 0

    def is_late(self, piece: Slice) -> bool:
        """Whether its lane was sent elsewhere since its epoch was read; its move is refused."""
        now = self.now(piece.lane)
        return now is not None and piece.epoch < now.epoch

    def moved(self, move: Move) -> None:
        """A slice moved its lane."""
        now = self.now(move.lane)
        if now is None:
            self.found.append(f"{move.lane} is moved to {move.to_offset} and was nowhere yet")
            return
        start, to = number_at(move.from_offset), number_at(move.to_offset)
        self.chain.moved(move.lane, start, to)
        self._moves.setdefault(move.lane, []).append(range(start, to))
        now.at = to
        now.stands.add(to)

    def passed(self, lane: LaneId, offset: int) -> None:
        """A person sent it on behind a record that cannot be handled: no new generation."""
        self.chain.sent(lane, offset)
        now = self.now(lane)
        if now is not None:
            now.at = offset
            now.stands.add(offset)

    def begins(
        self,
        lane: LaneId,
        offset: int,
        log: int,
        epoch: int = 0,
        written: int = 0,
    ) -> None:
        """A lane begins anew, somewhere, in the how-manieth topic of its name."""
        self.chain.sent(lane, offset)
        self._bare.discard(lane)
        ways = self._lanes.setdefault(lane, [])
        way = self._ways.get(lane.stream, 0)
        ways.append(Generation(len(ways), log, offset, offset, {offset}, way, written, epoch))

    def elsewhere(self, stream: StreamId) -> None:
        """All lanes of a stream begin anew now, those that nobody sent as well."""
        self._ways[stream] = self._ways.get(stream, 0) + 1

    def added_again(self, stream: StreamId) -> None:
        """Its lanes have no positions any more."""
        self.elsewhere(stream)
        self._bare |= {lane for lane in self._lanes if lane.stream == stream}

    def forgotten(self, lane: LaneId) -> None:
        """It has no position any more, and never will."""
        self._bare.add(lane)

    def deleted(self, lanes: Iterable[LaneId]) -> None:
        """The topic that they read is gone."""
        for lane in lanes:
            now = self.now(lane)
            if now is not None and now.gone_at is None:
                now.gone_at = now.at
