"""What every reader must give of a range that is there, as tests; for ``SliceReader``.

Exactly the range, in order, in batches that say how far they reach, and no record that was sent
back for somebody else.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import replace

import pytest

from headrace.model.places import place_at
from headrace.model.streams import Slice
from headrace.model.topic_lists import listed
from headrace.ports import RECORD_SCHEMA, Connections, ReaderFactory, SliceBatch, SliceReader
from headrace.testing.log_contract.rows import (
    Topics,
    forged,
    numbered,
    offsets,
    piece,
    sent_back,
    values,
)
from headrace.testing.log_fake import Row

#: reads slices, in batches of at most so many records
Read = Callable[..., list[SliceBatch]]
#: opens a reader; as a context it is closed after
OpenReader = Callable[[], AbstractContextManager[SliceReader]]


@pytest.fixture
def open_reader(reader_factory: ReaderFactory, connections: Connections) -> OpenReader:
    """Opens one as a task does, where the factory arrives by value."""

    def opened() -> AbstractContextManager[SliceReader]:
        factory: ReaderFactory = pickle.loads(pickle.dumps(reader_factory))  # noqa: S301
        return closing(factory.open(connections))

    return opened


@pytest.fixture
def read(open_reader: OpenReader) -> Read:
    """Reads slices to their ends."""

    def all_batches(*slices: Slice, batch_records: int = 1000) -> list[SliceBatch]:
        with open_reader() as reader:
            return list(reader.read(slices, batch_records))

    return all_batches


class TestReader:
    """The laws of ``headrace.ports.SliceReader``, where all is there."""

    def test_exactly_the_range_is_read(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(10))
        assert values(read(piece(topic, 3, 7))) == [b"3", b"4", b"5", b"6"]

    def test_tables_have_the_columns_everybody_expects(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, [Row(b"v", b"k", (("h", b"1"),), timestamp_ms=1234)])
        (batch,) = read(piece(topic, 0, 1))
        assert batch.records.schema.equals(RECORD_SCHEMA)
        (row,) = batch.records.to_pylist()
        assert row["timestamp"].timestamp() == 1.234
        del row["timestamp"]
        assert row == {
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "key": b"k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}],
        }

    def test_of_a_list_each_record_says_of_which_topic_it_is(
        self, topics: Topics, read: Read
    ) -> None:
        one, two = topics.make(), topics.make()
        topics.write(one, 0, [Row(b"1"), sent_back(one, "contract"), sent_back(one, "another")])
        topics.write(two, 0, [Row(b"2"), sent_back(two, "contract"), sent_back(two, "another")])
        both = listed([one, two])
        batches = read(*(replace(piece(topic, 0, 3), topic=both) for topic in (one, two)))
        found = [row for batch in batches for row in batch.records.to_pylist()]
        assert {(row["topic"], row["value"]) for row in found} == {
            (one, b"1"),
            (one, b"contract"),
            (two, b"2"),
            (two, b"contract"),
        }

    def test_null_keys_tombstones_and_null_headers_stay_null(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        rows = [Row(None, b"k"), Row(b"", None), Row(b"v", b"", (("a", None), ("a", b"")))]
        topics.write(topic, 0, rows)
        (batch,) = read(piece(topic, 0, 3))
        table = batch.records
        assert table["value"].to_pylist() == [None, b"", b"v"]
        assert table["key"].to_pylist() == [b"k", None, b""]
        assert table["headers"].to_pylist() == [
            None,
            None,
            [{"key": "a", "value": None}, {"key": "a", "value": b""}],
        ]

    def test_what_was_sent_back_for_another_use_case_is_read_and_not_given(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, [sent_back(topic, use_case) for use_case in ("contract", "another")])
        batches = read(piece(topic, 0, 2))
        assert values(batches) == [b"contract"]
        assert batches[-1].reached == 2

    def test_what_only_says_that_it_was_sent_back_is_hidden_from_nobody(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        rows = forged(topic)
        topics.write(topic, 0, rows)
        (batch,) = read(piece(topic, 0, len(rows)))
        assert values([batch]) == [row.value for row in rows]

    def test_without_a_key_no_seal_is_believed(
        self, topics: Topics, reader_factory: ReaderFactory, connections: Connections
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, [sent_back(topic, "another")])
        keyless = replace(connections, seal_key=b"")
        with closing(reader_factory.open(keyless)) as reader:
            (batch,) = reader.read([piece(topic, 0, 1)], 10)
        assert values([batch]) == [b"another"]

    def test_batches_are_no_larger_than_asked_and_in_order(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(25))
        batches = read(piece(topic, 0, 25), batch_records=10)
        assert all(batch.records.num_rows <= 10 for batch in batches)
        assert values(batches) == [b"%d" % number for number in range(25)]

    def test_only_the_last_batch_says_so_and_reaches_the_end(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(20))
        batches = read(piece(topic, 0, 20), batch_records=10)
        assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]
        assert batches[-1].reached == 20

    def test_reached_never_passes_a_record_not_given_yet(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(30))
        batches = read(piece(topic, 0, 30), batch_records=7)
        for batch, following in itertools.pairwise(batches):
            assert place_at(max(offsets(batch))) < batch.reached
            assert all(place_at(offset) >= batch.reached for offset in offsets(following))

    def test_a_large_slice_arrives_whole(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(30_000))
        batches = read(piece(topic, 1, 29_999), batch_records=4000)
        assert values(batches) == [b"%d" % number for number in range(1, 29_999)]

    def test_slices_come_one_after_the_other(self, topics: Topics, read: Read) -> None:
        topic = topics.make(partitions=5)
        for partition in range(5):
            topics.write(topic, partition, numbered(30))
        pieces = [piece(topic, 0, 30, partition) for partition in range(5)]
        batches = read(*pieces, batch_records=10)
        came = [key for key, _ in itertools.groupby(batches, lambda batch: batch.slice)]
        assert sorted(came, key=lambda piece: piece.lane) == pieces
        assert sum(batch.last for batch in batches) == 5

    def test_two_slices_of_one_lane_are_both_read(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(10))
        batches = read(piece(topic, 0, 4), piece(topic, 4, 8))
        assert sorted(offset for batch in batches for offset in offsets(batch)) == list(range(8))

    def test_a_name_that_the_log_gave_to_no_lane_fails_alone(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(10))
        there = piece(topic, 0, 4)
        strange = [
            replace(there, lane=there.lane._replace(name=name)) for name in (f"{topic}[00]", topic)
        ]
        batches = read(*strange, there)
        assert values([batch for batch in batches if batch.slice == there]) == [
            b"%d" % number for number in range(4)
        ]
        found = [batch for batch in batches if batch.slice != there]
        assert [(batch.reached, batch.last) for batch in found] == [(place_at(0), True)] * 2
        errors = [batch.error for batch in found if batch.error is not None]
        assert [(error.code, error.temporary) for error in errors] == [("TopicMissing", False)] * 2

    def test_no_slices_give_no_batches(self, read: Read) -> None:
        assert read() == []

    def test_an_empty_slice_is_complete_at_once(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        (batch,) = read(piece(topic, 0, 0))
        assert (batch.last, batch.reached, batch.error) == (True, place_at(0), None)

    def test_closing_early_leaves_the_reader_usable(
        self, topics: Topics, open_reader: OpenReader
    ) -> None:
        topic = topics.make(partitions=2)
        topics.write(topic, 0, numbered(50))
        topics.write(topic, 1, numbered(50))
        with open_reader() as reader:
            begun = reader.read([piece(topic, 0, 50), piece(topic, 0, 50, 1)], 10)
            next(iter(begun))
            begun.close()  # type: ignore[attr-defined]
            again = list(reader.read([piece(topic, 5, 10)], 10))
        assert values(again) == [b"5", b"6", b"7", b"8", b"9"]

    def test_a_reader_reads_again_and_again(self, topics: Topics, open_reader: OpenReader) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(10))
        with open_reader() as reader:
            for _ in range(3):
                assert len(values(list(reader.read([piece(topic, 0, 10)], 10)))) == 10
