"""A transactional producer of a worker, and what Kafka knows of its lanes.

A transactional id is taken once for each producer, which costs some round trips, so a worker keeps
a few producers for the next bins. One that was shut out, or of whose commit nobody knows, is given
up for good: the next one of its id settles what it left open.

What is sent, and when, is `sink_transactions.py`'s matter.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from headrace.connectors.kafka.clients import BROKEN, opened
from headrace.connectors.kafka.faults import ErrorKind, kind_of
from headrace.connectors.kafka.sink_line import TopicProducer
from headrace.errors import SinkUnavailable, TargetMissing
from headrace.model.places import NARROW, Place, number_at, place_at, read_place, text_of

#: a producer that is shut out says so at the highest level, though it is an ordinary thing here
_SILENT = logging.getLogger("headrace.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_TAKE_S = 10.0
_OFFSETS_S = 10.0
#: a worker meets as many fences as there are slots, at most
_MOST_LINES = 8
#: behind the wave's id, which has no such letters
_PLACE, _EPOCH, _PARKED = "@", ":", "+"
#: in the place of further tenants
MORE = "*"
#: brokers take 4,096 bytes of metadata if nobody says less
_MOST_NAMES_BYTES = 2_000
#: of a topic the messages themselves tell, and better (``translated``)
_MUST_BE_MENDED = (
    ErrorKind.TRANSACTION_DENIED,
    ErrorKind.TRANSACTION_TOO_LONG,
    ErrorKind.GROUP_DENIED,
    ErrorKind.CLUSTER_DENIED,
)


class OutcomeLost(Exception):
    """Whether anything was or will be committed is not known."""


class Mark(NamedTuple):
    """How far a lane has come in a transaction, and of which wave that was."""

    reached: Place
    wave_id: str
    #: tenants of which records of the lane are parked; empty where none is
    parked: tuple[str, ...] = ()
    #: under which it was left; told with places that no offset has room for, else None
    epoch: int | None = None

    @property
    def offset(self) -> int:
        """The offset that says it; 0 for a place that none has room for."""
        return number_at(self.reached) if self.reached <= NARROW else 0

    @property
    def text(self) -> str:
        """What the offset's metadata say; of very many tenants only some, and that there are more.

        Those named first are named for sure.
        """
        said = self.wave_id
        if self.reached > NARROW:
            said += f"{_PLACE}{text_of(self.reached)}"
            said += "" if self.epoch is None else f"{_EPOCH}{self.epoch}"
        if not self.parked:
            return said
        names = ",".join(self.parked)
        if len(names) > _MOST_NAMES_BYTES:
            names = f"{names[:_MOST_NAMES_BYTES].rpartition(',')[0]},{MORE}"
        return f"{said}{_PARKED}{names}"

    @classmethod
    def read(cls, offset: int, text: str) -> Mark:
        """A mark by an offset and its metadata."""
        said, _, names = text.partition(_PARKED)
        wave_id, _, where = said.partition(_PLACE)
        place, _, epoch = where.partition(_EPOCH)
        reached = read_place(place) if place else place_at(offset)
        parked = tuple(names.split(",")) if names else ()
        return cls(reached, wave_id, parked, int(epoch) if epoch else None)


class TransactionLine:
    """A producer that has taken its transactional id from whoever had it.

    Raises:
        ConfigError: librdkafka refuses the settings.
        TargetMissing: a right is missing, or the time-out is more than the broker allows.
        OutcomeLost: the broker did not answer in time.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        #: topics of marks, and how many partitions they have at least
        self.marked: dict[str, int] = {}
        #: what its messages are sent through
        self.sender = TopicProducer(settings, logger=_SILENT)
        try:
            # With no connection yet, the client would look for the coordinator half a second later.
            self.sender.topics = set(self.producer.list_topics(timeout=_TAKE_S).topics)
            self.producer.init_transactions(_TAKE_S)
        except KafkaException as exc:
            raise as_error(exc.args[0]) from exc

    @property
    def producer(self) -> Producer:
        """The client, whose transactions these are."""
        return self.sender.producer

    def marks(self, group: str, lanes: Collection[tuple[str, int]]) -> dict[tuple[str, int], Mark]:
        """The marks of lanes (topic, partition) that have one; waits for open transactions.

        Raises:
            TargetMissing: a right is missing.
            OutcomeLost: they cannot be had now.
        """
        try:
            found = consumer_for(self.settings, group).committed(
                [TopicPartition(*lane) for lane in lanes], _OFFSETS_S
            )
        except KafkaException as exc:
            raise as_error(exc.args[0]) from exc
        failed = next((partition.error for partition in found if partition.error is not None), None)
        if failed is not None:
            raise as_error(failed)
        return {
            (partition.topic, partition.partition): Mark.read(
                partition.offset, partition.metadata or ""
            )
            for partition in found
            if partition.offset >= 0
        }

    def widths(self) -> dict[str, int]:
        """How many partitions each topic of the cluster has.

        Raises:
            SinkUnavailable: no broker answers.
        """
        try:
            found = self.producer.list_topics(timeout=_TAKE_S).topics
        except KafkaException as exc:
            raise SinkUnavailable(f"Kafka: no broker answers: {exc.args[0].str()}") from exc
        return {name: len(topic.partitions) for name, topic in found.items()}

    def member(self, group: str) -> object:
        """Who commits offsets of a group without being in it, as the client wants it."""
        return consumer_for(self.settings, group).consumer_group_metadata()


#: producers of this process, the one used last at the end; a forked child must not use a parent's
_lines: OrderedDict[tuple[int, tuple[tuple[str, str], ...]], TransactionLine] = OrderedDict()
_consumers: dict[tuple[int, str, str], Consumer] = {}


def line_for(settings: Mapping[str, str]) -> TransactionLine:
    """The producer of a transactional id; made, and the id taken, if this process has none."""
    key = _key(settings)
    if key not in _lines:
        _lines[key] = TransactionLine(settings)
    _lines.move_to_end(key)
    while len(_lines) > _MOST_LINES:
        _, oldest = _lines.popitem(last=False)
        # One that broke since it was used says so here, to a bin that never had to do with it.
        with suppress(*BROKEN):
            oldest.producer.close()
    return _lines[key]


def give_up(settings: Mapping[str, str]) -> None:
    """Never use this producer again; whoever takes its id settles what it has open."""
    line = _lines.pop(_key(settings), None)
    if line is not None:
        with suppress(*BROKEN):
            line.producer.purge()


def consumer_for(settings: Mapping[str, str], group: str) -> Consumer:
    """One client for each process, cluster and group, that joins nothing and reads nothing.

    Its isolation level makes the broker wait for open transactions before it tells offsets. The
    admin client could ask as well, but version 2.16 of it crashes on a group that is new.
    """
    plain = {n: value for n, value in settings.items() if n != "transactional.id"}
    key = (os.getpid(), repr(sorted(plain.items())), group)
    if key not in _consumers:
        ours = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
        _consumers[key] = opened(Consumer, {**plain, **ours, "log_level": "2"})
    return _consumers[key]


def _key(settings: Mapping[str, str]) -> tuple[int, tuple[tuple[str, str], ...]]:
    return (os.getpid(), tuple(sorted(settings.items())))


def as_error(error: KafkaError) -> TargetMissing | OutcomeLost:
    """What a failed call of a transactional producer means."""
    if kind_of(error) in _MUST_BE_MENDED:
        return TargetMissing(
            f"Kafka transaction: {error.str()}; see the rights and limits in docs/sinks.md"
        )
    return OutcomeLost(error.str())
