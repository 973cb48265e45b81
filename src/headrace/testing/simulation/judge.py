"""The books of a run, lane by lane and generation by generation.

What each guarantee allows is said here and nowhere else. Within a generation (``generations.py``)
each record that its lane passed has its effect, and none has it twice. Exactly-once allows nothing
else. At-most-once may lose, and at-least-once may do twice, only records of slices that were in
flight when something happened to whoever ran them. Where effects and moves are one transaction, or
a move comes first, they are counted against each other over all generations as well. Records that
can never be handled were set aside or skipped. Order is judged by when an effect was first made in
its generation; by intent there is no order, as effects replace each other.

Not judged, as it is not promised: how effects of one generation stand among those of another; what
a topic that was deleted still had behind the position; and, until somebody looks at topics again
(``world.py`` holds drivers to half a minute), which of two topics of a name was read. By intent,
what stands under an identity is compared only as long as its offsets mean the same topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.model.streams import Guarantee, LaneId
from headrace.testing.ledger import Place
from headrace.testing.simulation.decisions import topic_of
from headrace.testing.simulation.generations import Generation
from headrace.testing.simulation.settling import standing_still
from headrace.testing.simulation.sinks import Done, done_in
from headrace.testing.simulation.topics import log_of, named, tenant_of
from headrace.testing.simulation.world import World
from headrace.use_cases import UseCase

_NAMED = 3


def judge(world: World) -> list[str]:
    """Everything that is wrong at the end."""
    checkers = (world.generations.chain, world.flight, world.isolation)
    wrong = [str(report) for report in (each.report() for each in checkers) if not report.clean]
    wrong += _some("moves that cannot be", world.generations.found)
    wrong += _some("decisions that cannot be", world.decisions.found)
    wrong += _kept_lanes(world)
    wrong += _positions(world)
    for name, use_case in sorted(world.deployed.use_cases.items()):
        books = _Books(world, use_case)
        wrong += [f"{name}: {each}" for each in books.wrong()]
        wrong += [f"{name}: {each}" for each in standing_still(world, name)]
    return wrong


@dataclass(slots=True)
class _Books:
    """One use case's effects, held against what its lanes passed."""

    world: World
    use_case: UseCase
    #: how often each record has its effect, by lane and generation
    counts: dict[tuple[LaneId, int], Counter[Place]] = field(default_factory=dict)
    foreign: list[Place] = field(default_factory=list)
    late: list[Place] = field(default_factory=list)
    lost: list[Place] = field(default_factory=list)
    twice: list[Place] = field(default_factory=list)
    #: effects without a move, or moves without an effect
    unmatched: list[Place] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """Everything that is wrong with it."""
        self._read(_done(self.world, self.use_case))
        for lane in self.world.generations.lanes(lambda each: each.use_case == self.use_case.name):
            for each in self.world.generations.of(lane):
                self._generation(lane, each)
            if self.use_case.claims or self.use_case.transacts:
                self._moves(lane)
        kinds = ("lost", "twice", "foreign", "late", "unmatched")
        wrong = [each for kind in kinds for each in _some(kind, getattr(self, kind))]
        return wrong + _some("replaced by another effect", list(self._replaced()))

    def _read(self, done: list[Done]) -> None:
        newest: dict[tuple[LaneId, int], tuple[int, int]] = {}
        for each in done:
            tenant, place = each.found
            if tenant_of(place.topic) != tenant or place not in self.world.topics.ledger.sent:
                self.foreign.append(place)
                continue
            of = LaneId(self.use_case.name, tenant, place.partition), each.generation
            counts, at = self.counts.setdefault(of, Counter()), (log_of(place), place.offset)
            counts[place] += 1
            if counts[place] == 1 and at < newest.get(of, at) and self._in_order(place):
                self.late.append(place)
            newest[of] = max(at, newest.get(of, at))

    def _in_order(self, place: Place) -> bool:
        """Whether it has to be; a task that sleeps behind its claim makes its effect late."""
        if self.use_case.intends:
            return False
        return not (self.use_case.claims and self._touched(place))

    def _generation(self, lane: LaneId, generation: Generation) -> None:
        """None lost of what it passed, and none twice."""
        of = {generation.number, *generation.follows}
        counts = [self.counts.get((lane, number), Counter()) for number in of]
        topic = named(topic_of(lane.stream), generation.log)
        for offset in generation.done:
            place = Place(topic, lane.partition, offset)
            if not self._counts(place):
                continue
            self.world.counts["records checked"] += 1
            if not any(place in each for each in counts):
                self._may("lost as allowed", place, allowed=self.use_case.claims, wrong=self.lost)
        may = self.use_case.guarantee is Guarantee.AT_LEAST_ONCE
        # A slice that was still to end when its lane was sent back to it may end in both.
        followers = [
            each
            for each in self.world.generations.of(lane)
            if generation.number in each.follows and not self.use_case.intends
        ]
        for place, count in self.counts.get((lane, generation.number), Counter()).items():
            if count > 1 + len(followers):
                self._may("twice as allowed", place, allowed=may, wrong=self.twice)

    def _moves(self, lane: LaneId) -> None:
        """As many effects as moves; not for topics made again, whose moves tell of no record."""
        topic = topic_of(lane.stream)
        if self.world.topics.made[topic] > 1:
            return
        moved = Counter(offset for each in self.world.generations.moves(lane) for offset in each)
        done = Counter[Place]()
        for each in self.world.generations.of(lane):
            done += self.counts.get((lane, each.number), Counter())
        for offset in {*moved, *(place.offset for place in done)}:
            place = Place(named(topic, 1), lane.partition, offset)
            lacks = moved[offset] - done[place]
            may_lack = self.use_case.claims and self._touched(place)
            if self._counts(place) and (lacks < 0 or (lacks and not may_lack)):
                self.unmatched.append(place)

    def _may(self, what: str, place: Place, *, allowed: bool, wrong: list[Place]) -> None:
        if allowed and self._touched(place):
            self.world.counts[what] += 1
        else:
            wrong.append(place)

    def _counts(self, place: Place) -> bool:
        """Whether it is a record that can be handled."""
        topics = self.world.topics
        return place in topics.ledger.sent and place not in topics.poisoned

    def _touched(self, place: Place) -> bool:
        bare = place._replace(topic=place.topic.partition("#")[0])
        return (self.use_case.name, bare) in self.world.touched

    def _replaced(self) -> Iterator[Place]:
        """By intent, an effect that was written again differs only if its topic does."""
        book = self.world.deployed.books.get(self.use_case.name)
        for before, after in book.changed if book is not None and self.use_case.intends else ():
            places = [each.place for each in (*before, *after)]
            topics = {each.topic for each in places}
            made_again = any(self.world.topics.made[each.partition("#")[0]] > 1 for each in topics)
            both = bool(before) and bool(after)
            if not made_again or (both and len(topics) == 1):
                yield places[0]


