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

`visiting.py` has the means, `open_records.py` the laws of what a record says.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace

from headrace.model.places import OPEN, place_at
from headrace.ports import Log
from headrace.testing.log_contract.open_records import TestOpenRecords
from headrace.testing.log_contract.reading import Read, open_reader, read
from headrace.testing.log_contract.rows import failure, numbered, values
from headrace.testing.log_contract.visiting import (
    OpenTopics,
    Visit,
    all_of,
    beginning,
    end_of,
    filled,
    visit,
)
from headrace.testing.log_fake import Row

__all__ = ["TestOpenRecords", "TestUnknownEnds", "open_reader", "read", "visit"]


class TestUnknownEnds:
    """The laws of logs and readers where only reading tells where a lane ends."""

    def test_it_says_so_of_all_lanes_that_are_there(self, topics: OpenTopics, log: Log) -> None:
        topic = topics.make()
        (lane,) = log.topics([topic])[topic].lanes
        assert not log.tells_ends
        assert log.end_offsets([lane, "nobody-gave-this-name"]) == {lane: OPEN}
        assert log.start_offsets([lane]).keys() == {lane}

    def test_two_topics_have_two_ids_and_an_id_stays(self, topics: OpenTopics, log: Log) -> None:
        one, two = topics.make(), topics.make()
        found = log.topics([one, two, "nobody-made-this"])
        assert found.keys() == {one, two}
        assert found[one].topic_id != found[two].topic_id
        assert not {*found[one].lanes} & {*found[two].lanes}
        assert log.topics([one])[one] == found[one]

    def test_nothing_asked_is_nothing_told(self, log: Log, read: Read) -> None:
        assert log.topics([]) == log.end_offsets([]) == log.start_offsets([]) == {}
        assert log.offsets_at([], 1.0) == {}
        assert read() == []

    def test_what_is_doubted_is_told_anew(self, topics: OpenTopics, log: Log) -> None:
        lane = filled(topics, log, numbered(1)).lane.name
        before = log.start_offsets([lane])
        log.doubt([lane, "nobody-gave-this-name"])
        assert log.start_offsets([lane]) == before

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
        piece = filled(topics, log, numbered(50))
        assert all_of(visit(piece)) == [b"%d" % number for number in range(50)]

    def test_visits_come_through_a_stretch_without_records(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        piece = beginning(log, topic)
        for number in range(3):
            topics.leave_gap(topic, piece.lane.name)
            topics.write(topic, piece.lane.name, numbered(1, first=number))
        topics.leave_gap(topic, piece.lane.name)
        assert all_of(visit(piece)) == [b"0", b"1", b"2"]

    def test_a_slice_has_no_more_records_than_it_says(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = replace(filled(topics, log, numbered(10)), records=3)
        visits = visit(piece)
        assert all(len(values(batches)) <= 3 for batches in visits)
        assert all_of(visits) == [b"%d" % number for number in range(10)]

    def test_a_slice_has_no_more_bytes_than_it_says_but_for_a_single_record(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        sizes = [10, 10, 10, 100, 10]
        rows = [Row(b"%d" % number * size) for number, size in enumerate(sizes)]
        piece = replace(filled(topics, log, rows), most_bytes=25)
        visits = visit(piece)
        assert all_of(visits) == [row.value for row in rows]
        for found in map(values, visits):
            assert len(found) <= 1 or sum(len(value or b"") for value in found) <= 25

    def test_what_comes_later_is_found_from_where_the_last_visit_came_to(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, numbered(4))
        after = replace(piece, from_offset=end_of(visit(piece)))
        assert all_of(visit(after)) == []
        topics.write(piece.topic, piece.lane.name, numbered(3, first=4))
        assert all_of(visit(after)) == [b"4", b"5", b"6"]

    def test_what_was_read_can_be_read_again_exactly(
        self, topics: OpenTopics, log: Log, visit: Visit, read: Read
    ) -> None:
        piece = filled(topics, log, numbered(4))
        until = end_of(visit(piece))
        topics.write(piece.topic, piece.lane.name, numbered(3, first=4))
        (*_, last) = again = read(replace(piece, until_offset=until, records=4))
        assert values(again) == [b"0", b"1", b"2", b"3"]
        assert (last.reached, last.last, last.error, last.behind) == (until, True, None, None)

    def test_only_the_last_batch_says_what_is_behind(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        piece = filled(topics, log, numbered(20))
        *others, last = read(piece, batch_records=7)
        assert all(batch.records.num_rows <= 7 for batch in (*others, last))
        assert [(batch.last, batch.behind) for batch in others] == [(False, None)] * len(others)
        assert last.last
        assert last.behind is not None

    def test_a_sealed_lane_ends_where_those_that_follow_it_say(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, numbered(4))
        topics.split(piece.topic, piece.lane.name)
        visits = visit(piece)
        assert all_of(visits) == [b"0", b"1", b"2", b"3"]
        behind = visits[-1][-1].behind
        assert behind is not None
        assert behind.sealed
        parents = log.topics([piece.topic])[piece.topic].parents
        ends = {parent for followed in parents.values() for parent in followed}
        assert {parent.lane for parent in ends} == {piece.lane.name}
        assert {parent.until for parent in ends} == {end_of(visits)}

    def test_lanes_are_read_one_by_one_and_one_that_is_not_there_fails_alone(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        pieces = [filled(topics, log, numbered(5)) for _ in range(2)]
        strange = pieces[0].lane._replace(name="nobody-gave-this-name", tenant="strange")
        missing = replace(pieces[0], lane=strange, topic="strange")
        batches = read(*pieces, missing)
        error = failure(batches, "strange")
        assert (error.code, error.temporary) == ("TopicMissing", False)
        assert sum(batch.last for batch in batches) == 3

    def test_a_place_that_retention_took_fails_alone_and_where_to_go_on_is_told(
        self, topics: OpenTopics, log: Log, read: Read, visit: Visit
    ) -> None:
        old = filled(topics, log, numbered(10))
        topics.expire(old.topic, old.lane.name, 6)
        error = failure(read(old, beginning(log, topics.make())), old.topic)
        assert (error.code, error.temporary) == ("OffsetOutOfRange", False)
        told = log.start_offsets([old.lane.name]) if log.tells_starts else {}
        on_at = told.get(old.lane.name, error.goes_on_at)
        assert on_at is not None
        assert on_at > old.from_offset
        assert all_of(visit(replace(old, from_offset=on_at))) == [b"6", b"7", b"8", b"9"]

    def test_places_are_told_apart_and_ordered(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = replace(filled(topics, log, numbered(3)), records=1)
        reached = [batches[-1].reached for batches in visit(piece)]
        assert sorted(reached) == reached
        assert place_at(0) <= piece.from_offset < reached[-1] < OPEN
