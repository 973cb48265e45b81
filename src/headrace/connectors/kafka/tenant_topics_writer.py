"""Rows of many tenants in one Kafka transaction, parked where a tenant's topic does not take them.

What is promised, and why that is so, is said in `tenant_topics.py`. Here it is done, before each
transaction: ask what is parked, see which topics are there, turn aside the rows that must not go
to their own topic, and leave behind for each lane of whom something is parked then.

How a transaction comes about, and what is known after a kill, is `sink_transactions.py`'s matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.connectors.kafka.faults import DENIED, NOT_THERE, ErrorKind, kind_of
from headrace.connectors.kafka.mark_topics import mark_of, parked_in
from headrace.connectors.kafka.parked_topics import ParkedMaker, ParkedTopics
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.sink_messages import topics_of
from headrace.connectors.kafka.sink_transaction_line import MORE, Mark, TransactionLine
from headrace.connectors.kafka.sink_transactions import (
    Effects,
    KafkaTransactionWriter,
    Outcomes,
)
from headrace.connectors.kafka.topic_shapes import TopicMaker, TopicShape
from headrace.connectors.outcomes import failed, going_on
from headrace.errors import HeadraceError, Permanent, SinkUnavailable, TargetMissing
from headrace.model.patterns import TENANT
from headrace.model.places import Place
from headrace.model.streams import Slice, original
from headrace.ports import Effect, Site

#: what a topic may say of a message while others take theirs
_REFUSES = (
    DENIED
    | NOT_THERE
    | {
        ErrorKind.BAD_NAME,
        ErrorKind.BAD_SIZE,
        ErrorKind.BAD_TIME,
        ErrorKind.REFUSED,
        ErrorKind.TOO_LARGE,
    }
)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Where rows go; ``TenantTopics`` says what each is."""

    topic: str
    parked: str
    parked_by: str
    unknown: str = ""
    shape: TopicShape = field(default_factory=TopicShape)


class _Learned(Exception):
    """A topic refuses that was not known to; nothing was committed."""


