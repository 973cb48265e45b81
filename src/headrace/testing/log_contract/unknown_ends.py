"""What a log and a reader must do where only reading tells where lanes end, as tests.

Such a log has a suite of its own: nothing of `headrace.testing.log_contract` that asks for ends
holds there, and its places may be of any width, so they are only ever passed on. A test module
takes the suite in and says what log it is for::

    from headrace.testing.log_contract.unknown_ends import *

    @pytest.fixture
    def topics(): ...          # how to write to it: ``OpenTopics``

    @pytest.fixture
    def log(topics): ...       # the log itself, closed after

    @pytest.fixture
    def reader_factory(topics): ...

    @pytest.fixture
    def connections(topics): ...

What a visit gives at once is the log's own matter, and so nothing here counts visits: a lane is
visited until its log says that there is nothing more.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from headrace.model.places import OPEN, Place, place_at
from headrace.model.streams import LaneId, Slice
from headrace.ports import Log, SliceBatch
from headrace.testing.log_contract.reading import Read, open_reader, read
from headrace.testing.log_contract.rows import failure, numbered, values
from headrace.testing.log_fake import Row

__all__ = ["TestUnknownEnds", "open_reader", "read", "visit"]

#: visits after which a lane that nobody writes to is at its end
_MOST_VISITS = 100


class OpenTopics(Protocol):
    """How the suite writes to the log it is run on."""

    def make(self) -> str:
        """Make a topic of one lane that nobody has used; return its name."""

    def write(self, topic: str, lane: str, rows: Sequence[Row]) -> None:
        """Write records durably to a lane."""

    def expire(self, topic: str, lane: str, records: int) -> None:
        """Take away the first so many records of a lane."""

    def split(self, topic: str, lane: str) -> None:
        """Let two lanes take the records of one from now on."""


class Visit:
    """Visits a lane until it is at its end."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def __call__(self, piece: Slice) -> list[list[SliceBatch]]:
        """The batches of each visit; each begins where the one before came to."""
        found: list[list[SliceBatch]] = []
        for _ in range(_MOST_VISITS):
            batches = self._read(piece)
            found.append(batches)
            last = batches[-1]
            assert last.error is None
            assert last.behind is not None
            if last.behind.caught_up:
                return found
            piece = replace(piece, from_offset=last.reached)
        raise AssertionError("it never says that there is nothing more")


@pytest.fixture
def visit(read: Read) -> Visit:
    """Visits a lane until it is at its end."""
    return Visit(read)


def beginning(log: Log, topic: str, lane: str = "", *, records: int = 100) -> Slice:
    """An open slice from where a lane begins."""
    name = lane or log.topics([topic])[topic].lanes[0]
    start = log.start_offsets([name])[name]
    where = LaneId("contract", topic, name)
    return Slice(where, topic, start, OPEN, 1, more=True, records=records, most_bytes=10**6)


def all_of(visits: Sequence[Sequence[SliceBatch]]) -> list[bytes | None]:
    """All values of some visits, in the order they came."""
    return [value for batches in visits for value in values(batches)]


def end_of(visits: Sequence[Sequence[SliceBatch]]) -> Place:
    """Where the last of some visits came to."""
    return visits[-1][-1].reached