def _done(world: World, use_case: UseCase) -> list[Done]:
    book = world.deployed.books.get(use_case.name)
    return book.done if book is not None else done_in(world.make.rows(world.store))


def _kept_lanes(world: World) -> list[str]:
    """Lanes that nothing can be planned for, as a wave has them that is over."""
    return [
        f"{name} partition {partition} is kept by wave {lane.wave}, which is over"
        for life in world.lives
        for name, held in life.driver.board.streams.items()
        for partition, lane in held.lanes.items()
        if lane.wave is not None and lane.wave not in life.driver.board.flights
    ]


def _positions(world: World) -> list[str]:
    """Positions that are not where moves and decisions led, or in another topic."""
    found = []
    at = {each.lane: each.next_offset for each in world.store.load_positions()}
    served = {each.id for each in world.store.streams() if each.state == "active"}
    for lane in world.generations.lanes(lambda _: True):
        now, topic = world.generations.now(lane), topic_of(lane.stream)
        if at.get(lane) != (None if now is None else now.at):
            found.append(f"{lane} is at {at.get(lane)}, led to {None if now is None else now.at}")
        there = lane.partition < world.topics.partitions[topic]
        if (
            now is not None
            and there
            and lane.stream in served
            and now.log != world.topics.made[topic]
        ):
            found.append(f"{lane} is in topic {now.log} of {world.topics.made[topic]}")
    return found


def _some(kind: str, found: list[Place] | list[str]) -> list[str]:
    shown = ", ".join(str(each) for each in found[:_NAMED])
    return [f"{len(found)} {kind}: {shown}"] if found else []
