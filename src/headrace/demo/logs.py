"""The log that the visits of the first act go through, as the demo writes to it and looks at it.

What is sent when, to which tenants, and what must come of it, is the same whichever log it is. A
log says how a visit gets there, which lane has it then, how many each has, and how far one was read
that is read to some place. This is Kafka; `streams.py` has Kinesis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.connectors.kafka import OFFSETS, KafkaLog, delivery_error, make_producer
from headrace.cycle.driver import Driver
from headrace.demo.poster import POSTED, Poster
from headrace.demo.scenario import KAFKA
from headrace.demo.visits import Lane, Visit, counted, lane_of, unsent
from headrace.errors import BrokerUnavailable
from headrace.model.places import FIRST, Place
from headrace.model.streams import State

#: told that a visit is acknowledged, or why it is not
Acknowledged = Callable[[str | None], None]


class VisitsLog(Protocol):
    """What the demo asks of a log."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def posted(self) -> Collection[str]:
        """Tenants whose visits come by the gateway; where there are none, there is no guest."""

    def unsent(self, visits: list[Visit]) -> list[Visit]:
        """The visits that it does not have yet, in the order of the file.

        Raises:
            BrokerUnavailable: it does not say so.
        """

    def send(self, visit: Visit, value: bytes, acknowledged: Acknowledged) -> None:
        """Send one, behind all others of its lead; called by one thread.

        Raises:
            HeadraceError: no more can be sent.
        """

    def flush(self) -> None:
        """Wait until everything sent is there.

        Raises:
            HeadraceError: it is not.
        """

    def poster(self, url: str | None, keys: Mapping[str, str]) -> Poster | None:
        """Who posts to the gateway there; None: nobody does.

        Args:
            url: of the gateway; None: there is none.
            keys: of tenants.
        """

    def is_read(self, driver: Driver) -> bool:
        """Whether all that was sent is committed by each stream that is active."""

    def placed(self, visits: Iterable[Visit]) -> list[Visit]:
        """Visits that were all sent, each with the lane that has it."""

    def counts(self) -> dict[Lane, int]:
        """How many visits each lane has, asked of the servers; a guest's are not counted."""

    def reached(self, lane: Lane, place: Place) -> int:
        """How many visits of a lane are before a place in it."""

    def told(self) -> list[tuple[str, str, str]]:
        """What else is to be seen in it: the name of a check, what must be, and what is."""

    def close(self) -> None:
        """Give up connections."""


def offset_of(lane: Lane, place: Place) -> int:
    """How many records of a partition are before a place in it."""
    del lane
    return OFFSETS.between(place, FIRST) or 0


def active(driver: Driver) -> list[tuple[str, dict[str, Place]]]:
    """The tenant of each active stream, and how far its lanes are committed."""
    return [
        (held.tenant.name, {name: lane.position for name, lane in held.lanes.items()})
        for held in driver.board.streams.values()
        if held.state is State.ACTIVE
    ]


def _problem(error: Any, message: object) -> str | None:
    problem = delivery_error(error, message)
    return None if problem is None else str(problem)


@dataclass(slots=True)
class KafkaVisits:
    """Topics of two partitions; a lead's visits are all in one."""

    config: Mapping[str, str]
    log: KafkaLog
    name: str = KAFKA
    posted: Collection[str] = POSTED
    _producer: Any = field(default=None, repr=False)

    def unsent(self, visits: list[Visit]) -> list[Visit]:
        """A lane has a prefix of what belongs there, so where it ends says what it has."""
        return unsent(visits, counted(self.log))

    def send(self, visit: Visit, value: bytes, acknowledged: Acknowledged) -> None:
        """The producer is idempotent and keeps the order of a partition."""
        if self._producer is None:
            self._producer = make_producer(self.config)
        self._producer.produce(
            visit.topic,
            value=value,
            key=visit.lead.encode(),
            partition=visit.partition,
            on_delivery=lambda error, message: acknowledged(_problem(error, message)),
        )
        self._producer.poll(0)

    def flush(self) -> None:
        """Kafka is waited for half a minute."""
        if self._producer is not None and self._producer.flush(30):
            raise BrokerUnavailable("Kafka did not acknowledge all visits within 30 s")

    def poster(self, url: str | None, keys: Mapping[str, str]) -> Poster | None:
        """Asks Kafka how far lanes came, after any trouble."""
        return None if url is None else Poster(url, keys, self.log)

    def is_read(self, driver: Driver) -> bool:
        """Asked of Kafka itself, and not of what the driver saw last."""
        if not driver.idle:
            return False
        at = [place for _, lanes in active(driver) for place in lanes.items()]
        ends = self.log.end_offsets(list({name for name, _ in at}))
        return all(place == ends.get(name) for name, place in at)

    def placed(self, visits: Iterable[Visit]) -> list[Visit]:
        """Each is in the partition of its lead."""
        return list(visits)

    def counts(self) -> dict[Lane, int]:
        """Where each partition ends."""
        return {lane_of(name): count for name, count in counted(self.log).items()}

    def reached(self, lane: Lane, place: Place) -> int:
        """Offsets count."""
        return offset_of(lane, place)

    def told(self) -> list[tuple[str, str, str]]:
        """Nothing."""
        return []

    def close(self) -> None:
        """Ask nothing more."""
        self.log.close()