class TestUnknownEnds:
    """The laws of logs and readers where only reading tells where a lane ends."""

    def test_it_says_so_of_all_lanes_that_are_there(self, topics: OpenTopics, log: Log) -> None:
        topic = topics.make()
        (lane,) = log.topics([topic])[topic].lanes
        assert not log.tells_ends
        assert log.end_offsets([lane, "nobody-gave-this-name"]) == {lane: OPEN}
        assert log.start_offsets([lane]).keys() == {lane}

    def test_at_a_time_is_the_first_record_not_older_and_after_the_last_nobody_knows(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        lane = piece.lane.name
        topics.write(topic, lane, numbered(5, first=100))
        for time_s, first in ((0.0, 0), (102.0, 2), (102.5, 3)):
            begin = replace(piece, from_offset=log.offsets_at([lane], time_s)[lane])
            assert all_of(visit(begin)) == [b"%d" % (100 + number) for number in range(first, 5)]
        assert log.offsets_at([lane, "nobody-gave-this-name"], 105.0) == {lane: OPEN}

    def test_a_lane_without_records_has_nothing_more(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = beginning(log, topics.make())
        visits = visit(piece)
        assert all_of(visits) == []
        assert end_of(visits) >= piece.from_offset

    def test_all_that_is_there_comes_once_and_in_order(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        topics.write(topic, piece.lane.name, numbered(50))
        assert all_of(visit(piece)) == [b"%d" % number for number in range(50)]

    def test_a_slice_has_no_more_records_than_it_says(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic, records=3)
        topics.write(topic, piece.lane.name, numbered(10))
        visits = visit(piece)
        assert all(len(values(batches)) <= 3 for batches in visits)
        assert all_of(visits) == [b"%d" % number for number in range(10)]

    def test_a_slice_has_no_more_bytes_than_it_says_but_for_a_single_record(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = replace(beginning(log, topic), most_bytes=25)
        sizes = [10, 10, 10, 100, 10]
        rows = [Row(b"%d" % number * size) for number, size in enumerate(sizes)]
        topics.write(topic, piece.lane.name, rows)
        visits = visit(piece)
        assert all_of(visits) == [row.value for row in rows]
        for found in map(values, visits):
            assert len(found) <= 1 or sum(len(value or b"") for value in found) <= 25

    def test_what_comes_later_is_found_from_where_the_last_visit_came_to(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        topics.write(topic, piece.lane.name, numbered(4))
        after = replace(piece, from_offset=end_of(visit(piece)))
        assert all_of(visit(after)) == []
        topics.write(topic, piece.lane.name, numbered(3, first=4))
        assert all_of(visit(after)) == [b"4", b"5", b"6"]

    def test_what_was_read_can_be_read_again_exactly(
        self, topics: OpenTopics, log: Log, visit: Visit, read: Read
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        topics.write(topic, piece.lane.name, numbered(4))
        until = end_of(visit(piece))
        topics.write(topic, piece.lane.name, numbered(3, first=4))
        (*_, last) = again = read(replace(piece, until_offset=until, records=4))
        assert values(again) == [b"0", b"1", b"2", b"3"]
        assert (last.reached, last.last, last.error, last.behind) == (until, True, None, None)

    def test_only_the_last_batch_says_what_is_behind(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        topics.write(topic, piece.lane.name, numbered(20))
        *others, last = read(piece, batch_records=7)
        assert all(batch.records.num_rows <= 7 for batch in (*others, last))
        assert [(batch.last, batch.behind) for batch in others] == [(False, None)] * len(others)
        assert last.last
        assert last.behind is not None

    def test_a_sealed_lane_ends_where_those_that_follow_it_say(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        topics.write(topic, piece.lane.name, numbered(4))
        topics.split(topic, piece.lane.name)
        visits = visit(piece)
        assert all_of(visits) == [b"0", b"1", b"2", b"3"]
        behind = visits[-1][-1].behind
        assert behind is not None
        assert behind.sealed
        parents = log.topics([topic])[topic].parents
        ends = {parent for followed in parents.values() for parent in followed}
        assert {parent.lane for parent in ends} == {piece.lane.name}
        assert {parent.until for parent in ends} == {end_of(visits)}

    def test_lanes_are_read_one_by_one_and_one_that_is_not_there_fails_alone(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        one, other = topics.make(), topics.make()
        pieces = [beginning(log, one), beginning(log, other)]
        for piece in pieces:
            topics.write(piece.topic, piece.lane.name, numbered(5))
        strange = pieces[0].lane._replace(name="nobody-gave-this-name", tenant="strange")
        missing = replace(pieces[0], lane=strange, topic="strange")
        batches = read(*pieces, missing)
        error = failure(batches, "strange")
        assert (error.code, error.temporary) == ("TopicMissing", False)
        assert sum(batch.last for batch in batches) == 3

    def test_a_place_that_retention_took_fails_alone(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        topic, sound = topics.make(), topics.make()
        old, piece = beginning(log, topic), beginning(log, sound)
        for begin in (old, piece):
            topics.write(begin.topic, begin.lane.name, numbered(10))
        topics.expire(topic, old.lane.name, 6)
        assert log.start_offsets([old.lane.name])[old.lane.name] > old.from_offset
        error = failure(read(old, piece), topic)
        assert (error.code, error.temporary) == ("OffsetOutOfRange", False)

    def test_places_are_told_apart_and_ordered(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic, records=1)
        topics.write(topic, piece.lane.name, numbered(3))
        reached = [batches[-1].reached for batches in visit(piece)]
        assert sorted(reached) == reached
        assert place_at(0) <= piece.from_offset < reached[-1] < OPEN
