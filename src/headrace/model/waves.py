"""What runs: bins and waves.

A wave is what one Spark job runs, and always of one use case: its handler, sink and guarantee are
then one thing for the whole job, and a failure of the job touches nobody else's. Its lanes (for
order ``stream``: its streams) are disjoint from those of every other wave in flight.

A use case may be deployed otherwise while a wave of it runs or waits to run again. So a wave has
the *terms* that it began under with it, and is run and judged by these to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.model.places import Place
from headrace.model.records import Move
from headrace.model.streams import BadRecordPolicy, Guarantee, LaneId, Order, Slice, StreamId
from headrace.model.topic_lists import is_of


def planned_id(wave_id: str) -> str:
    """The id of the wave as it was planned, by that of the wave itself or of a part of it."""
    return wave_id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Terms:
    """What must stay the same of a use case until a wave of it is over."""

    guarantee: Guarantee
    order: Order
    form: str
    #: the kind of sink, with what says where its effects go; empty for form ``wave``
    sink: str
    #: the wave is written down before it runs (exactly-once by intent)
    intends: bool
    #: the warehouse, where the sink writes below it; also empty where an earlier version wrote it
    place: str = ""
    #: what becomes of a bad record, and so how much of a slice its effect is of; None where an
    #: earlier version wrote it
    bad_record: BadRecordPolicy | None = None

    def __str__(self) -> str:
        sink = f", sink {self.sink}" if self.sink else ""
        place = f" in warehouse {self.place}" if self.place else ""
        return f"{self.guarantee}, order {self.order}, form {self.form}{sink}{place}"


@dataclass(frozen=True, slots=True)
class Bin:
    """The slices that one Spark task runs, one after the other."""

    slices: tuple[Slice, ...]
    predicted_s: float
    #: of a recorded wave: a name that no other bin in flight has, kept by whatever runs the bin
    #: again, so that a sink can shut an earlier attempt out; reused when the bin is done with
    fence: str = ""
    #: others wait for its slot, and what it may do is not known: it has the patience of company
    hurried: bool = False

    @property
    def in_company(self) -> bool:
        """Whether others wait for each of its calls: several streams share it, or its slot."""
        return self.hurried or len({piece.lane.stream for piece in self.slices}) > 1


@dataclass(frozen=True, slots=True)
class Wave:
    """The bins that one Spark job runs."""

    #: unique for ever: it names the effects of DataFrame handlers and the intent
    id: str
    use_case: str
    bins: tuple[Bin, ...]
    #: a slice still running after this many seconds yields between two portions
    budget_s: float
    #: what it began under; None before it begins, and where an earlier version wrote it down
    terms: Terms | None = None
    #: of a recorded wave: tenants that its last call was for, if it was not for all of them
    turn: tuple[str, ...] = ()
    #: of a recorded wave: somebody came through under its id, so what is left of it needs another
    taken: bool = False

    @property
    def intended(self) -> bool:
        """Whether it was written down before it began."""
        return self.terms is not None and self.terms.intends

    @property
    def writes_by_id(self) -> bool:
        """Whether its handler writes under its id, where only the same id replaces what was left.

        Of what an earlier version wrote down it is not known.
        """
        return self.terms is None or self.terms.form == "wave"

    @property
    def merges_lanes(self) -> bool:
        """Whether the lanes of each of its streams are one call, in the order of time."""
        return self.terms is not None and self.terms.order.merges_lanes

    def without_topics(self, stream: StreamId, topics: Collection[str]) -> Wave:
        """The wave without slices of topics that are others by now, as `others` has them.

        What is merged was one call, and belongs together.
        """

        def is_gone(piece: Slice) -> bool:
            return piece.lane.stream == stream and is_of(piece.lane.name, topics)

        if self.merges_lanes and any(map(is_gone, self.slices)):
            return self.only(lambda piece: piece.lane.stream != stream)
        return self.only(lambda piece: not is_gone(piece))

    def is_taken_by(self, done: Collection[tuple[LaneId, Place]]) -> bool:
        """Whether its id is taken when lanes have moved on from there: one of its own wrote."""
        wrote = any(piece.begin in done for piece in self.slices)
        return self.taken or (self.writes_by_id and wrote)

    def is_cut_by(self, moves: Iterable[Move]) -> bool:
        """Whether a lane that is moved goes on in the middle of its slice."""
        to = {move.lane: move.to_offset for move in moves}
        return any(
            piece.from_offset < to[piece.lane] < piece.until_offset
            for piece in self.slices
            if piece.lane in to
        )

    @property
    def slices(self) -> Iterator[Slice]:
        """All slices, bin by bin."""
        return (piece for bin_ in self.bins for piece in bin_.slices)

    def only(self, wanted: Callable[[Slice], bool]) -> Wave:
        """The wave with some of its slices alone; bins left empty are dropped."""
        bins = (replace(bin_, slices=tuple(filter(wanted, bin_.slices))) for bin_ in self.bins)
        return replace(self, bins=tuple(bin_ for bin_ in bins if bin_.slices))
