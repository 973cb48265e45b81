"""The topics of all tenants: what was sent to them, and what Kafka did to them.

A topic that was deleted and made again has the same offsets with other records, so a place names
the how-manieth topic of its name it is in, as ``acme.visits#2``, and each record says so itself:
what a handler is given is told by its content and not by where somebody believes to be.

Everything here happens at once; who learns of it when is the drivers' matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from headrace.ports import TopicPartition
from headrace.testing.clock import FakeClock
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Ledger, Place
from headrace.testing.log_twin import LogTwin, Row, _Lane
from headrace.testing.simulation.odds import Odds

#: what can never be handled
POISON = (b"bad", b"raises")
_PARTITIONS = 3


def tenant_of(topic: str) -> str:
    """Whose topic it is."""
    return topic.partition(".")[0]


def named(topic: str, log: int) -> str:
    """The how-manieth topic of its name, as places say it."""
    return f"{topic}#{log}"


def log_of(place: Place) -> int:
    """The how-manieth topic of its name a place is in."""
    return int(place.topic.partition("#")[2])


def is_poison(value: bytes | None) -> bool:
    """Whether a record can never be handled."""
    return (value or b"").startswith(POISON)


class Log(LogTwin):
    """A log that can be widened, and looked at by those who are not asked for an answer."""

    def widen(self, topic: str) -> int:
        """Add a partition; return its number."""
        number = sum(at.topic == topic for at in self._lanes)
        self._lanes[TopicPartition(topic, number)] = _Lane()
        return number

    def edges(self, topic: str, partition: int) -> range:
        """From its first offset to its end, whoever may ask now."""
        lane = self._lanes[TopicPartition(topic, partition)]
        return range(lane.start, lane.stable_end)

    def id_of(self, topic: str) -> str:
        """The id of a topic that is there."""
        return self._ids[topic]


@dataclass(eq=False, slots=True)
class Topics:
    """All topics, and the book of what was sent."""

    rng: Random
    odds: Odds
    clock: FakeClock
    isolation: Isolation
    log: Log = field(default_factory=Log)
    ledger: Ledger = field(default_factory=Ledger)
    #: how many each topic has that is there
    partitions: dict[str, int] = field(default_factory=dict)
    #: how often a topic of this name was made, and when the last time
    made: dict[str, int] = field(default_factory=dict)
    made_at_s: dict[str, float] = field(default_factory=dict)
    #: when a topic or partition was made the last time
    changed_s: float = 0.0
    #: records that can never be handled
    poisoned: set[Place] = field(default_factory=set)
    _logs: dict[str, int] = field(default_factory=dict)

    def make(self, topic: str) -> None:
        """A topic, or one more of its name."""
        number = self.made[topic] = self.made.get(topic, 0) + 1
        self.made_at_s[topic] = self.changed_s = self.clock.monotonic_s()
        self.partitions[topic] = self.rng.randint(1, 2)
        self.log.create_topic(topic, self.partitions[topic])
        self._logs[self.log.id_of(topic)] = number
        self.ledger.topic(tenant_of(topic), named(topic, number))
        self.isolation.topic(tenant_of(topic), named(topic, number))

    def delete(self, topic: str) -> None:
        """Delete one with all of its records."""
        del self.partitions[topic]
        self.log.delete_topic(topic)

    def log_of_id(self, topic_id: str) -> int:
        """The how-manieth of its name has this id."""
        return self._logs[topic_id]

    def is_there(self, topic: str, log: int) -> bool:
        """Whether this one of its name is the one that is there."""
        return topic in self.partitions and self.made[topic] == log

    def widen(self, topic: str) -> bool:
        """Add a partition, if it has few."""
        if self.partitions[topic] >= _PARTITIONS:
            return False
        self.log.widen(topic)
        self.partitions[topic] += 1
        self.changed_s = self.clock.monotonic_s()
        return True

    def expire(self, topic: str, partition: int) -> int:
        """Let retention take some of its oldest records; return the new start."""
        edges = self.log.edges(topic, partition)
        start = self.rng.randint(edges.start, edges.stop)
        self.log.expire(topic, partition, start)
        return start

    def send(self, topic: str, partition: int, count: int) -> None:
        """Some records into a partition, a bad one among them if there are such."""
        until_s = self.clock.monotonic_s() + self.rng.uniform(0, 20)
        log = self.made[topic]
        for _ in range(count):
            roll, value = self.rng.random(), b"good"
            if roll < self.odds.poison:
                value = self.rng.choice(POISON)
            elif roll < self.odds.poison + self.odds.stumbles:
                value = f"down:{until_s}".encode()
            row = Row(value + f"#{log}".encode(), timestamp_ms=int(self.clock.now_s() * 1000))
            offset = self.log.append(topic, partition, [row])
            place = Place(named(topic, log), partition, offset)
            self.ledger.acknowledged(place)
            if is_poison(value):
                self.poisoned.add(place)
