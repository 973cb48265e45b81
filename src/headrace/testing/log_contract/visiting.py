"""How the suites of logs of unknown end write to a log, and visit its lanes.

What a visit gives at once is the log's own matter, and so nothing here counts visits: a lane is
visited until its log says that there is nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from headrace.model.places import OPEN, Place
from headrace.model.streams import LaneId, Slice
from headrace.ports import Log, SliceBatch
from headrace.testing.log_contract.reading import Read
from headrace.testing.log_contract.rows import values
from headrace.testing.log_fake import Row

#: visits after which a lane that nobody writes to is at its end
_MOST_VISITS = 100


class OpenTopics(Protocol):
    """How the suite writes to the log it is run on."""

    def make(self) -> str:
        """Make a topic of one lane that nobody has used; return its name."""

    def write(self, topic: str, lane: str, rows: Sequence[Row]) -> None:
        """Write records durably to a lane; a log may stamp them itself, and may have no headers."""

    def leave_gap(self, topic: str, lane: str) -> None:
        """Let a lane go on with a stretch without records, longer than one answer of the log is."""

    def expire(self, topic: str, lane: str, records: int) -> None:
        """Take away the first so many records of a lane."""

    def split(self, topic: str, lane: str) -> None:
        """Let two lanes take the records of one from now on."""


class Visit:
    """Visits a lane until it is at its end."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, piece: Slice, batch_records: int = 1000) -> list[list[SliceBatch]]:
        """The batches of each visit; each begins where the one before came to."""
        found: list[list[SliceBatch]] = []
        for _ in range(_MOST_VISITS):
            batches = self._read(piece, batch_records=batch_records)
            found.append(batches)
            last = batches[-1]
            assert last.error is None
            assert last.behind is not None
            if last.behind.caught_up:
                return found
            passed = sum(batch.records.num_rows for batch in batches)
            piece = replace(piece, from_offset=last.reached, ordinal=piece.ordinal + passed)
        raise AssertionError("visits that go on from one another never come to the end")


@pytest.fixture
def visit(read: Read) -> Visit:
    """Visits a lane until it is at its end."""
    return Visit(read)


def beginning(log: Log, topic: str, lane: str = "") -> Slice:
    """An open slice from where a lane begins."""
    name = lane or log.topics([topic])[topic].lanes[0]
    start = log.start_offsets([name])[name]
    where = LaneId("contract", topic, name)
    return Slice(where, topic, start, OPEN, 1, more=True, records=100, most_bytes=10**6)


def filled(topics: OpenTopics, log: Log, rows: Sequence[Row]) -> Slice:
    """An open slice of all of a lane that nobody has used, and that has these records now."""
    piece = beginning(log, topics.make())
    topics.write(piece.topic, piece.lane.name, rows)
    return piece


def all_of(visits: Sequence[Sequence[SliceBatch]]) -> list[bytes | None]:
    """All values of some visits, in the order they came."""
    return [value for batches in visits for value in values(batches)]


def end_of(visits: Sequence[Sequence[SliceBatch]]) -> Place:
    """Where the last of some visits came to."""
    return visits[-1][-1].reached
