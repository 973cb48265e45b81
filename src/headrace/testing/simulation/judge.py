"""The books of a run, lane by lane and generation by generation.

What each guarantee allows is said here and nowhere else. Within a generation (``generations.py``)
each record that its lane passed has its effect, and none has it twice. Exactly-once allows nothing
else. At-most-once may lose, and at-least-once may do twice, only records of slices that were in
flight when something happened to whoever ran them. Where effects and moves are one transaction, or
a move comes first, they are counted against each other over all generations as well. Records that
can never be handled were set aside or skipped, and so may others be that make trouble; none that is
good. Order is judged by when an effect was first made in its generation; by intent there is no
order, as effects replace each other. A rerun is judged as a stream of its own. What at-most-once
lost is told by its offsets.

Not judged, as it is not promised: how effects of one generation stand among those of another; what
a topic that was deleted still had behind the position; and, until somebody looks at topics again
(``world.py`` holds drivers to half a minute in which brokers answer), which of two topics of a name
was read. By intent, what stands under an identity is compared only as long as its offsets mean the
same topic. Of a log that was cut and grew again any record may be the one that an offset stands
for, and by intent what was recorded behind the cut is cut anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from headrace.cycle.claims import CLAIMED
from headrace.model.buckets import division_of, whole_lane
from headrace.model.lane_names import number_of
from headrace.model.places import number_at, place_at
from headrace.model.streams import RERUN_MARK, Guarantee, LaneId, State, original
from headrace.testing.ledger import Place
from headrace.testing.simulation.generations import Generation
from headrace.testing.simulation.keys import key_of, those_in
from headrace.testing.simulation.reruns import unfinished
from headrace.testing.simulation.settling import standing_still
from headrace.testing.simulation.sinks import Done, done_in, effect_lane, table_of
from headrace.testing.simulation.stream_order import StreamOrder
from headrace.testing.simulation.topics import (
    bare,
    log_of,
    named,
    tenant_of,
    topic_of,
)
from headrace.testing.simulation.troubles import GOOD, trouble_of
from headrace.testing.simulation.world import World
from headrace.use_cases import UseCase

_NAMED = 3
#: where one of these happened, it may be that nobody knows what at-most-once lost
_UNTOLD = (
    "drivers killed",
    "drivers paused",
    "drivers replaced",
    "engines ended without a store",
    "seeks",
    "added again",
    "commits late, and nobody held the lane",
)


def judge(world: World) -> list[str]:
    """Everything that is wrong at the end."""
    checkers = (world.generations.chain, world.flight, world.isolation)
    wrong = [
        str(report) for report in (checker.report() for checker in checkers) if not report.clean
    ]
    wrong += _some("moves that cannot be", world.generations.found)
    wrong += _some("decisions that cannot be", world.decisions.found)
    wrong += _some("passed ranges told otherwise", world.decisions.passed_ranges.found)
    wrong += _some("rates that cannot be", world.rates.found)
    wrong += _kept_lanes(world)
    wrong += _positions(world)
    for name in readers(world):
        books = _Books(world, world.deployed.use_case(name))
        wrong += [f"{name}: {text}" for text in books.wrong()]
        if RERUN_MARK not in name:
            wrong += [f"{name}: {text}" for text in standing_still(world, name)]
    return wrong + unfinished(world)


def readers(world: World) -> list[str]:
    """All use cases and reruns."""
    return [deployment.use_case for deployment in world.store.registry.deployments()]


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
    #: lost, be it as allowed, and nobody was told
    untold: list[Place] = field(default_factory=list)
    #: out of the order of their stream
    unordered: list[str] = field(default_factory=list)
    #: set aside, and good; or handled, and cannot be
    misjudged: list[Place] = field(default_factory=list)
    #: set aside: records, and offsets that a person passed over
    aside: set[Place] = field(default_factory=set)
    #: effects without a move, or moves without an effect
    unmatched: list[Place] = field(default_factory=list)
    #: the last effect of each key, and the lane that each record was read in, by ways of streams
    _keys: dict[tuple[Hashable, ...], int] = field(default_factory=dict)
    _lanes: dict[tuple[Hashable, ...], LaneId] = field(default_factory=dict)

    def wrong(self) -> list[str]:
        """Everything that is wrong with it."""
        self._read_letters()
        self._read(_done(self.world, self.use_case))
        for lane in self.world.generations.lanes(lambda lane: lane.use_case == self.use_case.name):
            for generation in self.world.generations.of(lane):
                self._generation(lane, generation)
            if self.use_case.claims or self.use_case.transacts:
                self._moves(lane)
        kinds = (
            "lost",
            "twice",
            "untold",
            "foreign",
            "late",
            "unordered",
            "misjudged",
            "unmatched",
        )
        wrong = [name for kind in kinds for name in _some(kind, getattr(self, kind))]
        wrong += _some("under the ids of two waves", list(self._under_two_ids()))
        return wrong + _some("replaced by another effect", list(self._replaced()))

    def _read_letters(self) -> None:
        for letter in self.world.letters.letters:
            if letter.slice.lane.use_case != self.use_case.name or letter.error.offset is None:
                continue
            trouble = trouble_of(letter.error.raw_value)
            topic = named(letter.slice.lane_topic, trouble.log)
            place = Place(topic, number_of(letter.slice.lane.name), number_at(letter.error.offset))
            self.aside.add(place)
            if trouble.kind == GOOD:
                self.misjudged.append(place)

    def _read(self, done: list[Done]) -> None:
        newest: dict[tuple[LaneId, int, str], int] = {}
        begun: set[tuple[int, int, LaneId]] = set()
        for effect in done:
            tenant, place = effect.found
            if tenant_of(place.topic) != tenant or place not in self.world.topics.ledger.sent:
                self.foreign.append(place)
                continue
            if self.world.topics.poison(place):
                self.misjudged.append(place)
            of = effect_lane(effect), effect.generation
            counts, way = self.counts.setdefault(of, Counter()), (*of, place.topic)
            counts[place] += 1
            latest = newest[way] = max(place.offset, newest.get(way, place.offset))
            latest = max(latest, self._latest_of_key(of, place))
            if counts[place] == 1 and self._in_order(place):
                late = self._is_after_what_follows(of, place, begun)
                if late or place.offset < latest:
                    self.late.append(place)
        mixed = original(self.use_case.name) in self.world.deployed.mixed
        if self.use_case.order.merges_lanes and not mixed:
            order = StreamOrder(self.world.topics, self.world.generations)
            self.unordered = order.late(
                effect for effect in done if self._in_order(effect.found.place)
            )

    def _latest_of_key(self, of: tuple[LaneId, int], place: Place) -> int:
        """The last of its key whose effect was made, in whichever division; none is of two."""
        lane, generation = of
        ways = self.world.generations.of(lane)
        if generation >= len(ways):
            return place.offset
        way = (lane.stream, ways[generation].way, place.topic, place.partition)
        if self._lanes.setdefault((*way, place.offset), lane) != lane:
            # A task that slept beyond its driver's life may have been first.
            allowed = self._may_be_twice()
            self._may("twice as allowed", place, allowed=allowed, wrong=self.twice)
            return place.offset
        if division_of(lane.name).by_place:
            return place.offset  # nothing is promised of a key
        key = (*way, key_of(place.offset))
        latest = self._keys[key] = max(place.offset, self._keys.get(key, place.offset))
        return latest

    def _is_after_what_follows(
        self, of: tuple[LaneId, int], place: Place, begun: set[tuple[int, int, LaneId]]
    ) -> bool:
        """Whether something that follows its lane had an effect before, in the same way."""
        lane, generation = of
        ways = self.world.generations.of(lane)
        if generation >= len(ways):
            return False
        way, log = ways[generation].way, log_of(place)
        whole = lane._replace(name=whole_lane(lane.name))
        begun.add((way, log, whole))
        lineage, topic = self.world.topics.lineage, topic_of(lane)
        return any(
            (way, log, lane._replace(name=name)) in begun
            for name in lineage.descendants(topic, log, whole.name)
        )

    def _in_order(self, place: Place) -> bool:
        """Whether it has to be; a task that sleeps behind its claim makes its effect late."""
        if self.use_case.intends or self._intended_once():
            return False
        return not (self.use_case.claims and self._touched(place))

    def _intended_once(self) -> bool:
        book = self.world.deployed.books.get(original(self.use_case.name))
        return book is not None and book.exactly_once == "intent"

    def _generation(self, lane: LaneId, generation: Generation) -> None:
        """None lost of what it passed, and none twice."""
        counts = self.counts.get((lane, generation.number), Counter())
        topics, topic = self.world.topics, topic_of(lane)
        for offset in those_in(lane.name, generation.done):
            versions = topics.at(topic, generation.log, number_of(lane.name), offset)
            places = [place for place in versions if place is not None]
            if len(places) < len(versions):
                continue
            self.world.counts["records checked"] += 1
            done = any(place in counts for place in places)
            if not done and not any(self._aside(place) for place in places):
                allowed = self.use_case.claims
                self._may("lost as allowed", places[0], allowed=allowed, wrong=self.lost)
                self._see_that_it_is_told(lane, offset)
        may = self._may_be_twice()
        cut_anew = self.use_case.intends and topics.was_cut(topic)
        for place, count in counts.items():
            if count > 1 and not cut_anew:
                self._may("twice as allowed", place, allowed=may, wrong=self.twice)

    def _may_be_twice(self) -> bool:
        """Whether an effect may be made again where a fault was."""
        mixed = original(self.use_case.name) in self.world.deployed.mixed
        return self.use_case.guarantee is Guarantee.AT_LEAST_ONCE or (
            mixed and not self.use_case.claims and not self.use_case.transacts
        )

    def _see_that_it_is_told(self, lane: LaneId, offset: int) -> None:
        """What is lost as allowed; where drivers die or people move lanes, nobody may know."""
        kept = self.world.store.failures.every(lane.stream)
        told = (failure.slice for failure in kept if CLAIMED in failure.error.message)
        if any(
            piece.lane == lane and piece.from_offset <= place_at(offset) < piece.until_offset
            for piece in told
        ):
            self.world.counts["lost as told"] += 1
        elif not any(self.world.counts[name] for name in _UNTOLD):
            self.untold.append(Place(topic_of(lane), number_of(lane.name), offset))

    def _moves(self, lane: LaneId) -> None:
        """As many effects as moves; not for topics made again, whose moves tell of no record."""
        topic = topic_of(lane)
        if self.world.topics.made[topic] > 1:
            return
        moves = chain.from_iterable(self.world.generations.moves(lane))
        moved = Counter(those_in(lane.name, moves))
        done = Counter[Place]()
        for generation in self.world.generations.of(lane):
            done += self.counts.get((lane, generation.number), Counter())
        effects = Counter[Place]()
        for place, count in done.items():
            effects[_first_version(place)] += count
        for offset in {*moved, *(place.offset for place in effects)}:
            versions = self.world.topics.at(topic, 1, number_of(lane.name), offset)
            if any(version is None or self._aside(version) for version in versions):
                continue
            place = Place(named(topic, 1), number_of(lane.name), offset)
            lacks = moved[offset] - effects[place]
            may_lack = self.use_case.claims and self._touched(place)
            if lacks < 0 or (lacks and not may_lack):
                self.unmatched.append(place)

    def _may(self, what: str, place: Place, *, allowed: bool, wrong: list[Place]) -> None:
        if allowed and self._touched(place):
            self.world.counts[what] += 1
        else:
            wrong.append(place)

    def _aside(self, place: Place) -> bool:
        """Whether a record was set aside, or passed over by a person."""
        skipped = (self.use_case.name, bare(place)) in self.world.decisions.skipped
        return skipped or place in self.aside

    def _touched(self, place: Place) -> bool:
        return (self.use_case.name, bare(place)) in self.world.touched.places

    def _replaced(self) -> Iterator[Place]:
        """By intent, an effect written again differs only if its topic does, or by what was cut.

        Nobody can write again what a cut took, where the log grew before anybody looked.
        """
        taken = self.world.topics.taken
        book = self.world.deployed.books.get(original(self.use_case.name))
        for before, after in book.changed if book is not None and self.use_case.intends else ():
            places = [effect.place for effect in (*before, *after)]
            topics = {place.topic for place in places}
            made_again = any(self._is_another(topic.partition("#")[0]) for topic in topics)
            both = bool(before) and bool(after)
            stays, left = (
                [effect for effect in effects if effect.place not in taken]
                for effects in (before, after)
            )
            if not made_again or (both and len(topics) == 1 and stays != left):
                yield places[0]

    def _under_two_ids(self) -> Iterator[Place]:
        """By intent, a handler that writes under the id of its wave has each record there once.

        But for what a driver wrote that had slept in the call: nobody refuses it.
        """
        book = self.world.deployed.books.get(original(self.use_case.name))
        if book is None or not self.use_case.intends:
            return
        timely = (there for name, there in book.by_wave.items() if name not in book.overtaken)
        effects = chain.from_iterable(map(set, timely))
        counts = Counter(effect for effect in effects if effect.reader == self.use_case.name)
        for effect, count in counts.items():
            if count > 1 and not self.world.topics.was_cut(bare(effect.found.place).topic):
                yield effect.found.place

    def _is_another(self, topic: str) -> bool:
        """Whether offsets of a topic have meant different records."""
        return self.world.topics.made[topic] > 1 or self.world.topics.was_cut(topic)


def _first_version(place: Place) -> Place:
    return place._replace(topic=place.topic.partition("~")[0])


def _done(world: World, use_case: UseCase) -> list[Done]:
    name = original(use_case.name)
    book = world.deployed.books.get(name)
    done = book.done if book else done_in(world.make.rows(world.store, table_of(name)))
    return [effect for effect in done if effect.reader == use_case.name]


def _kept_lanes(world: World) -> list[str]:
    """Lanes that nothing can be planned for, as a wave has them that is over."""
    return [
        f"{name} {lane_name} is kept by wave {lane.wave}, which is over"
        for life in world.lives
        for name, held in life.driver.board.streams.items()
        for lane_name, lane in held.lanes.items()
        if lane.wave is not None and lane.wave not in life.driver.board.flights
    ]


def _positions(world: World) -> list[str]:
    """Positions that are not where moves and decisions led, or in another topic."""
    found = []
    at = {position.lane: position.next_offset for position in world.store.progress.load_positions()}
    begun = {
        deployment.use_case
        for deployment in world.store.registry.deployments()
        if deployment.until != {}
    }
    active = {
        stream.id for stream in world.store.registry.streams() if stream.state is State.ACTIVE
    }
    served = {stream for stream in active if stream.use_case in begun}
    for lane in world.generations.lanes(lambda _: True):
        now, topic = world.generations.now(lane), topic_of(lane)
        if at.get(lane) != (None if now is None else now.at):
            found.append(f"{lane} is at {at.get(lane)}, led to {None if now is None else now.at}")
        there = world.topics.has(topic, number_of(lane.name))
        if (
            now is not None
            and there
            and lane.stream in served
            and now.log != world.topics.made[topic]
        ):
            found.append(f"{lane} is in topic {now.log} of {world.topics.made[topic]}")
    return found


def _some(kind: str, found: list[Place] | list[str]) -> list[str]:
    shown = ", ".join(str(name) for name in found[:_NAMED])
    return [f"{len(found)} {kind}: {shown}"] if found else []
