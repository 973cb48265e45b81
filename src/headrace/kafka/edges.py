"""Where logs begin and end, asked for thousands of partitions at little cost.

A driver asks for the ends of all its lanes over and over, and for most of them nothing is new. So a
consumer asks here: it takes a whole list and gives it back answered, in 3 to 5 microseconds a
partition. Portions of some hundred are best: librdkafka puts answers back by searching the list.

The admin client's ``list_offsets`` is not used, although it tells errors one by one. It makes a
future for every partition (16 microseconds), and it ends the process: while the leader of one
partition is not known, librdkafka (2.16) lets an answer to another request free what the asking
thread still holds (``rd_kafka_topic_partition_list_query_leaders_async``).

There are two ways to ask. ``of`` is quick where all is well: one stale leader spoils a portion, one
broker that is away makes it wait, and then the call is over and the rest left out. ``of_leaders``
is careful: it lets the client look anew where the topics are, since of a partition that was added,
or of a topic that was made again, it has learned that there is none; it asks broker by broker, so
that one which is away costs only its own partitions their answer; and it halves a portion that is
refused until it has found the partition that is to blame.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.kafka.consumers import Client
from headrace.kafka.faults import first_error, is_unreachable, of_client
from headrace.ports import TopicPartition

#: partitions of one request
PORTION = 500
#: What may be asked beside a time in ms. ``END`` is also the answer to a time after all records.
START, END = OFFSET_BEGINNING, OFFSET_END
#: an answer takes milliseconds; what takes longer is better asked in the careful way
_TIMEOUT_S = 0.5
#: so many topics are looked up one by one; of more than that the whole cluster's are sooner told
_FEW_TOPICS = 8


class Edges:
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
                if is_unreachable(first_error(exc)):
                    break
        return found

    def of_leaders(
        self, led: Mapping[int, Sequence[TopicPartition]], at: int
    ) -> dict[TopicPartition, int]:
        """The same, for partitions by the broker that leads them, as far as it can be had at all.

        Every broker is asked once for as long as an answer takes where all is well. Those that did
        not answer share what is left of the time.

        Raises:
            BrokerUnavailable: there is no answer, since brokers are away.
        """
        give_up_s = time.monotonic() + self._timeout_s
        self._look_anew({lane.topic for lanes in led.values() for lane in lanes})
        found: dict[TopicPartition, int] = {}
        slow = [each for each in led.values() if self._of_leader(each, at, self._quick_s, found)]
        error: KafkaError | None = None
        for waiting, lanes in zip(range(len(slow), 0, -1), slow, strict=True):
            left_s = max(0.0, give_up_s - time.monotonic())
            error = self._of_leader(lanes, at, left_s / waiting, found) or error
        if error and not found:
            raise of_client(error, self._config)
        return found

    def close(self) -> None:
        """Give up connections."""
        self._client.consumer.close()

    def _look_anew(self, topics: Collection[str]) -> None:
        look = self._client.consumer.list_topics
        with suppress(KafkaException):
            if len(topics) > _FEW_TOPICS:
                look(timeout=self._quick_s)
                return
            for name in topics:
                look(name, timeout=self._quick_s)

    def _of_leader(
        self,
        lanes: Sequence[TopicPartition],
        at: int,
        budget_s: float,
        found: dict[TopicPartition, int],
    ) -> KafkaError | None:
        """Add what one broker tells to ``found``; return why it tells no more, if so."""
        give_up_s = time.monotonic() + budget_s
        left = list(portions([lane for lane in lanes if lane not in found]))
        while left:
            portion, left_s = left.pop(), give_up_s - time.monotonic()
            if left_s <= 0:
                return KafkaError(KafkaError._TIMED_OUT)
            try:
                found |= self._ask(portion, at, left_s)
            except KafkaException as exc:
                error = first_error(exc)
                if is_unreachable(error):
                    return error
                # One of them was refused. The client has forgotten where it took it to be.
                half = len(portion) // 2
                left += [portion[:half], portion[half:]] if half else []
        return None

    def _ask(
        self, portion: Sequence[TopicPartition], at: int, timeout_s: float
    ) -> dict[TopicPartition, int]:
        asked = [KafkaPartition(each.topic, each.partition, at) for each in portion]
        answers = self._client.consumer.offsets_for_times(asked, timeout=timeout_s)
        self._client.consumer.poll(0)  # what the client has to say would pile up
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in answers
            if each.error is None and _is_answer(each.offset, at)
        }


def _is_answer(offset: int, at: int) -> bool:
    """Whether a partition has an offset; one of which nothing was said has what was asked."""
    return offset != at and (offset >= 0 or offset == END)


def portions(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """The partitions in pieces of the size that one request is best at."""
    for first in range(0, len(partitions), PORTION):
        yield partitions[first : first + PORTION]
