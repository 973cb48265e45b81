"""A producer, and the topics it is known to have.

The client waits for a topic that is missing, and with it wait all other tenants whose messages are
behind. So topics are asked for before anything is sent. Sending waits while the producer's queue is
full; whether a message has arrived is told to a function that comes with each effect.

Transactions are not here (`sink_transactions.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.connectors.kafka.clients import NotTaken, opened, put
from headrace.connectors.kafka.faults import NOT_THERE, delivery_error, first_error, kind_of
from headrace.connectors.kafka.sink_messages import (
    messages,
    misdirected,
    own_topic,
    topics_of,
    translated,
)
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable
from headrace.ports import Effect

_METADATA_WAIT_S = 10.0
#: within a bin's time budget, since a missing topic delays whoever is sent with it
_NEW_TOPIC_WAIT_S = 0.5
#: brokers have said that it is made, so it will be known
_MADE_TOPIC_WAIT_S = 5.0
#: makes topics; returns why, for each that cannot be made
MakeTopics = Callable[[Collection[str]], dict[str, HeadraceError]]
#: told of a message that did not arrive, and of its topic
OnError = Callable[[KafkaError, str], None]


class TopicProducer:
    """A producer that is told of topics and messages.

    Args:
        settings: librdkafka's properties.
        heard: who hears what it says of itself.

    Raises:
        ConfigError: librdkafka refuses the settings.
    """

    def __init__(self, settings: Mapping[str, str], **heard: Any) -> None:
        self.producer = opened(Producer, settings, **heard)
        self.topics: set[str] = set()
        #: topics that could not be made when they were needed last
        self.unmade: dict[str, HeadraceError] = {}

    def learn(
        self, effects: Iterable[Effect], pattern: str, make: MakeTopics | None = None
    ) -> None:
        """Ask for all topics at once, if one that these effects go to is not known yet.

        Those of tenants are made, if wanted, in one request; never one that a row names, which may
        be anything. A topic just made is not known to every broker at once, so it is asked for
        again, shortly: all other tenants wait with it.

        Raises:
            SinkUnavailable: no broker answers.
        """
        owns = [(effect, own_topic(effect, pattern)) for effect in effects]
        wanted = {name for effect, own in owns for name in topics_of(effect, own)}
        self.know(wanted, wanted & {own for _, own in owns}, make)

    def know(self, wanted: set[str], makable: set[str], make: MakeTopics | None = None) -> None:
        """The same for topics by their names, of which some may be made.

        Raises:
            SinkUnavailable: no broker answers.
        """
        if self.topics.issuperset(wanted):
            return
        self._look()
        missing = makable - self.topics
        wait_s = _NEW_TOPIC_WAIT_S
        if make is not None and missing:
            self.unmade = make(missing)
            if missing - self.unmade.keys():
                wait_s = _MADE_TOPIC_WAIT_S
            wanted = wanted - self.unmade.keys()
        give_up_s = time.monotonic() + wait_s
        while not self.topics.issuperset(wanted) and time.monotonic() <= give_up_s:
            self.producer.poll(0.05)
            self._look()

    def _look(self) -> None:
        try:
            self.topics = set(self.producer.list_topics(timeout=_METADATA_WAIT_S).topics)
        except KafkaException as exc:
            raise SinkUnavailable(f"Kafka: no broker answers: {exc.args[0].str()}") from exc

    def demand(self, effect: Effect, pattern: str) -> None:
        """See that all topics of an effect are there, as far as is known.

        Raises:
            TargetMissing: the tenant's own is not.
            SinkRefused: one that a row names is not.
            SinkUnavailable: it is to be made, and no broker answered.
        """
        own = own_topic(effect, pattern)
        for topic in sorted(topics_of(effect, own)):
            if topic not in self.topics:
                raise misdirected(effect, topic, own, self.unmade.get(topic))

    def send(self, effect: Effect, pattern: str, on_error: OnError) -> None:
        """Queue all messages of an effect; waits while the queue is full.

        Raises:
            SinkRefused: a message can not be sent at all.
            SinkUnavailable: the producer can send nothing now.
            ValueError: a key or value is no UTF-8.
        """
        own = own_topic(effect, pattern)

        def delivered(error: KafkaError | None, message: Any) -> None:
            problem = delivery_error(error, message)
            if problem is not None:
                self._told(problem, message.topic() or own, on_error)

        for topic, value, message in messages(effect, own):
            self._put(topic, value, {**message, "on_delivery": delivered}, on_error)

    def _put(self, topic: str, value: Any, message: dict[str, Any], on_error: OnError) -> None:
        try:
            queued = put(self.producer, lambda: not len(self.producer), topic, value, **message)
        except NotTaken as exc:
            error = first_error(exc)
            self._told(error, topic, on_error)
            raise translated(error, topic) from exc
        if not queued:
            limit = "queue.buffering.max.kbytes"
            raise SinkRefused(f"topic {topic}: the message is more than {limit}")

    def _told(self, error: KafkaError, topic: str, on_error: OnError) -> None:
        if kind_of(error) in NOT_THERE:
            self.topics.discard(topic)
        on_error(error, topic)
