"""Order ``stream``: what was sent first, and says so, has its effect first.

The lanes of a stream are merged by timestamp, but nobody can order what is not there yet. What can
be promised is this: when the first record of a slice was seen to be there, everything that had been
sent before it was there as well. So of two records of a stream the one that was sent first, and has
the older timestamp, comes first, in whichever partitions they are.

Producers' clocks step back, and then a record has the turn of the latest one its lane has shown
before, or any that its lane follows: it waits for all of these, and they for their turns. From
where, a lane's next slice may see otherwise than the one before it did; so the pairs are compared
of which that makes no difference.

Not judged: partitions that were added, until a driver knew them; records that were set aside; what
a leader hid that was cut off and told an old end; what was written where a log was cut, which a
slice that was planned before the cut reads as if it had been there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.lane_names import named as lane_named
from headrace.model.streams import StreamId
from headrace.testing.ledger import Place
from headrace.testing.simulation.generations import Generations
from headrace.testing.simulation.sinks import Done, effect_lane
from headrace.testing.simulation.topics import WorldTopics, bare, log_of


@dataclass(slots=True)
class StreamOrder:
    """Reads effects in the order in which they were made."""

    topics: WorldTopics
    generations: Generations
    #: the latest timestamp that was shown with a record by its lane and all that this follows, in
    #: milliseconds
    _turns_ms: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the turn of each record."""
        latest: dict[tuple[int, str], int] = {}
        descendants = self.topics.lineage.descendants
        for place, (_, stamp_ms) in self.topics.written.items():
            topic, log = place.topic.partition("#")[0], log_of(place)
            lane = lane_named(topic, place.partition)
            turn_ms = self._turns_ms[place] = max(stamp_ms, latest.get((log, lane), 0))
            for name in (lane, *descendants(topic, log, lane)):
                latest[log, name] = max(turn_ms, latest.get((log, name), 0))

    def late(self, done: Iterable[Done]) -> list[str]:
        """Records whose effect came after that of one that was sent later."""
        found = []
        seen: dict[tuple[StreamId, int], dict[Place, tuple[int, int]]] = {}
        for effect in done:
            place = effect.found.place
            lane = effect_lane(effect)
            ways = self.generations.of(lane)
            if place not in self._turns_ms or effect.generation >= len(ways):
                continue  # foreign, and found so elsewhere
            of = (lane.stream, ways[effect.generation].way)
            before = seen.setdefault(of, {})
            if place in before or self.topics.was_hidden(place):
                continue
            number, stamp_ms = self.topics.written[place]
            known = ways[effect.generation].written
            for other, (other_number, other_ms) in before.items():
                later = other_number > max(number, known) and other_ms > self._turns_ms[place]
                if later and _may_be_compared(place, other) and not self._is_behind_cut(other):
                    found.append(f"{place} after {other}")
                    break
            before[place] = (number, stamp_ms)
        return found

    def _is_behind_cut(self, place: Place) -> bool:
        topic = place.topic.partition("#")[0]
        return self.topics.cut_below(topic, place.partition, place.offset + 1)


def _may_be_compared(one: Place, other: Place) -> bool:
    """Whether two records are not of topics of one name, of which one was read before the other."""
    return bare(one).topic != bare(other).topic or log_of(one) == log_of(other)
