"""Which tenants have parked records that are not in their own topics yet, asked in Kafka.

A tenant's records that its own topic does not take are *parked*, in a topic that Headrace made for
it. A use case brings them from there, by Kafka transactions, which leave behind how far they came.
So what is parked and not brought yet stands in Kafka itself: where the topic ends, and how far was
come. Nothing else has to be kept true beside it.

The end is that of all records, and not that of committed ones: when a transaction is committed,
brokers tell its partitions one by one, later, and who looks in between would miss what it parked.
In doubt there is something. A mark that Kafka has forgotten, one of a topic that was made anew, and
an end behind which nothing but the marks of aborted transactions comes cost a way round, and never
an order.

Nothing is sent from here; topics of parked records are made, and given more partitions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.clients import opened
from headrace.connectors.kafka.mark_topics import parked_in
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.sink_transaction_line import MORE, Mark, TransactionLine
from headrace.connectors.kafka.topic_shapes import as_of_a_sink
from headrace.connectors.kafka.topics import ungrown_topics, unmakable_topics
from headrace.errors import ConfigError, HeadraceError
from headrace.model.patterns import TENANT
from headrace.model.streams import TENANT_NAME

#: the brokers alone judge how large a message may be: they have taken it before
MOST_BYTES = 256 * 1024 * 1024
_TAKES_ALL = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(MOST_BYTES),
    "message.timestamp.type": "CreateTime",
}
_ANY_TIME = dict.fromkeys(
    ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"), str(2**63 - 1)
)
#: everybody in the bin waits
_ASK_S, _MAKE_S = 1.0, 5.0
#: partitions of one request
_PORTION = 500


@dataclass(frozen=True, slots=True)
class ParkedTopics:
    """The topics of parked records of a use case.

    Args:
        pattern: their names, with ``{tenant}``.
        group: by whose offsets is told how far they were brought.
    """

    pattern: str
    group: str

    def waiting(
        self, line: TransactionLine, marks: Mapping[TopicPartition, Mark | None]
    ) -> dict[TopicPartition, frozenset[str]]:
        """The tenants of which records of lanes may be parked.

        Args:
            line: to Kafka.
            marks: of each lane; None: it has none, or Kafka has forgotten it.

        Raises:
            SinkUnavailable: Kafka does not tell now.
        """
        doubtful = {lane: mark for lane, mark in marks.items() if mark is None or mark.parked}
        if not doubtful:
            return {}
        widths = self._widths(line)
        places = {lane: self._places(lane, mark, widths) for lane, mark in doubtful.items()}
        asked = sorted({place for own in places.values() for place in own.values() if place})
        drained = self._drained(line, asked)
        return {
            lane: frozenset(tenant for tenant, place in own.items() if place not in drained)
            for lane, own in places.items()
        }

    def _widths(self, line: TransactionLine) -> dict[str, int]:
        """The tenants that have a topic of parked records, and how many partitions that has."""
        before, after = map(re.escape, self.pattern.split(TENANT, 1))
        named = re.compile(f"{before}(?P<tenant>{TENANT_NAME.pattern}){after}")
        found = ((named.fullmatch(topic), width) for topic, width in line.widths().items())
        return {match["tenant"]: width for match, width in found if match and width}

    def _places(
        self, lane: TopicPartition, mark: Mark | None, widths: Mapping[str, int]
    ) -> dict[str, TopicPartition | None]:
        """Where each tenant has what is parked of a lane.

        A mark names them. A partition of such a topic that the broker does not tell of was made a
        moment ago: None. Where it does not name all, or there is none, it may be any that is there.
        """
        place = parked_in(lane)
        has_it = {tenant for tenant, width in widths.items() if place < width}
        names = set() if mark is None else {name for name in mark.parked if name != MORE}
        if mark is None or MORE in mark.parked:
            names |= has_it
        return {
            tenant: TopicPartition(self.pattern.replace(TENANT, tenant), place)
            if tenant in has_it
            else None
            for tenant in names
        }

    def _drained(
        self, line: TransactionLine, places: list[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Those of which all was brought, or in which nothing is."""
        drained: set[TopicPartition] = set()
        for first in range(0, len(places), _PORTION):
            some = places[first : first + _PORTION]
            starts, ends = (
                _offsets(line.settings, some, at) for at in (OFFSET_BEGINNING, OFFSET_END)
            )
            marks = line.marks(self.group, some)
            for place in some:
                mark, end = marks.get(place), ends.get(place)
                empty = starts.get(place) == end
                if end is not None and (empty or (mark is not None and mark.reached == end)):
                    drained.add(place)
        return frozenset(drained)


_consumers: dict[tuple[int, str], Consumer] = {}


def _offsets(
    settings: Mapping[str, str], places: list[TopicPartition], at: int
) -> dict[TopicPartition, int]:
    """Where partitions begin or end, whatever is committed, of those that tell it soon.

    One without a leader keeps the others from telling: something is taken to be in each of them.
    """
    asked = [KafkaPartition(place.topic, place.partition, at) for place in places]
    try:
        answers = _consumer_for(settings).offsets_for_times(asked, timeout=_ASK_S)
    except KafkaException:
        return {}
    return {
        TopicPartition(answer.topic, answer.partition): answer.offset
        for answer in answers
        if answer.error is None and answer.offset >= 0
    }


def _consumer_for(settings: Mapping[str, str]) -> Consumer:
    """One client for each process and cluster, that reads nothing and joins nothing."""
    plain = {name: value for name, value in settings.items() if name != "transactional.id"}
    key = (os.getpid(), repr(sorted(plain.items())))
    if key not in _consumers:
        ours = {
            "group.id": "headrace.tx.parked",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "log_level": "2",
        }
        _consumers[key] = opened(Consumer, {**plain, **ours})
    return _consumers[key]


@dataclass(frozen=True, slots=True)
class ParkedMaker:
    """Makes topics of parked records: as wide as their source, taking all, and keeping it for ever.

    A record keeps its time there. By a retention an old one would be taken away at once, and one of
    a time to come is what its tenant's topic may have refused.
    """

    config: Mapping[str, str]
    partitions: int

    def __call__(self, names: Collection[str]) -> dict[str, HeadraceError]:
        """Make them; why, for each that cannot be made. Of a broker that is away that passes."""
        refused = self._made(names, {**_TAKES_ALL, **_ANY_TIME})
        # Before Kafka 3.6 brokers do not know the last two, and take any time if nothing is said.
        again = [name for name, error in refused.items() if isinstance(error, ConfigError)]
        if again:
            kept = {name: error for name, error in refused.items() if name not in again}
            refused = kept | self._made(again, _TAKES_ALL)
        return as_of_a_sink(refused)

    def grown(self, widths: Mapping[str, int]) -> dict[str, HeadraceError]:
        """Give them at least so many partitions, once their source has more; as above.

        What is parked of a partition is in that of its number: so who adds any changes no order.
        """
        wanted = {name: max(width, self.partitions) for name, width in widths.items()}
        return as_of_a_sink(ungrown_topics(self.config, wanted, _MAKE_S)) if wanted else {}

    def _made(
        self, names: Collection[str], topic_config: Mapping[str, str]
    ) -> dict[str, HeadraceError]:
        partitions = dict.fromkeys(names, self.partitions)
        return unmakable_topics(self.config, partitions, _MAKE_S, topic_config=topic_config)
