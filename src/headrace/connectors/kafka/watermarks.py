"""Where logs begin and end, asked for thousands of partitions at little cost.

A driver asks for the ends of all its lanes over and over, and for most of them nothing is new. So a
consumer asks here: it takes a whole list and gives it back answered, in 3 to 5 microseconds a
partition. Portions of some hundred are best: librdkafka puts answers back by searching the list.

The admin client's ``list_offsets`` is not used, although it tells errors one by one. It makes a
future for every partition (16 microseconds), and it ends the process: while the leader of one
partition is not known, librdkafka (2.16) lets an answer to another request free what the asking
thread still holds (``rd_kafka_topic_partition_list_query_leaders_async``).

There are two ways to ask. ``of`` is quick where all is well: one stale leader spoils a portion, one
broker that is away makes it wait, and then the call is over and the rest left out. ``carefully``
first lets the client look anew where the topics are, since of a partition that was added, or of a
topic that was made again, it has learned that there is none. Then it asks broker by broker, so that
one which is away costs only its own partitions their answer, and halves a portion that is refused
until it has found the partition that is to blame. A broker that was waited for in vain is not soon
waited for again: all other tenants' turns would wait with it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.connectors.kafka.consumers import Client
from headrace.connectors.kafka.faults import ErrorKind, first_error, kind_of, of_client
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.errors import BrokerUnavailable

#: partitions of one request
PORTION = 500
#: What may be asked beside a time in ms. ``END`` is also the answer to a time after all records.
START, END = OFFSET_BEGINNING, OFFSET_END
#: an answer takes milliseconds; what takes longer is better asked in the careful way
_TIMEOUT_S = 0.5
#: so many topics are looked up one by one; of more than that the whole cluster's are sooner told
_FEW_TOPICS = 8
#: refusals of one broker in one call, each of which makes the client look anew; a partition is
#: found among 500 by ten
_MOST_REFUSALS = 40
#: a broker that let us wait in vain is not waited for again so soon
_IN_VAIN_S = 20.0


class Watermarks:
    """First and last offsets by a consumer that reads nothing and belongs to no group."""

    def __init__(self, config: Mapping[str, str], timeout_s: float) -> None:
        """Connect lazily.

        Raises:
            ConfigError: librdkafka does not accept a property.
        """
        self._config = config
        self._client = Client(config, "small")
        self._timeout_s = timeout_s
        self._quick_s = min(_TIMEOUT_S, timeout_s)
        #: by broker: the monotonic second up to which it is not waited for
        self._in_vain_s: dict[int, float] = {}

    def of(self, partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """The offset of each partition, as far as it can be had quickly.

        Args:
            partitions: of topics whose names the broker accepts.
            at: ``START``, ``END`` (that of a ``read_committed`` reader), or a time in ms after
                1970: the first record that is not older, or ``END`` if there is none.
        """
        found: dict[TopicPartition, int] = {}
        for portion in portions(partitions):
            try:
                found |= self._ask(portion, at, self._quick_s)
            except KafkaException as exc:
                if kind_of(first_error(exc)) is ErrorKind.UNREACHABLE:
                    break
        return found

    def carefully(
        self, partitions: Collection[TopicPartition], at: int
    ) -> dict[TopicPartition, int]:
        """The same, as far as it can be had at all, within the time-out.

        Every broker is asked once for as long as an answer takes where all is well. Those that did
        not answer share what is left of the time.

        Raises:
            BrokerUnavailable: no broker says where the partitions are.
            ConfigError: our credentials are refused.
        """
        give_up_s = time.monotonic() + self._timeout_s
        found: dict[TopicPartition, int] = {}
        led = self._leaders(partitions, give_up_s)
        silent = self._round(led, at, found, min(give_up_s, time.monotonic() + self._quick_s))
        now_s = time.monotonic()
        again = {
            number: led[number] for number in silent if self._in_vain_s.get(number, 0.0) <= now_s
        }
        if again and len(led) > 1:
            # They may have moved, and the client may know it from a broker that hangs.
            left = [lane for lanes in again.values() for lane in lanes if lane not in found]
            with suppress(BrokerUnavailable):
                again = self._leaders(left, give_up_s)
        silent = self._round(again, at, found, give_up_s)
        self._in_vain_s |= dict.fromkeys(silent, time.monotonic() + _IN_VAIN_S)
        return found

    def close(self) -> None:
        """Give up connections; nothing is called after it."""
        self._client.close()

    def _leaders(
        self, partitions: Collection[TopicPartition], give_up_s: float
    ) -> dict[int, list[TopicPartition]]:
        """The partitions that are there by the broker that leads them; what nobody leads is not."""
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        names = {partition.topic for partition in partitions}
        asked = list(names) if len(names) <= _FEW_TOPICS else [None]
        topics = {
            name: topic for question in asked for name, topic in self._look(question, give_up_s)
        }
        for lane in partitions:
            topic = topics.get(lane.topic)
            there = None if topic is None or topic.error else topic.partitions.get(lane.partition)
            if there is not None and there.leader >= 0:
                led[there.leader].append(lane)
        return led

    def _look(self, name: str | None, give_up_s: float) -> Collection[tuple[str, Any]]:
        """Ask some broker, and then another one, where a topic is, or where all are."""
        look: Any = self._client.consumer.list_topics
        for patience_s in (self._quick_s, self._timeout_s):
            left_s = max(0.001, min(patience_s, give_up_s - time.monotonic()))
            try:
                told = look(name, timeout=left_s) if name else look(timeout=left_s)
            except KafkaException as exc:
                error = first_error(exc)
                self._client.consumer.poll(0)
                if self._client.refusal is not None:
                    error = self._client.refusal
            else:
                self._client.accepted()
                return list(told.topics.items())
        raise of_client(error, self._config)

    def _round(
        self,
        led: Mapping[int, Sequence[TopicPartition]],
        at: int,
        found: dict[TopicPartition, int],
        give_up_s: float,
    ) -> list[int]:
        """Add what brokers tell to ``found``, each in its share of the time; who tells not all."""
        silent = []
        for waiting, (broker, lanes) in zip(range(len(led), 0, -1), led.items(), strict=True):
            share_s = max(0.0, give_up_s - time.monotonic()) / waiting
            if not self._of_leader(lanes, at, share_s, found):
                silent.append(broker)
        return silent

    def _of_leader(
        self,
        lanes: Sequence[TopicPartition],
        at: int,
        budget_s: float,
        found: dict[TopicPartition, int],
    ) -> bool:
        """Add what one broker tells to ``found``; False if it does not tell in time."""
        give_up_s = time.monotonic() + budget_s
        left = list(portions([lane for lane in lanes if lane not in found]))
        refusals = 0
        while left and refusals < _MOST_REFUSALS:
            portion, left_s = left.pop(), give_up_s - time.monotonic()
            if left_s <= 0:
                return False
            try:
                found |= self._ask(portion, at, left_s)
            except KafkaException as exc:
                if kind_of(first_error(exc)) is ErrorKind.UNREACHABLE:
                    return False
                # One of them was refused. The client has forgotten where it took it to be.
                refusals += 1
                half = len(portion) // 2
                left += [portion[:half], portion[half:]] if half else []
        return True

    def _ask(
        self, portion: Sequence[TopicPartition], at: int, timeout_s: float
    ) -> dict[TopicPartition, int]:
        asked = [KafkaPartition(partition.topic, partition.partition, at) for partition in portion]
        try:
            answers = self._client.consumer.offsets_for_times(asked, timeout=timeout_s)
        finally:
            self._client.consumer.poll(0)  # what the client has to say would pile up
        return {
            TopicPartition(answer.topic, answer.partition): answer.offset
            for answer in answers
            if answer.error is None and _is_answer(answer.offset, at)
        }


def _is_answer(offset: int, at: int) -> bool:
    """Whether a partition has an offset; one of which nothing was said has what was asked."""
    return offset != at and (offset >= 0 or (at >= 0 and offset == END))


def portions(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """The partitions in pieces of the size that one request is best at."""
    for first in range(0, len(partitions), PORTION):
        yield partitions[first : first + PORTION]
