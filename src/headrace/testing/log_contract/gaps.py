"""What every reader must do where there is no record, as tests; for ``SliceReader``.

Aborted transactions leave gaps, retention takes what is oldest, and topics are deleted. A gap is
passed over without a word, what is lost is told of the slice alone that it was in.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from headrace.model.places import place_at
from headrace.testing.log_contract.reading import Read
from headrace.testing.log_contract.rows import Topics, failure, numbered, offsets, piece, values


class TestGaps:
    """The laws of ``headrace.ports.SliceReader``, where records are missing."""

    def test_a_slice_that_ends_in_a_gap_at_the_end_of_the_log_is_complete(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(3))
        topics.abort(topic, 0, records=2)
        batches = read(piece(topic, 0, 6))
        assert values(batches) == [b"0", b"1", b"2"]
        assert (batches[-1].reached, batches[-1].error) == (place_at(6), None)

    def test_a_slice_that_ends_in_a_gap_before_more_records_is_complete(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(3))
        topics.abort(topic, 0, records=2)
        topics.write(topic, 0, numbered(3, first=6))
        batches = read(piece(topic, 1, 5))
        assert values(batches) == [b"1", b"2"]
        assert (batches[-1].reached, batches[-1].error) == (place_at(5), None)

    def test_a_slice_wholly_in_a_gap_is_empty_and_complete(
        self, topics: Topics, read: Read
    ) -> None:
        topic = topics.make()
        topics.abort(topic, 0, records=4)
        topics.write(topic, 0, numbered(1, first=5))
        (batch,) = read(piece(topic, 1, 3))
        assert (batch.records.num_rows, batch.reached, batch.error) == (0, place_at(3), None)

    def test_a_gap_in_the_middle_is_passed_over(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(2))
        topics.abort(topic, 0, records=2)
        topics.write(topic, 0, numbered(2, first=5))
        batches = read(piece(topic, 0, 7), batch_records=2)
        assert values(batches) == [b"0", b"1", b"5", b"6"]
        assert [offset for batch in batches for offset in offsets(batch)] == [0, 1, 5, 6]

    def test_an_offset_that_retention_took_fails_alone_and_names_the_bounds(
        self, topics: Topics, read: Read
    ) -> None:
        expired, sound = topics.make(), topics.make()
        topics.write(expired, 0, numbered(10))
        topics.write(sound, 0, numbered(10))
        topics.expire(expired, 0, 6)
        batches = read(piece(expired, 2, 8), piece(sound, 0, 10))
        error = failure(batches, expired)
        assert (error.code, error.temporary) == ("OffsetOutOfRange", False)
        assert "6..10" in error.message
        assert len(values(batches)) == 10

    def test_a_topic_that_is_not_there_fails_alone(self, topics: Topics, read: Read) -> None:
        missing, sound = topics.make(), topics.make()
        topics.delete(missing)
        topics.write(sound, 0, numbered(10))
        batches = read(piece(missing, 0, 5), piece(sound, 0, 10))
        error = failure(batches, missing)
        assert (error.code, error.temporary) == ("TopicMissing", False)
        assert len(values(batches)) == 10

    def test_a_partition_that_is_not_there_fails_alone(self, topics: Topics, read: Read) -> None:
        topic = topics.make()
        topics.write(topic, 0, numbered(3))
        batches = read(piece(topic, 0, 5, partition=9), piece(topic, 0, 3))
        assert [batch.error.code for batch in batches if batch.error] == ["TopicMissing"]
        assert len(values(batches)) == 3
