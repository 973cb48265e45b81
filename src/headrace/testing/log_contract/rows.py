"""What the suites write to a log, and how what they read is looked at.

The marks of records that were sent back are here as well, true ones and forged ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa

from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import (
    COUNT_HEADER,
    SEAL_HEADER,
    USE_CASE_HEADER,
    Message,
    sealed,
)
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports import SliceBatch
from headrace.testing.log_fake import Row

#: of the store that a reader under test belongs to
SEAL_KEY = b"the key of this store"


class Topics(Protocol):
    """How the suites write to the log they are run on."""

    def make(self, partitions: int = 1) -> str:
        """Make a topic nobody has used; return its name."""

    def write(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Write records durably."""

    def abort(self, topic: str, partition: int, records: int) -> None:
        """Write so many records in a transaction and abort it: one offset more is used up."""

    def expire(self, topic: str, partition: int, start: int) -> None:
        """Take away everything before ``start``."""

    def delete(self, name: str) -> None:
        """Delete it, and return when nobody finds it any more."""


def numbered(count: int, first: int = 0) -> list[Row]:
    """Rows whose value is their number and whose timestamp that many seconds after 1970."""
    return [
        Row(b"%d" % number, timestamp_ms=number * 1000) for number in range(first, first + count)
    ]


def sent_back(topic: str, use_case: str, partition: int = 0, seal_key: bytes = SEAL_KEY) -> Row:
    """A record as a redrive writes it for a use case."""
    message = Message(b"k", use_case.encode(), (("h", b"1"),))
    found = sealed(message, TopicPartition(topic, partition), use_case, 1, seal_key)
    return Row(found.value, found.key, found.headers)


def forged(topic: str) -> list[Row]:
    """Records that say they were sent back for another use case, written without the key."""
    true = sent_back(topic, "another")
    *said, (_, seal) = true.headers

    def saying(name: str, text: bytes) -> Row:
        changed = tuple((header, text if header == name else old) for header, old in true.headers)
        return replace(true, headers=changed)

    return [
        replace(true, headers=((USE_CASE_HEADER, b"another"),)),
        replace(true, headers=tuple(said)),
        replace(true, headers=(*true.headers, ("h", b"2"))),
        replace(true, headers=(*true.headers, (USE_CASE_HEADER, b"another"))),
        replace(true, value=b"of another record"),
        replace(true, key=None),
        saying(USE_CASE_HEADER, b"a third"),
        saying(COUNT_HEADER, b"3"),
        saying(SEAL_HEADER, b""),
        saying(SEAL_HEADER, (seal or b"")[::-1]),
        sent_back("another-topic", "another"),
        sent_back(topic, "another", partition=1),
        sent_back(topic, "another", seal_key=b"the key of another store"),
    ]


def piece(topic: str, start: int, until: int, partition: int = 0) -> Slice:
    """A slice to read."""
    return Slice(
        LaneId("contract", topic, named(topic, partition)),
        topic,
        place_at(start),
        place_at(until),
        epoch=1,
    )


def values(batches: Sequence[SliceBatch]) -> list[bytes | None]:
    """All values, in the order they came."""
    if not batches:
        return []
    found: list[bytes | None] = pa.concat_tables([batch.records for batch in batches])[
        "value"
    ].to_pylist()
    return found


def offsets(batch: SliceBatch) -> list[int]:
    """The offsets of one batch."""
    found: Any = batch.records["offset"].to_pylist()
    return list(found)


def failure(batches: Sequence[SliceBatch], topic: str) -> SliceError:
    """The one error among the batches, which must be of that topic."""
    (failed,) = [batch for batch in batches if batch.error is not None]
    assert failed.slice.topic == topic
    assert failed.last
    assert failed.error is not None
    return failed.error
