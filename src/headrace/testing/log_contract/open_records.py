"""What records say of themselves where only reading tells where lanes end, as tests.

Of such a log a record's place may be too wide for a column of 64 bits, and its number is counted.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import itertools
from dataclasses import replace

from headrace.model.places import OPEN
from headrace.ports import RECORD_SCHEMA, Log
from headrace.ports.reading import PLACE_COLUMN
from headrace.spark.row_places import place_of_row, without_places
from headrace.testing.log_contract.reading import OpenReader, Read
from headrace.testing.log_contract.rows import numbered, offsets, values
from headrace.testing.log_contract.visiting import (
    OpenTopics,
    Visit,
    all_of,
    beginning,
    end_of,
    filled,
)
from headrace.testing.log_fake import Row


class TestOpenRecords:
    """The laws of what a reader hands out of a lane whose end only reading tells."""

    def test_tables_have_the_columns_everybody_expects(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, [Row(b"v", b"k", (("h", b"1"),), 1234)])
        batches = [batch for visits in visit(piece) for batch in visits]
        assert all(without_places(it.records).schema.equals(RECORD_SCHEMA) for it in batches)
        (row,) = itertools.chain(*(batch.records.to_pylist() for batch in batches))
        assert (row["topic"], row["key"], row["value"]) == (piece.topic, b"k", b"v")
        assert row["headers"] in (None, [{"key": "h", "value": b"1"}])

    def test_a_record_is_where_it_says(self, topics: OpenTopics, log: Log, visit: Visit) -> None:
        piece = filled(topics, log, numbered(5))
        found = [batch.records for batches in visit(piece) for batch in batches]
        places = [place_of_row(table, row) for table in found for row in range(table.num_rows)]
        for number, place in enumerate(places):
            assert all_of(visit(replace(piece, from_offset=place))) == [
                b"%d" % later for later in range(number, 5)
            ]

    def test_it_ends_where_its_log_says(
        self, topics: OpenTopics, log: Log, visit: Visit, read: Read
    ) -> None:
        piece = filled(topics, log, numbered(3))
        tables = [batch.records for batches in visit(piece) for batch in batches]
        place = next(place_of_row(table, 0) for table in tables if table.num_rows)
        behind = log.places.behind(place)
        assert values(read(replace(piece, from_offset=place, until_offset=behind))) == [b"0"]

    def test_every_batch_says_how_far_it_came(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, numbered(7))
        batches = [batch for found in visit(piece, batch_records=2) for batch in found]
        assert all(batch.records.num_rows <= 2 for batch in batches)
        before = piece.from_offset
        for batch in batches:
            places = [place_of_row(batch.records, row) for row in range(batch.records.num_rows)]
            assert [before, *places] == sorted([before, *places])
            assert all(place < batch.reached for place in places)
            before = batch.reached

    def test_what_has_a_place_of_its_own_is_numbered_from_where_its_slice_says(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = replace(filled(topics, log, numbered(5)), ordinal=7)
        batches = [batch for found in visit(piece, batch_records=2) for batch in found]
        placed = [PLACE_COLUMN in batch.records.schema.names for batch in batches]
        assert all(placed) or not any(placed)
        if all(placed):
            numbers = [number for batch in batches for number in offsets(batch)]
            assert numbers == [7, 8, 9, 10, 11]

    def test_at_a_time_is_the_first_that_is_not_older(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, numbered(5, first=100))
        lane = piece.lane.name
        tables = [batch.records for batches in visit(piece) for batch in batches]
        rows = [row for table in tables for row in table.to_pylist()]
        times = [row["timestamp"].timestamp() for row in rows]
        assert len(times) == 5
        for time_s in times:
            begin = replace(piece, from_offset=log.offsets_at([lane], time_s)[lane])
            assert len(all_of(visit(begin))) == sum(told_s >= time_s for told_s in times)
        later_s = max(times) + 0.5
        told = log.offsets_at([lane, "nobody-gave-this-name"], later_s)
        assert told.keys() == {lane}
        if told[lane] == OPEN:
            return  # nobody begins there
        begin = replace(piece, from_offset=told[lane])
        assert all_of(visit(begin)) == []
        topics.write(piece.topic, lane, numbered(2, first=200))
        assert all_of(visit(begin)) == [b"200", b"201"]

    def test_a_lane_begins_with_the_first_that_retention_left(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        piece = filled(topics, log, numbered(5))
        topics.expire(piece.topic, piece.lane.name, 2)
        assert all_of(visit(beginning(log, piece.topic))) == [b"2", b"3", b"4"]

    def test_lanes_that_follow_have_what_comes_after(
        self, topics: OpenTopics, log: Log, visit: Visit
    ) -> None:
        topic = topics.make()
        (parent,) = log.topics([topic])[topic].lanes
        topics.split(topic, parent)
        info = log.topics([topic])[topic]
        assert len(info.parents) == 2
        assert {*info.parents, parent} == {*info.lanes}
        for number, lane in enumerate(info.parents):
            topics.write(topic, lane, numbered(2, first=number))
            found = all_of(visit(beginning(log, topic, lane)))
            assert found == [b"%d" % number, b"%d" % (number + 1)]

    def test_an_empty_slice_is_complete_at_once(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        piece = filled(topics, log, numbered(2))
        (batch,) = read(replace(piece, until_offset=piece.from_offset))
        assert (batch.records.num_rows, batch.last, batch.error) == (0, True, None)
        assert (batch.reached, batch.behind) == (piece.from_offset, None)

    def test_slices_come_one_after_the_other(
        self, topics: OpenTopics, log: Log, read: Read
    ) -> None:
        pieces = [filled(topics, log, numbered(5)) for _ in range(3)]
        batches = read(*pieces, batch_records=2)
        came = [piece for piece, _ in itertools.groupby(batches, lambda batch: batch.slice)]
        assert sorted(came, key=pieces.index) == pieces
        assert [batch.last for batch in batches].count(True) == 3

    def test_a_reader_reads_again_also_after_it_was_closed_early(
        self, topics: OpenTopics, log: Log, visit: Visit, open_reader: OpenReader
    ) -> None:
        piece = filled(topics, log, numbered(5))
        known = replace(piece, until_offset=end_of(visit(piece)), records=5)
        with open_reader() as reader:
            begun = reader.read([known], 2)
            next(iter(begun))
            begun.close()  # type: ignore[attr-defined]
            for _ in range(3):
                assert values(list(reader.read([known], 2))) == [b"0", b"1", b"2", b"3", b"4"]
