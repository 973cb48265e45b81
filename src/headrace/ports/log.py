"""What is in Kafka, and what time it is: all that a planning turn asks about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """The only source of time. Called anywhere in the cycle; never in planning or policies."""

    def now_s(self) -> float:
        """Seconds since 1970; may jump. For showing and for comparing with record timestamps."""

    def monotonic_s(self) -> float:
        """Seconds since some start; never goes back. For durations, budgets and leases."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What Kafka says of a topic."""

    #: new when the topic is made again under the same name
    topic_id: str
    partitions: tuple[int, ...]


class Log(Protocol):
    """What is in Kafka, without reading a record.

    Called from one thread, beside the turns and for nearly each of them. Each call is one round of
    requests for all names given. What cannot be had at this moment is left out of the answer,
    partition by partition, so that one leaderless partition delays nobody else.

    Raises:
        BrokerUnavailable: no broker answered at all.
    """

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and partitions of each topic that exists; a topic that does not is left out."""

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record a ``read_committed`` reader may see."""

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that retention has left."""

    def offsets_at(
        self, partitions: Collection[TopicPartition], timestamp_s: float
    ) -> dict[TopicPartition, int]:
        """The first offset whose record is not older; the end offset where there is none."""

    def doubt(self, partitions: Collection[TopicPartition]) -> None:
        """Forget who leads these: the next offsets are of whom the cluster says does now."""

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""
