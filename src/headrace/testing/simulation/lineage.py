"""Which lanes really became others, whatever drivers know of it, and what may run before what.

A lane may be read when what it follows was committed to its end, since its stream was last sent
elsewhere; or when what was left of that was decided about, by a person's seek or by a skip that is
told; or when it was gone before the stream began. Whether that is so is looked at whenever a slice
starts, against the book of where lanes stand (``generations.py``), and never by what the driver
has on its board.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from headrace.model.buckets import whole_lane
from headrace.model.streams import LaneId, Slice, StreamId, original
from headrace.testing.simulation.divided import Divided

#: where a lane ends, for who asks
Ends = Callable[[str], int]


@dataclass(slots=True)
class TrueLineage:
    """What lanes of topics that are there follow."""

    #: by lane
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: lanes that are not listed any more, with their ends
    dropped: dict[str, int] = field(default_factory=dict)
    #: which lane follows which, by the how-manieth topic of a name, also of those that are gone
    _followers: dict[tuple[str, int], dict[str, list[str]]] = field(default_factory=dict)

    def begins(self, topic: str) -> None:
        """Another topic of this name begins; nothing follows anything."""
        for kept in (self.parents, self.dropped):
            for name in [name for name in kept if name.startswith(f"{topic}[")]:
                del kept[name]

    def follow(self, topic: str, log: int, name: str, parents: Sequence[str]) -> None:
        """A lane takes the records of others from now on."""
        self.parents[name] = tuple(parents)
        for parent in parents:
            self._followers.setdefault((topic, log), {}).setdefault(parent, []).append(name)

    def drop(self, name: str, end: int) -> None:
        """A lane is not listed any more."""
        self.dropped[name] = end

    def descendants(self, topic: str, log: int, name: str) -> Iterator[str]:
        """All lanes that follow one, directly or not."""
        for follower in self._followers.get((topic, log), {}).get(name, ()):
            yield follower
            yield from self.descendants(topic, log, follower)


@dataclass(eq=False, slots=True)
class Gate:
    """What was decided about lanes that are not waited for."""

    divided: Divided
    #: by stream and topic, told from others of its name: lanes that were gone when it began, or
    #: were given up
    _given_up: dict[tuple[StreamId, str], set[str]] = field(default_factory=dict)
    #: how deep slices of lanes were since their streams were last sent back
    _depths: dict[StreamId, dict[str, int]] = field(default_factory=dict)
    #: all of these slices
    _begun: dict[StreamId, list[Slice]] = field(default_factory=dict)
    #: how deep slices have to be at least, as something of their streams was read before
    _least: dict[StreamId, int] = field(default_factory=dict)

    def give_up(self, stream: StreamId, of: str, names: Collection[str]) -> None:
        """Nobody has to wait for these any more."""
        self._given_up.setdefault((stream, of), set()).update(names)

    def knows(self, stream: StreamId, of: str) -> bool:
        """Whether a stream has begun in this topic."""
        return (stream, of) in self._given_up

    def begun(self, stream: StreamId) -> list[str]:
        """The topics in which a stream has begun since it was added."""
        return sorted(of for name, of in self._given_up if name == stream)

    def sent_back(self, stream: StreamId) -> None:
        """What is read of a stream from now on is newer than all that was."""
        before = self._depths.pop(stream, {})
        self._least[stream] = max([self._least.get(stream, 0) - 1, *before.values()]) + 1
        self._begun.pop(stream, None)

    def too_old(self, piece: Slice, lineage: TrueLineage) -> str:
        """Why what is in a slice would not be newer than it has to be; empty: it is.

        What another division of its lane read is no deeper, as their offsets compare; what other
        lanes read that it follows is less deep.
        """
        stream, name = piece.lane.stream, piece.lane.name
        if piece.depth < self._least.get(stream, 0):
            return f"depth {piece.depth}, below {self._least[stream]}"
        depths = self._depths.setdefault(stream, {})
        depths[name] = piece.depth
        self._begun.setdefault(stream, []).append(piece)
        parents = lineage.parents.get(whole_lane(name), ())
        before = {lane.name for lane in self.divided.before(piece.lane)}
        for parent, depth in depths.items():
            follows = whole_lane(parent) in parents and depth >= piece.depth
            if follows or (parent in before and depth > piece.depth):
                return f"depth {piece.depth}, and {parent} has {depth}"
        return ""

    def too_new(self, piece: Slice) -> str:
        """Why what a rerun has of a slice would be newer than what its stream made of the same."""
        name = original(piece.lane.use_case)
        if name == piece.lane.use_case:
            return ""
        live = self._begun.get(piece.lane.stream._replace(use_case=name), ())
        lane = whole_lane(piece.lane.name)
        read = [
            one
            for one in live
            if whole_lane(one.lane.name) == lane and one.from_offset < piece.until_offset
            if one.until_offset > piece.from_offset and one.depth < piece.depth
        ]
        return f"depth {piece.depth}, and {read[0]} had {read[0].depth}" if read else ""

    def forget(self, stream: StreamId) -> None:
        """It begins anew."""
        self.sent_back(stream)
        for of in [of for of in self._given_up if of[0] == stream]:
            del self._given_up[of]

    def waits_for(self, lane: LaneId, of: str, lineage: TrueLineage, ends: Ends) -> str:
        """What a lane would have had to wait for; empty: it may run."""
        given_up = self._given_up.get((lane.stream, of), set())
        for parent in lineage.parents.get(whole_lane(lane.name), ()):
            if parent in given_up:
                continue
            at = self.divided.stands(lane.stream, parent)
            if at is None and ends(parent):
                return f"{parent}, which has no place"
            if at is not None and at < ends(parent):
                return f"{parent}, which is at {at} of {ends(parent)}"
            if before := self.waits_for(lane._replace(name=parent), of, lineage, ends):
                return before
        return ""
