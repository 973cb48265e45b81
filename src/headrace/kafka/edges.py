"""Where logs begin and end, asked for thousands of partitions at little cost.

A driver asks for the ends of all its lanes over and over, and for most of them nothing is new. The
admin client makes a future for every partition (16 microseconds a partition, and more than that
with more than a thousand in one call), so a consumer asks here: it takes the whole list and gives
it back answered, in 3 to 5 microseconds a partition. Portions of some hundred are best: librdkafka
puts answers back by searching the list.

It is quick only where all is well. One stale leader spoils a portion, and one partition without a
leader makes it wait. So nothing here is an error: what cannot be had is left out, the first portion
that took too long ends the call, and ``log`` asks for the rest in the careful way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.kafka.consumers import Client
from headrace.kafka.faults import first_error, is_unreachable
from headrace.ports import TopicPartition

#: partitions of one request
PORTION = 500
START, END = OFFSET_BEGINNING, OFFSET_END
#: an answer takes milliseconds; what takes longer is better asked in the careful way
_TIMEOUT_S = 0.5


class Edges:
    """First and last offsets by a consumer that reads nothing and belongs to no group."""

    def __init__(self, config: Mapping[str, str], timeout_s: float) -> None:
        """Connect lazily.

        Raises:
            ConfigError: librdkafka does not accept a property.
        """
        self._client = Client(config, "small")
        self._timeout_s = min(_TIMEOUT_S, timeout_s)

    def of(self, partitions: Sequence[TopicPartition], edge: int) -> dict[TopicPartition, int]:
        """The edge of each partition, as far as it can be had quickly.

        Args:
            partitions: of topics whose names the broker accepts.
            edge: ``START`` or ``END``; the end is that of a ``read_committed`` reader.
        """
        found: dict[TopicPartition, int] = {}
        for portion in portions(partitions):
            try:
                found |= self._ask(portion, edge)
            except KafkaException as exc:
                if is_unreachable(first_error(exc)):
                    break
        return found

    def close(self) -> None:
        """Give up connections."""
        self._client.consumer.close()

    def _ask(self, portion: Sequence[TopicPartition], edge: int) -> dict[TopicPartition, int]:
        asked = [KafkaPartition(each.topic, each.partition, edge) for each in portion]
        answers = self._client.consumer.offsets_for_times(asked, timeout=self._timeout_s)
        self._client.consumer.poll(0)  # what the client has to say would pile up
        return {
            TopicPartition(each.topic, each.partition): each.offset
            for each in answers
            if each.error is None and each.offset >= 0
        }


def portions(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """The partitions in pieces of the size that one request is best at."""
    for first in range(0, len(partitions), PORTION):
        yield partitions[first : first + PORTION]
