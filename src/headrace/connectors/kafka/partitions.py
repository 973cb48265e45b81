"""Partitions of topics, and the names that lanes have by them.

Outside of this room a lane is a name (``model/lane_names.py``); Kafka and its client want a topic
and a number. Here one becomes the other, once, where the room is entered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import TopicMissing
from headrace.model.lane_names import taken_apart
from headrace.model.streams import Slice


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def by_partition(names: Iterable[str]) -> dict[TopicPartition, str]:
    """The partitions that have these names, with them; a name that none can have is left out."""
    return {
        TopicPartition(*found): name for name in names if (found := taken_apart(name)) is not None
    }


def partition_of(piece: Slice) -> TopicPartition:
    """Where a slice is read.

    Raises:
        TopicMissing: no partition has the name of its lane.
    """
    found = taken_apart(piece.lane.name)
    if found is None:
        raise TopicMissing(f"{piece.lane}: no partition is called {piece.lane.name!r}")
    return TopicPartition(*found)
