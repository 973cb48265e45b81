"""Which lanes came after which when a partition was divided otherwise, and where that stands.

A partition is read by the lanes of one division after the other. One of a former division is *over*
when it came to where what follows it begins; as long as it is not, the partition stands where that
lane does, however far others are. And of each division that is there and not over all lanes have to
be there: the records of one that is not would be read by nobody, and missed by nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from headrace.model.buckets import by_whole_lane, divided, division_of, whole_lane
from headrace.model.lineage import Parent
from headrace.model.places import number_at
from headrace.model.streams import LaneId, StreamId
from headrace.testing.simulation.generations import Generations


@dataclass(eq=False, slots=True)
class Divided:
    """What lanes follow of other divisions of theirs."""

    generations: Generations
    #: what a lane follows, with the place up to which
    _before: dict[LaneId, dict[LaneId, int]] = field(default_factory=dict)

    def begins(self, lane: LaneId, parents: Collection[Parent]) -> set[int]:
        """A lane begins, and what followed one of that name before does no more; where it may."""
        for follows in self._before.values():
            follows.pop(lane, None)
        before = {
            lane._replace(name=parent): number_at(until)
            for parent, until in parents
            if until is not None and whole_lane(parent) == whole_lane(lane.name)
        }
        self._before[lane] = before
        return set(before.values())

    def before(self, lane: LaneId) -> set[LaneId]:
        """All that it follows of its lane of the log, directly or not."""
        found = set(self._before.get(lane, ()))
        return found.union(*map(self.before, found))

    def end_of(self, lane: LaneId) -> int | None:
        """Where a lane ends because another division of its partition begins there."""
        return min((of[lane] for of in self._before.values() if lane in of), default=None)

    def is_over(self, lane: LaneId) -> bool:
        """Whether it came to where a lane begins that follows it, be it where a log was cut."""
        now = self.generations.now(lane)
        for follower, before in self._before.items():
            begun = self.generations.now(follower)
            if lane in before and begun is not None:
                return now is None or now.at >= min(before[lane], begun.start)
        return False

    def stands(self, stream: StreamId, whole: str) -> int | None:
        """Where a lane of the log is done, by all lanes that read it and are not over."""
        lanes = [lane for lane in self._of(stream) if whole_lane(lane.name) == whole]
        ways = {lane: self.generations.now(lane) for lane in lanes}
        there = {lane: way.at for lane, way in ways.items() if way is not None}
        return min((at for lane, at in there.items() if not self.is_over(lane)), default=None)

    def incomplete(self, stream: StreamId) -> list[str]:
        """Lanes of the log of which buckets are missing."""
        lanes = [lane for lane in self._of(stream) if self.generations.now(lane) is not None]
        return lacking(lane.name for lane in lanes if not self.is_over(lane))

    def _of(self, stream: StreamId) -> Iterable[LaneId]:
        return self.generations.lanes(lambda lane: lane.stream == stream)


def lacking(names: Iterable[str]) -> list[str]:
    """Lanes of a log that are not read by all lanes of one division at least."""
    return [whole for whole, parts in by_whole_lane(names).items() if not _has_whole(whole, parts)]


def _has_whole(whole: str, parts: Collection[str]) -> bool:
    return any(
        set(parts).issuperset(divided(whole, of, by_place=by_place))
        for of, by_place in set(map(division_of, parts))
    )
