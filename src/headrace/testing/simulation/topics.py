"""The topics of all tenants: what was sent to them, and what Kafka did to them.

A topic that was deleted and made again has the same offsets with other records, so a place names
the how-manieth topic of its name it is in, as ``acme.visits#2``, and each record says so itself:
what a handler is given is told by its content and not by where somebody believes to be. A log that
was cut has the same offsets with other records too: what is sent behind the first cut of a topic is
in ``acme.visits#2~1``, and so an offset can have several *versions*.

Everything here happens at once; who learns of it when is the drivers' matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from headrace.model.buckets import whole_lane
from headrace.model.everyone import EVERYONE
from headrace.model.lane_names import named as lane_named
from headrace.model.lane_names import number_of, taken_apart
from headrace.model.places import number_at
from headrace.model.records import Move
from headrace.model.streams import LaneId, StreamId
from headrace.model.topic_lists import ids_in
from headrace.testing.clock import FakeClock
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Ledger, Place
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.simulation.byte_rates import header_of
from headrace.testing.simulation.keys import key_of, those_in
from headrace.testing.simulation.lineage import TrueLineage
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.troubles import GOOD, Trouble, drawn, trouble_of

#: what most use cases read, and those of a topic for all
TOPIC = "{tenant}.visits"
FOR_ALL = f"{EVERYONE}.visits"
_PARTITIONS = 3


class Read(NamedTuple):
    """What use cases can read."""

    #: as a use case says it
    said: str | Sequence[str] | re.Pattern[str]
    #: the topics of a tenant that it reads, once they are there
    topics: tuple[str, ...] = ()

    def of(self, tenant: str) -> list[str]:
        """Those of one tenant."""
        return [topic.format(tenant=tenant) for topic in self.topics]


ONE, ALL = Read(TOPIC, (TOPIC,)), Read(FOR_ALL, (FOR_ALL,))
LIST = Read(["{tenant}.clicks", TOPIC], ("{tenant}.clicks", TOPIC))
#: made while it is read, not before
LATER = "{tenant}.taps"
PATTERN = Read(
    re.compile(r"(?P<tenant>t[0-9]+)[.](clicks|taps|visits)"), ("{tenant}.clicks", LATER, TOPIC)
)


def topic_of(lane: LaneId) -> str:
    """The topic that a lane is of."""
    found = taken_apart(whole_lane(lane.name))
    assert found is not None, "lanes have names as Kafka's"
    return found.topic


def lane_of(stream: StreamId, topic: str, partition: int) -> LaneId:
    """The lane of a stream that is a partition of a topic."""
    return LaneId(*stream, lane_named(topic, partition))


def tenant_of(topic: str) -> str:
    """Whose topic it is."""
    return topic.partition(".")[0]


def named(topic: str, log: int | str) -> str:
    """The how-manieth topic of its name, as places say it."""
    return f"{topic}#{log}"


def log_of(place: Place) -> int:
    """The how-manieth topic of its name a place is in."""
    return int(place.topic.partition("#")[2].partition("~")[0])


def bare(place: Place) -> Place:
    """The same partition and offset in whichever topic of its name."""
    return place._replace(topic=place.topic.partition("#")[0])


@dataclass(eq=False, slots=True)
class WorldTopics:
    """All topics, and the book of what was sent."""

    rng: Random
    odds: Odds
    clock: FakeClock
    isolation: Isolation
    log: MemoryLog = field(default_factory=MemoryLog)
    ledger: Ledger = field(default_factory=Ledger)
    #: how many each topic has, or had, that is there
    partitions: dict[str, int] = field(default_factory=dict)
    #: which lanes became others, and which their logs do not list any more
    lineage: TrueLineage = field(default_factory=TrueLineage)
    #: how often a topic of this name was made, and when the last time
    made: dict[str, int] = field(default_factory=dict)
    made_at_s: dict[str, float] = field(default_factory=dict)
    #: when a topic or partition was made the last time
    changed_s: float = 0.0
    #: what each record does
    troubles: dict[Place, Trouble] = field(default_factory=dict)
    #: what was at an offset of the how-manieth topic, one after the other; None is a gap
    versions: dict[Place, list[Place | None]] = field(default_factory=dict)
    #: in which order records were written, and under which timestamp
    written: dict[Place, tuple[int, int]] = field(default_factory=dict)
    #: where logs were cut, by lane; of the topic that is there
    cuts: dict[str, list[int]] = field(default_factory=dict)
    #: lanes that are there and take records, and that the log does not tell of yet
    unlisted: set[str] = field(default_factory=set)
    #: partitions whose leader is cut off: the end that it tells, and until when it does
    stale: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: partitions whose leader was cut off at some time, and the first offset that it hid
    hidden: dict[str, int] = field(default_factory=dict)
    #: when no broker answered: from and to a monotonic second
    silent: list[tuple[float, float]] = field(default_factory=list)
    #: records that a cut took away
    taken: set[Place] = field(default_factory=set)
    #: chance of each lane that only reading tells where it ends
    hides: float = 0.0
    _cut: dict[str, int] = field(default_factory=dict)
    #: id of the topic that had a name before the one that is there
    ids_before: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    #: which topic had an id, and the how-manieth of its name
    _logs: dict[str, tuple[str, int]] = field(default_factory=dict)

    def announce(self, topic: str) -> None:
        """A topic that somebody makes later."""
        self.made[topic] = 0

    def make(self, topic: str) -> None:
        """A topic, or one more of its name."""
        number = self.made[topic] = self.made.get(topic, 0) + 1
        self.made_at_s[topic] = self.changed_s = self.clock.monotonic_s()
        self.partitions[topic] = self.rng.randint(1, 2)
        self.log.create_topic(topic, self.partitions[topic])
        self._hide(topic, range(self.partitions[topic]))
        if topic in self._ids:
            self.ids_before[topic] = self._ids[topic]
        self._ids[topic] = self.log.id_of(topic)
        self._logs[self._ids[topic]] = topic, number
        self.lineage.begins(topic)
        self._begins(topic, self.label(topic))

    def _hide(self, topic: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self.hides and self.rng.random() < self.hides:
                self.log.hide_end(topic, number)

    def delete(self, topic: str) -> None:
        """Delete one with all of its records."""
        partitions = self.partitions.pop(topic)
        self.log.delete_topic(topic)
        for partition in range(partitions):
            self.cuts.pop(lane_named(topic, partition), None)
            self.unlisted.discard(lane_named(topic, partition))
            self.stale.pop(lane_named(topic, partition), None)

    def switch(self, *, down: bool) -> None:
        """From now on no broker answers, or they do again."""
        now_s = self.clock.monotonic_s()
        if self.log.down:
            begun_s, _ = self.silent.pop()
            self.silent.append((begun_s, now_s))
        if down:
            self.silent.append((now_s, math.inf))
        self.log.down = down

    def answering_s(self, from_s: float, to_s: float) -> float:
        """Seconds between two others in which brokers answered."""
        silent = (min(end_s, to_s) - max(begin_s, from_s) for begin_s, end_s in self.silent)
        return to_s - from_s - sum(max(0.0, seconds) for seconds in silent)

    def log_of_id(self, topic_id: str) -> int:
        """The how-manieth of its name has the id of a topic."""
        return self._logs[topic_id][1]

    def logs_of(self, topic_id: str) -> dict[str, int]:
        """Topics that have an id, or are in that of a list, each with the how-manieth it is."""
        return dict(self._logs[one] for one in ids_in(topic_id).values())

    def is_there(self, topic: str, log: int) -> bool:
        """Whether this one of its name is the one that is there."""
        return topic in self.partitions and self.made[topic] == log

    def widen(self, topic: str) -> bool:
        """Add a partition, if it has few."""
        if self.partitions[topic] >= _PARTITIONS:
            return False
        number = self.log.widen(topic)
        self._hide(topic, [number])
        self.partitions[topic] += 1
        self.changed_s = self.clock.monotonic_s()
        return True

    def has(self, topic: str, number: int) -> bool:
        """Whether a lane is there."""
        known = number < self.partitions.get(topic, 0)
        return known and lane_named(topic, number) not in self.lineage.dropped

    def there(self, topic: str) -> list[int]:
        """The lanes of a topic that are there."""
        return [number for number in range(self.partitions[topic]) if self.has(topic, number)]

    def listed(self, topic: str) -> list[int]:
        """Those that the log tells of by now."""
        return [n for n in self.there(topic) if lane_named(topic, n) not in self.unlisted]

    def hide(self, topic: str, number: int) -> None:
        """Let the log not tell of a lane yet."""
        self.log.set_listed(topic, number, False)
        self.unlisted.add(lane_named(topic, number))

    def show(self, topic: str, number: int) -> None:
        """Let the log tell of a lane from now on."""
        self.log.set_listed(topic, number, True)
        self.unlisted.remove(lane_named(topic, number))
        self.changed_s = self.clock.monotonic_s()

    def is_followed_unseen(self, topic: str, number: int) -> bool:
        """Whether a lane that is not listed yet follows it."""
        lane, parents = lane_named(topic, number), self.lineage.parents
        return any(lane in parents.get(name, ()) for name in self.unlisted)

    def taking(self, topic: str) -> list[int]:
        """Those that records are sent to."""
        return [number for number in self.there(topic) if not self.log.is_sealed(topic, number)]

    def is_oldest(self, topic: str, number: int) -> bool:
        """Whether nothing is there that a lane follows."""
        follows = self.lineage.parents.get(lane_named(topic, number), ())
        return all(parent in self.lineage.dropped for parent in follows)

    def end_of(self, topic: str, number: int) -> int:
        """Where a lane ends, or ended."""
        dropped = self.lineage.dropped.get(lane_named(topic, number))
        return self.log.edges(topic, number).stop if dropped is None else dropped

    def split(self, topic: str, number: int) -> tuple[int, ...]:
        """Let two lanes follow one."""
        return self._made_of(topic, (number,), self.log.split(topic, number))

    def merge(self, topic: str, one: int, other: int) -> tuple[int, ...]:
        """Let one lane follow two."""
        return self._made_of(topic, (one, other), (self.log.merge(topic, one, other),))

    def _made_of(
        self, topic: str, parents: tuple[int, ...], made: tuple[int, ...]
    ) -> tuple[int, ...]:
        self.partitions[topic] += len(made)
        self.changed_s = self.clock.monotonic_s()
        for number in made:
            follows = [lane_named(topic, parent) for parent in parents]
            self.lineage.follow(topic, self.made[topic], lane_named(topic, number), follows)
        return made

    def drop(self, topic: str, number: int) -> None:
        """Let a log list a lane no more."""
        end = self.log.edges(topic, number).stop
        self.log.drop_lane(topic, number)
        self.lineage.drop(lane_named(topic, number), end)
        self.stale.pop(lane_named(topic, number), None)
        self.changed_s = self.clock.monotonic_s()

    def expire(self, topic: str, partition: int) -> int:
        """Let retention take some of its oldest records; return the new start."""
        edges = self.log.edges(topic, partition)
        start = self.rng.randint(edges.start, edges.stop)
        self.log.expire(topic, partition, start)
        return start

    def cut(self, topic: str, partition: int, before: int | None = None) -> int:
        """Let a log lose some of its youngest records; return its new end.

        Args:
            topic: its name.
            partition: its number.
            before: an offset that is lost, and no more than have to be; None: any.
        """
        edges = self.log.edges(topic, partition)
        end = self.rng.randint(edges.start, edges.stop) if before is None else before
        if end < edges.stop:
            self.log.truncate(topic, partition, end)
            made = self.made[topic]
            latest = (self.at(topic, made, partition, at)[-1] for at in range(end, edges.stop))
            self.taken.update(place for place in latest if place is not None)
            self.cuts.setdefault(lane_named(topic, partition), []).append(end)
            self._cut[topic] = self._cut.get(topic, 0) + 1
            self._begins(topic, self.label(topic))
        return end

    def cut_off(self, topic: str, partition: int, for_s: float) -> int:
        """Let a leader be cut off, and tell an end that it may have had; return that end."""
        edges, at = self.log.edges(topic, partition), lane_named(topic, partition)
        end = self.rng.randint(edges.start, edges.stop)
        self.stale[at] = (end, self.clock.monotonic_s() + for_s)
        self.hidden[at] = min(end, self.hidden.get(at, end))
        return end

    def was_hidden(self, place: Place) -> bool:
        """Whether a record may have been there and nobody could know."""
        at = lane_named(place.topic.partition("#")[0], place.partition)
        return place.offset >= self.hidden.get(at, place.offset + 1)

    def cut_below(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the log was ever cut before an offset."""
        return any(end < offset for end in self.cuts.get(lane_named(topic, partition), ()))

    def was_cut(self, topic: str) -> bool:
        """Whether any topic of that name ever was."""
        return topic in self._cut

    def label(self, topic: str) -> str:
        """What its next records say which log they are of."""
        cut = self._cut.get(topic, 0)
        return f"{self.made[topic]}~{cut}" if cut else f"{self.made[topic]}"

    def gap(self, topic: str, partition: int, offsets: int) -> None:
        """Offsets without records."""
        stop = self.log.edges(topic, partition).stop
        self.log.append_gap(topic, partition, offsets)
        for offset in range(stop, stop + offsets):
            self._there(topic, partition, offset, None)

    def send(self, topic: str, partition: int, count: int) -> None:
        """Some records into a partition, such that make trouble among them."""
        for _ in range(count):
            does, label = drawn(self.rng, self.odds, self.clock.monotonic_s()), self.label(topic)
            value, stamp_ms = f"{does}#{label}".encode(), int(self.clock.now_s() * 1000)
            trouble = trouble_of(value)
            stop = self.log.edges(topic, partition).stop
            key, headers = key_of(stop), header_of(stop)
            row = Row(value, key, headers, stamp_ms, trouble.readable)
            offset = self.log.append(topic, partition, [row])
            place = Place(named(topic, label), partition, offset)
            self.ledger.acknowledged(place)
            self.troubles[place] = trouble
            self.written[place] = (len(self.written), stamp_ms)
            self._there(topic, partition, offset, place)

    def at(self, topic: str, log: int, partition: int, offset: int) -> list[Place | None]:
        """Everything that ever was at an offset of the how-manieth topic of a name."""
        return self.versions.get(Place(named(topic, log), partition, offset), [None])

    def records_in(self, move: Move) -> int:
        """How many records a move passes, of the topic that is there."""
        return len(self._passed(move))

    def good_in(self, move: Move) -> bool:
        """Whether one of them makes no trouble."""
        return any(self.troubles[place].kind == GOOD for place in self._passed(move))

    def _passed(self, move: Move) -> list[Place]:
        topic, number = topic_of(move.lane), number_of(move.lane.name)
        between = range(number_at(move.from_offset), number_at(move.to_offset))
        passed = those_in(move.lane.name, between)
        latest = (self.at(topic, self.made[topic], number, offset)[-1] for offset in passed)
        return [place for place in latest if place is not None]

    def poison(self, place: Place) -> bool:
        """Whether a record can never be handled."""
        return self.troubles[place].poison

    def _there(self, topic: str, partition: int, offset: int, place: Place | None) -> None:
        of = Place(named(topic, self.made[topic]), partition, offset)
        self.versions.setdefault(of, []).append(place)

    def _begins(self, topic: str, label: str) -> None:
        self.ledger.topic(tenant_of(topic), named(topic, label))
        self.isolation.topic(tenant_of(topic), named(topic, label))
