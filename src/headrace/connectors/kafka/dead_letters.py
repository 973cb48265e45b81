"""Keeping records aside in ``<topic>.dlq``, so that their lane can go on without them.

A lane may go on only when its bad record is safe, so every letter is acknowledged by all replicas
before ``keep`` returns, or ``keep`` raises. A letter is the record as it came: same key, value,
headers, timestamp and partition number, so that all letters of a lane are in one partition and in
order; what happened is in further headers (``dead_letter_headers``).

Letters are not in the transaction of anything else: a slice that is tried again brings them again.
Those that this process kept are remembered; another one keeps them again. Sending them back, each
once, is ``redrive``'s work.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zlib import crc32

from confluent_kafka import KafkaError, Producer

from headrace.connectors.kafka.clients import BROKEN, NotTaken, end_clients, opened, put
from headrace.connectors.kafka.config import client_config, letters_config, servers
from headrace.connectors.kafka.dead_letter_headers import headers_of
from headrace.connectors.kafka.dead_letter_topics import DeadLetterTopic, prepared
from headrace.connectors.kafka.faults import (
    DENIED,
    ErrorKind,
    delivery_error,
    first_error,
    kind_of,
    of_client,
)
from headrace.errors import BrokerUnavailable, ConfigError, HeadraceError
from headrace.model.buckets import whole_lane
from headrace.model.lane_names import taken_apart
from headrace.model.topic_names import connection_of, dead_letters_topic
from headrace.ports import Connections, DeadLetter, DeadLetters

#: tells the client to stamp a message by itself; so it cannot be told of 1970, which a header has
_NOW = 0
#: names of letters that are remembered as kept
_REMEMBERED = 10_000
_open: weakref.WeakSet[KafkaDeadLetters] = weakref.WeakSet()
#: producers a child process inherited: to destroy one there means to wait for threads it has not
_inherited: list[Producer] = []


@dataclass(frozen=True, slots=True)
class KafkaDeadLettersFactory:
    """``headrace.ports.DeadLettersFactory`` for a real cluster.

    Attributes:
        deadline_s: how long ``keep`` waits for brokers that do not answer.
    """

    deadline_s: float = 30.0

    def open(self, connections: Connections) -> DeadLetters:
        """Dead letters for this worker; they connect at the first that is kept."""
        return KafkaDeadLetters(connections.kafka, self.deadline_s)


class KafkaDeadLetters:
    """``headrace.ports.DeadLetters`` on a real cluster."""

    def __init__(self, config: Mapping[str, str], deadline_s: float = 30.0) -> None:
        """Take client properties; ``ConfigError`` if they cannot be used."""
        self._config = client_config(config)
        self._deadline_s = deadline_s
        self._producer: Producer | None = None
        #: by source topic
        self._topics: dict[str, DeadLetterTopic] = {}
        #: names of the letters kept last, oldest first
        self._kept: dict[Hashable, None] = {}
        _open.add(self)

    def __repr__(self) -> str:
        return f"KafkaDeadLetters({servers(self._config)})"

    def keep(self, letters: Sequence[DeadLetter]) -> None:
        """Keep every letter durably, in order, but for those that were kept here before.

        Raises:
            BrokerUnavailable: some may not be kept.
            ConfigError: the brokers refuse a letter, and will until somebody changes that.
        """
        letters = [letter for letter in letters if letter.named not in self._kept]
        if not letters:
            return
        give_up_s = time.monotonic() + self._deadline_s
        failures: list[HeadraceError] = []
        try:
            self._learn(letters)
            for letter in letters:
                self._send(letter, failures, give_up_s)
            waiting = self._own_producer().flush(max(0.0, give_up_s - time.monotonic()))
        except HeadraceError as error:
            failures.insert(0, error)
            waiting = 0
        except BROKEN as exc:
            why = first_error(exc).str()
            failures.insert(0, BrokerUnavailable(f"the client of dead letters broke: {why}"))
            waiting = 0
        if waiting:
            failures.append(
                BrokerUnavailable(
                    f"{waiting} dead letters were not acknowledged by {servers(self._config)} "
                    f"within {self._deadline_s:g} s"
                )
            )
        if failures:
            self.close()
            raise failures[0]
        self._remember(letters)

    def ready(self, topic: str) -> bool:
        """Whether its topic is known, and there is a producer."""
        return self._producer is not None and topic in self._topics

    def close(self) -> None:
        """Give up connections; what was not acknowledged is not sent any more."""
        self._topics.clear()
        if self._producer is None:
            return
        with suppress(*BROKEN):
            self._producer.purge()
            self._producer.flush(0)
        clients = [self._producer]
        self._producer = None
        end_clients(clients)

    def _remember(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            self._kept[letter.named] = None
        for name in list(islice(self._kept, max(0, len(self._kept) - _REMEMBERED))):
            del self._kept[name]

    def leave_to_parent(self) -> None:
        """In a forked child: touch the parent's producer no more."""
        if self._producer is not None:
            _inherited.append(self._producer)
            self._producer = None

    def _learn(self, letters: Sequence[DeadLetter]) -> None:
        """See to it that the topics are there, with the partitions of the letters."""
        needed: dict[str, int] = {}
        for letter in letters:
            topic, count = letter.slice.lane_topic, _partition_of(letter, 1) + 1
            known = self._topics.get(topic)
            if known is None or known.partitions < count:
                needed[topic] = max(needed.get(topic, 0), count)
        if not needed:
            return
        grown = needed.keys() & self._topics.keys()
        topics = self._topics | prepared(self._config, needed, self._deadline_s)
        if grown:
            # A producer that knows a topic as it was would refuse its new partitions.
            self.close()
        self._topics = topics

    def _own_producer(self) -> Producer:
        if self._producer is None:
            self._producer = opened(Producer, letters_config(self._config, self._deadline_s))
        return self._producer

    def _send(self, letter: DeadLetter, failures: list[HeadraceError], give_up_s: float) -> None:
        producer = self._own_producer()
        topic = dead_letters_topic(letter.slice.lane_topic)
        error = letter.error
        assert error.offset is not None, f"{letter.slice}: a dead letter names its record"

        def delivered(error: KafkaError | None, message: Any) -> None:
            problem = delivery_error(error, message)
            if problem is not None:
                failures.append(self._translated(problem, letter))

        there = self._topics[letter.slice.lane_topic]
        headers = headers_of(letter, there.limit_bytes)
        try:
            queued = put(
                producer,
                lambda: time.monotonic() >= give_up_s,
                topic,
                error.raw_value,
                error.raw_key,
                _partition_of(letter, there.partitions),
                on_delivery=delivered,
                timestamp=error.timestamp_ms or _NOW,
                headers=headers,
            )
        except NotTaken as exc:
            raise self._translated(first_error(exc), letter) from exc
        if not queued:
            raise BrokerUnavailable(f"topic {topic} takes no dead letters at the moment")

    def _translated(self, problem: KafkaError, letter: DeadLetter) -> HeadraceError:
        fault, topic = kind_of(problem), dead_letters_topic(letter.slice.lane_topic)
        record = f"{letter.slice.lane.name} offset {letter.error.offset}"
        if fault is ErrorKind.CREDENTIALS:
            return of_client(problem, self._config)
        if fault in (ErrorKind.TOO_LARGE, ErrorKind.BAD_SIZE):
            return ConfigError(
                f"record {record} is too large for topic {topic}; "
                f"raise max.message.bytes of {topic} above that of {letter.slice.lane_topic}"
            )
        if fault in DENIED:
            return ConfigError(f"we may not write to topic {topic}; grant Write on it")
        if fault is ErrorKind.BAD_TIME:
            return ConfigError(
                f"topic {topic} refuses the time of record {record}: {problem.str()}; give it "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms of its source"
            )
        if fault in (ErrorKind.REFUSED, ErrorKind.BAD_CALL):
            return ConfigError(
                f"topic {topic} refuses record {record}: {problem.str()}; "
                "give it cleanup.policy=delete and message.timestamp.type=CreateTime"
            )
        return BrokerUnavailable(f"topic {topic} did not take record {record}: {problem.str()}")


def _partition_of(letter: DeadLetter, partitions: int) -> int:
    """That of its record; of a lane that is not Kafka's all letters are in one of so many."""
    found = taken_apart(whole_lane(letter.slice.lane.name))
    if found is not None and connection_of(letter.slice.topic) is None:
        return found.number
    return crc32(letter.slice.lane.name.encode()) % partitions


def _leave_to_parent() -> None:
    for letters in _open:
        letters.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