class TenantTopicsWriter(KafkaTransactionWriter):
    """Writes effects group by group, each in a transaction with its offsets."""

    def __init__(self, names: TopicNames, site: Site, parked: ParkedTopics | None = None) -> None:
        super().__init__(names.topic, site, encode=self._with_topics)
        group = f"headrace.tx.{names.parked_by}"
        self._names, self._parked = names, parked or ParkedTopics(names.parked, group)
        self._config = site.connections.kafka
        #: tenants by their topics, as far as rows were seen
        self._tenants: dict[str, str] = {}
        #: topics of tenants that refuse, and why, while this bin runs
        self._refusing: dict[str, str] = {}
        self._found: Mapping[TopicPartition, Mark] = {}
        #: tenants of which something of a lane is parked once this transaction is committed
        self._parks: dict[TopicPartition, list[str]] = {}
        #: why topics of parked records could not be made
        self._unmade: dict[str, HeadraceError] = {}
        #: why some have too few partitions
        self._narrow: dict[str, HeadraceError] = {}

    def _attempt(self, effects: Effects) -> Outcomes:
        # Each time one more topic of those that rows name is known to refuse.
        while True:
            try:
                return super()._attempt(effects)
            except _Learned:
                continue

    def _transaction(self, line: TransactionLine, effects: Effects) -> dict[int, HeadraceError]:
        known = len(self._refusing)
        errors = super()._transaction(line, effects)
        if len(self._refusing) > known:
            raise _Learned
        return errors

    def _unwritable(self, topics: set[str]) -> set[str]:
        denied = super()._unwritable(topics)
        self._refusing |= dict.fromkeys(denied & self._tenants.keys(), "we may not write to it")
        return denied

    def _said(self, error: KafkaError, topic: str, own: str) -> HeadraceError:
        kind = kind_of(error)
        refuses = kind in _REFUSES and not error.fatal()
        if refuses and topic in self._tenants:
            self._refusing.setdefault(topic, error.str())
        said = f"topic {topic}: {error.str()}"
        # No record is to blame, or others of its tenant would pass it by. A topic that is gone
        # was there when it was looked for, and is made again.
        lasts = refuses and kind not in NOT_THERE
        return TargetMissing(said) if lasts else SinkUnavailable(said)

    def _marks(
        self, line: TransactionLine, effects: Effects, lanes: set[TopicPartition]
    ) -> dict[tuple[str, int], Mark]:
        found = super()._marks(line, effects, lanes)
        self._found = {TopicPartition(*lane): mark for lane, mark in found.items()}
        return found

    def _mark(self, piece: Slice, reached: Place) -> Mark:
        parked = tuple(self._parks.get(mark_of(piece), ()))
        return Mark(reached, self._wave_id, parked, piece.epoch)

    def _addressed(self, line: TransactionLine, effects: dict[int, Effect]) -> dict[int, Effect]:
        lanes = {index: mark_of(effect.slices[0]) for index, effect in effects.items()}
        marks = {lanes[index]: self._told(effect.slices[0]) for index, effect in effects.items()}
        waiting = self._parked.waiting(line, marks)
        held = {index: waiting.get(lane, frozenset()) for index, lane in lanes.items()}
        self._know_own(line, effects, held)
        made: dict[int, Effect] = {}
        self._parks = {}
        for index, effect in effects.items():
            made[index], parks = self._parted(effect, held[index])
            # What is new comes first: its topic may be so new that not all brokers tell of it.
            new = sorted(parks - held[index])
            self._parks[lanes[index]] = [*new, *sorted(held[index])]
        self._know_parked(line, made)
        return self._to_partitions(line, made, lanes)

    def _told(self, piece: Slice) -> Mark | None:
        """The mark of a lane, which names all of whom something may be parked.

        What a shard follows may have been sent back since, which raises the epoch, and have parked
        what goes before it.
        """
        mark = self._found.get(mark_of(piece))
        if mark is None or mark.epoch in (None, piece.epoch):
            return mark
        return mark._replace(parked=(*mark.parked, MORE))

    def _know_own(
        self, line: TransactionLine, effects: Effects, held: Mapping[int, frozenset[str]]
    ) -> None:
        """See which topics are there, and make those of tenants that are not, if that is wanted."""
        wanted = {
            name
            for index, effect in effects.items()
            for name in topics_of(effect, "") - self._refusing.keys()
            if self._tenants.get(name) not in held[index]
        }
        own = wanted & self._tenants.keys()
        can_make = self._names.shape.partitions is not None
        make = TopicMaker(self._config, self._names.shape) if can_make else None
        line.sender.know(wanted, own, make)
        for topic in own - line.sender.topics:
            self._refusing.setdefault(topic, "it is not there")

    def _parted(self, effect: Effect, waiting: frozenset[str]) -> tuple[Effect, set[str]]:
        """An effect with the rows of tenants parked that have to be, and which these are."""
        topics = effect.output.column("topic").combine_chunks().dictionary_encode()
        names = cast("list[str]", topics.dictionary.to_pylist())
        parks = {
            self._tenants[name]
            for name in names
            if name in self._tenants and (name in self._refusing or self._tenants[name] in waiting)
        }
        if not parks:
            return effect, parks
        aside = [
            self._names.parked.replace(TENANT, self._tenants[name])
            if self._tenants.get(name) in parks
            else name
            for name in names
        ]
        at = effect.output.schema.get_field_index("topic")
        column = pa.array(aside, pa.string()).take(topics.indices)
        return replace(effect, output=effect.output.set_column(at, "topic", column)), parks

    def _know_parked(self, line: TransactionLine, effects: Effects) -> None:
        wanted = {name for effect in effects.values() for name in topics_of(effect, "")}
        missing = wanted - self._tenants.keys() - {self._names.unknown} - line.sender.topics
        if not missing:
            return
        line.sender.know(missing, missing, self._maker(effects, line.widths()))
        self._unmade = dict(line.sender.unmade)

    def _maker(self, effects: Effects, widths: Mapping[str, int]) -> ParkedMaker:
        read = {effect.slices[0].lane_topic for effect in effects.values()}
        return ParkedMaker(self._config, max(widths.get(topic, 1) for topic in read))

    def _to_partitions(
        self, line: TransactionLine, effects: dict[int, Effect], lanes: Mapping[int, TopicPartition]
    ) -> dict[int, Effect]:
        """Effects with what is parked in the partition of its lane, whatever its key."""
        by_key = self._tenants.keys() | {self._names.unknown}
        needed: dict[str, int] = {}
        for index, effect in effects.items():
            for name in (topics_of(effect, "") - by_key) & line.sender.topics:
                needed[name] = max(needed.get(name, 0), parked_in(lanes[index]) + 1)
        self._widen(line, effects, needed)
        return {
            index: _aside(effect, parked_in(lanes[index]), by_key)
            if self._parks[lanes[index]]
            else effect
            for index, effect in effects.items()
        }

    def _widen(self, line: TransactionLine, effects: Effects, needed: Mapping[str, int]) -> None:
        """See that topics of parked records have the partitions that are needed of them."""
        self._narrow = {}
        widths = line.widths() if needed else {}
        short = {name: count for name, count in needed.items() if 0 < widths.get(name, 0) < count}
        if short:
            self._narrow = self._maker(effects, widths).grown(short)
            widths = line.widths()
        untold = [
            name
            for name in sorted(needed.keys() - self._narrow.keys())
            if widths.get(name, 0) < needed[name]
        ]
        if untold:
            # One broker told of it and this one does not yet. Where it would be parked by a guess
            # nobody looks for it, and what comes later passes it by. Or somebody deleted it since.
            line.sender.topics.difference_update(name for name in untold if not widths.get(name))
            raise SinkUnavailable(
                f"topic {untold[0]}: a broker does not tell how many partitions it has; the same "
                "slices run again, and it is made if it is not there"
            )

    def _misdirected(self, line: TransactionLine, effects: Effects) -> Outcomes:
        outcomes: Outcomes = {}
        for index, effect in effects.items():
            topics = topics_of(effect, "")
            for topic in sorted((topics - line.sender.topics) | (topics & self._narrow.keys())):
                outcomes[index] = failed(self._why_not(topic, effect))
        return outcomes

    def _why_not(self, topic: str, effect: Effect) -> HeadraceError:
        """Why nothing can be sent to a topic that is not there, or too narrow."""
        why = self._narrow.get(topic, self._unmade.get(topic))
        if why is not None and not isinstance(why, Permanent):
            return why
        if topic in self._narrow:
            return TargetMissing(f"{why}, and {going_on(effect)}")
        told = "it is not there" if why is None else f"it is not there ({why})"
        use_case = effect.slices[0].lane.use_case
        make = f"'headrace topics create {original(use_case)}' makes it"
        make = make if topic == self._names.unknown else "make it"
        return TargetMissing(f"topic {topic}: {told}; {make}, and {going_on(effect)}")

    def _with_topics(self, effect: Effect) -> Effect:
        """An effect whose rows name the topics of their tenants."""
        output = effect.output
        at = output.schema.get_field_index("tenant")
        if at < 0:
            return effect
        tenants = output.column(at).combine_chunks().dictionary_encode()
        known = cast("list[str]", tenants.dictionary.to_pylist())
        names = [self._names.topic.replace(TENANT, name) for name in known]
        self._tenants |= dict(zip(names, known, strict=True))
        topics = pa.array(names, pa.string()).take(tenants.indices).fill_null(self._names.unknown)
        return replace(effect, output=output.set_column(at, "topic", topics))


def _aside(effect: Effect, place: int, by_key: Collection[str]) -> Effect:
    topics = effect.output.column("topic").combine_chunks().dictionary_encode()
    names = cast("list[str]", topics.dictionary.to_pylist())
    places = [None if name in by_key else place for name in names]
    column = pa.array(places, pa.int32()).take(topics.indices)
    return replace(effect, output=effect.output.append_column("to_partition", column))
