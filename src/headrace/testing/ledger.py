"""What was sent against what was found: lost, twice, foreign, out of order.

After a fault nobody can see by looking whether a record is missing among a million. So whoever
sends notes what Kafka has acknowledged, whoever checks reads the whole sink, and here both are
compared. A record is known by its place in Kafka, topic, partition and offset, and what is found
says whose effect it claims to be.

A record that was sent and never acknowledged may be there or not; it is no fault either way, once.
Nothing is repaired, and nothing is forgiven: what a guarantee allows is for the test to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

#: how many of a kind are named
_NAMED = 5


class Place(NamedTuple):
    """Where a record is in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class Found(NamedTuple):
    """An effect, as the sink has it."""

    #: whose effect it says it is
    tenant: str
    place: Place


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong; all empty is right."""

    #: records that were looked for
    records: int
    #: acknowledged, and not found
    lost: tuple[Place, ...] = ()
    #: found more than once, each as often as it was too many
    twice: tuple[Place, ...] = ()
    #: of another tenant, or of a topic that nobody sent to
    foreign: tuple[Found, ...] = ()
    #: found for the first time after a younger one of its lane
    out_of_order: tuple[Place, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.twice or self.foreign or self.out_of_order)

    def __str__(self) -> str:
        kinds = (
            ("lost", self.lost),
            ("twice", self.twice),
            ("foreign", self.foreign),
            ("out of order", self.out_of_order),
        )
        told = [f"{len(found)} {kind}{_some(found)}" for kind, found in kinds]
        return f"of {self.records} records: {'; '.join(told)}"


@dataclass(slots=True)
class Ledger:
    """What was sent, by tenant."""

    _owner: dict[str, str] = field(default_factory=dict)
    _sent: set[Place] = field(default_factory=set)

    def topic(self, tenant: str, topic: str) -> None:
        """Say whose topic it is; before anything of it is judged."""
        self._owner[topic] = tenant

    def acknowledged(self, place: Place) -> None:
        """Note a record that Kafka has acknowledged. Safe to call from another thread."""
        self._sent.add(place)

    def __len__(self) -> int:
        return len(self._sent)

    @property
    def sent(self) -> frozenset[Place]:
        """Everything acknowledged until now."""
        return frozenset(self._sent)

    def judge(self, found: Iterable[Found]) -> Verdict:
        """Compare with a sink.

        Args:
            found: every effect of the sink, those of one lane in the order they were made.
        """
        counts: Counter[Place] = Counter()
        foreign: list[Found] = []
        late: list[Place] = []
        newest: dict[tuple[str, int], int] = {}
        for sighting in found:
            place = sighting.place
            if self._owner.get(place.topic) != sighting.tenant:
                foreign.append(sighting)
                continue
            counts[place] += 1
            lane = place[:2]
            if counts[place] == 1 and place.offset < newest.get(lane, -1):
                late.append(place)
            newest[lane] = max(place.offset, newest.get(lane, -1))
        again = counts - Counter(counts.keys())
        return Verdict(
            records=len(self._sent),
            lost=tuple(sorted(self._sent - counts.keys())),
            twice=tuple(sorted(again.elements())),
            foreign=tuple(foreign),
            out_of_order=tuple(late),
        )


def runs(places: Iterable[Place]) -> list[tuple[Place, Place]]:
    """Places as unbroken runs of offsets, first and last of each.

    A fault that takes slices takes runs: how many of them there are tells how many slices it took.
    """
    found: list[tuple[Place, Place]] = []
    for place in sorted(set(places)):
        if found and found[-1][1] == place._replace(offset=place.offset - 1):
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _some(found: tuple[object, ...]) -> str:
    if not found:
        return ""
    more = ", …" if len(found) > _NAMED else ""
    return f" ({', '.join(str(name) for name in found[:_NAMED])}{more})"
