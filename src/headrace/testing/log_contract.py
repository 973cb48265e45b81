"""The laws of a log and of a slice reader, as suites to run on an own one.

Offsets are easy to get wrong by one, and gaps, tombstones and deleted topics are rare enough that
nobody notices for months. So the promises of ``headrace.ports.Log`` and ``SliceReader`` are tests
here, run on the fake and on real Kafka alike. Derive a class whose name starts with ``Test``
and say how to write to the log::

    class TestMyReader(ReaderContract):
        def make_topic(self, partitions=1) -> str: ...
        def write(self, topic, partition, rows) -> None: ...
        def abort(self, topic, partition, records) -> None: ...
        def expire(self, topic, partition, start) -> None: ...
        def delete_topic(self, topic) -> None: ...
        def factory(self) -> ReaderFactory: ...
        def connections(self) -> Connections: ...

Brokers that go away are not played here: they need processes to kill.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import itertools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.connectors.kafka.seals import (
    COUNT_HEADER,
    SEAL_HEADER,
    USE_CASE_HEADER,
    Message,
    sealed,
)
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports import (
    RECORD_SCHEMA,
    Connections,
    Log,
    ReaderFactory,
    SliceBatch,
    SliceReader,
    TopicPartition,
)
from headrace.testing.log_fake import Row

#: of the store that a reader under test belongs to
SEAL_KEY = b"the key of this store"


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
        changed = tuple((each, text if each == name else old) for each, old in true.headers)
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


class Writable(ABC):
    """How a suite writes to the log it is run on."""

    @abstractmethod
    def make_topic(self, partitions: int = 1) -> str:
        """Make a topic nobody has used; return its name."""

    @abstractmethod
    def write(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Write records durably."""

    @abstractmethod
    def abort(self, topic: str, partition: int, records: int) -> None:
        """Write so many records in a transaction and abort it: one offset more is used up."""

    @abstractmethod
    def expire(self, topic: str, partition: int, start: int) -> None:
        """Take away everything before ``start``."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Delete it, and return when nobody finds it any more."""


class LogContract(Writable):
    """The laws of ``headrace.ports.Log``."""

    @abstractmethod
    def make_log(self) -> Log:
        """The log under test."""

    @contextmanager
    def log(self) -> Iterator[Log]:
        with closing(self.make_log()) as made:
            yield made

    def test_topics_that_exist_are_told_with_id_and_partitions(self) -> None:
        name = self.make_topic(partitions=3)
        with self.log() as log:
            found = log.topics([name, "nobody-made-this"])
        assert set(found) == {name}
        assert sorted(found[name].partitions) == [0, 1, 2]
        assert found[name].topic_id

    def test_two_topics_have_two_ids_and_an_id_stays(self) -> None:
        one, two = self.make_topic(), self.make_topic()
        with self.log() as log:
            ids = log.topics([one, two])
            assert ids[one].topic_id != ids[two].topic_id
            assert log.topics([one])[one] == ids[one]

    def test_end_is_the_offset_after_the_last_record(self) -> None:
        name = self.make_topic(partitions=2)
        self.write(name, 1, numbered(5))
        lanes = [TopicPartition(name, 0), TopicPartition(name, 1)]
        with self.log() as log:
            assert log.end_offsets(lanes) == {lanes[0]: 0, lanes[1]: 5}

    def test_start_is_the_first_offset_left(self) -> None:
        name = self.make_topic()
        self.write(name, 0, numbered(5))
        lane = TopicPartition(name, 0)
        with self.log() as log:
            assert log.start_offsets([lane]) == {lane: 0}
            self.expire(name, 0, 3)
            assert log.start_offsets([lane]) == {lane: 3}
            assert log.end_offsets([lane]) == {lane: 5}

    def test_offsets_of_an_aborted_transaction_count_to_the_end(self) -> None:
        name = self.make_topic()
        self.write(name, 0, numbered(2))
        self.abort(name, 0, records=3)
        lane = TopicPartition(name, 0)
        with self.log() as log:
            assert log.end_offsets([lane]) == {lane: 6}

    def test_offset_at_a_time_is_the_first_record_not_older(self) -> None:
        name = self.make_topic()
        self.write(name, 0, numbered(5, first=100))
        lane = TopicPartition(name, 0)
        with self.log() as log:
            assert log.offsets_at([lane], 102.0) == {lane: 2}
            assert log.offsets_at([lane], 102.5) == {lane: 3}
            assert log.offsets_at([lane], 0.0) == {lane: 0}

    def test_offset_after_the_last_record_is_the_end(self) -> None:
        name = self.make_topic()
        self.write(name, 0, numbered(5, first=100))
        lane = TopicPartition(name, 0)
        with self.log() as log:
            assert log.offsets_at([lane], 105.0) == {lane: 5}

    def test_what_is_not_there_is_left_out_and_the_rest_is_told(self) -> None:
        name = self.make_topic()
        self.write(name, 0, numbered(1))
        lane = TopicPartition(name, 0)
        strangers = [
            TopicPartition("nobody-made-this", 0),
            TopicPartition(name, 7),
            TopicPartition("not a name!", 0),
        ]
        with self.log() as log:
            assert log.end_offsets([lane, *strangers]) == {lane: 1}
            assert log.start_offsets([*strangers, lane]) == {lane: 0}
            assert log.offsets_at([*strangers, lane], 0.0) == {lane: 0}
            assert log.end_offsets(strangers) == {}

    def test_what_is_doubted_is_told_anew(self) -> None:
        lanes = [TopicPartition(self.make_topic(), 0) for _ in range(2)]
        self.write(lanes[0].topic, 0, numbered(3))
        with self.log() as log:
            for _ in range(2):
                log.doubt([lanes[0], TopicPartition("no.such.topic", 0)])
                assert log.end_offsets(lanes) == {lanes[0]: 3, lanes[1]: 0}
                assert log.start_offsets(lanes) == dict.fromkeys(lanes, 0)

    def test_nothing_asked_is_nothing_told(self) -> None:
        with self.log() as log:
            assert log.topics([]) == {}
            assert log.end_offsets([]) == {}
            assert log.offsets_at([], 1.0) == {}

    def test_a_deleted_topic_is_left_out(self) -> None:
        name = self.make_topic()
        with self.log() as log:
            assert name in log.topics([name])
            self.delete_topic(name)
            assert log.topics([name]) == {}


class ReaderContract(Writable):
    """The laws of ``headrace.ports.SliceReader``."""

    @abstractmethod
    def factory(self) -> ReaderFactory:
        """The factory under test."""

    @abstractmethod
    def connections(self) -> Connections:
        """What the factory needs; the key of seals is ``SEAL_KEY``."""

    @contextmanager
    def reader(self) -> Iterator[SliceReader]:
        made: ReaderFactory = pickle.loads(pickle.dumps(self.factory()))  # noqa: S301
        with closing(made.open(self.connections())) as reader:
            yield reader

    def read(self, *slices: Slice, batch_records: int = 1000) -> list[SliceBatch]:
        with self.reader() as reader:
            return list(reader.read(slices, batch_records))

    def test_exactly_the_range_is_read(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(10))
        assert values(self.read(piece(topic, 3, 7))) == [b"3", b"4", b"5", b"6"]

    def test_tables_have_the_columns_everybody_expects(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, [Row(b"v", b"k", (("h", b"1"),), timestamp_ms=1234)])
        (batch,) = self.read(piece(topic, 0, 1))
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

    def test_null_keys_tombstones_and_null_headers_stay_null(self) -> None:
        topic = self.make_topic()
        rows = [Row(None, b"k"), Row(b"", None), Row(b"v", b"", (("a", None), ("a", b"")))]
        self.write(topic, 0, rows)
        (batch,) = self.read(piece(topic, 0, 3))
        table = batch.records
        assert table["value"].to_pylist() == [None, b"", b"v"]
        assert table["key"].to_pylist() == [b"k", None, b""]
        assert table["headers"].to_pylist() == [
            None,
            None,
            [{"key": "a", "value": None}, {"key": "a", "value": b""}],
        ]

    def test_what_was_sent_back_for_another_use_case_is_read_and_not_given(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, [sent_back(topic, use_case) for use_case in ("contract", "another")])
        batches = self.read(piece(topic, 0, 2))
        assert values(batches) == [b"contract"]
        assert batches[-1].reached == 2

    def test_what_only_says_that_it_was_sent_back_is_hidden_from_nobody(self) -> None:
        topic = self.make_topic()
        rows = forged(topic)
        self.write(topic, 0, rows)
        (batch,) = self.read(piece(topic, 0, len(rows)))
        assert values([batch]) == [row.value for row in rows]

    def test_without_a_key_no_seal_is_believed(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, [sent_back(topic, "another")])
        keyless = replace(self.connections(), seal_key=b"")
        with closing(self.factory().open(keyless)) as reader:
            (batch,) = reader.read([piece(topic, 0, 1)], 10)
        assert values([batch]) == [b"another"]

    def test_batches_are_no_larger_than_asked_and_in_order(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(25))
        batches = self.read(piece(topic, 0, 25), batch_records=10)
        assert all(batch.records.num_rows <= 10 for batch in batches)
        assert values(batches) == [b"%d" % number for number in range(25)]

    def test_only_the_last_batch_says_so_and_reaches_the_end(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(20))
        batches = self.read(piece(topic, 0, 20), batch_records=10)
        assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]
        assert batches[-1].reached == 20

    def test_reached_never_passes_a_record_not_given_yet(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(30))
        batches = self.read(piece(topic, 0, 30), batch_records=7)
        for batch, following in itertools.pairwise(batches):
            assert max(offsets(batch)) < batch.reached
            assert all(offset >= batch.reached for offset in offsets(following))

    def test_a_large_slice_arrives_whole(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(30_000))
        batches = self.read(piece(topic, 1, 29_999), batch_records=4000)
        assert values(batches) == [b"%d" % number for number in range(1, 29_999)]

    def test_slices_come_one_after_the_other(self) -> None:
        topic = self.make_topic(partitions=5)
        for partition in range(5):
            self.write(topic, partition, numbered(30))
        pieces = [piece(topic, 0, 30, partition) for partition in range(5)]
        batches = self.read(*pieces, batch_records=10)
        came = [key for key, _ in itertools.groupby(batches, lambda batch: batch.slice)]
        assert sorted(came, key=lambda each: each.lane) == pieces
        assert sum(batch.last for batch in batches) == 5

    def test_two_slices_of_one_lane_are_both_read(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(10))
        batches = self.read(piece(topic, 0, 4), piece(topic, 4, 8))
        assert sorted(offset for batch in batches for offset in offsets(batch)) == list(range(8))

    def test_no_slices_give_no_batches(self) -> None:
        assert self.read() == []

    def test_an_empty_slice_is_complete_at_once(self) -> None:
        topic = self.make_topic()
        (batch,) = self.read(piece(topic, 0, 0))
        assert (batch.last, batch.reached, batch.error) == (True, 0, None)

    def test_a_slice_that_ends_in_a_gap_at_the_end_of_the_log_is_complete(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(3))
        self.abort(topic, 0, records=2)
        batches = self.read(piece(topic, 0, 6))
        assert values(batches) == [b"0", b"1", b"2"]
        assert (batches[-1].reached, batches[-1].error) == (6, None)

    def test_a_slice_that_ends_in_a_gap_before_more_records_is_complete(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(3))
        self.abort(topic, 0, records=2)
        self.write(topic, 0, numbered(3, first=6))
        batches = self.read(piece(topic, 1, 5))
        assert values(batches) == [b"1", b"2"]
        assert (batches[-1].reached, batches[-1].error) == (5, None)

    def test_a_slice_wholly_in_a_gap_is_empty_and_complete(self) -> None:
        topic = self.make_topic()
        self.abort(topic, 0, records=4)
        self.write(topic, 0, numbered(1, first=5))
        (batch,) = self.read(piece(topic, 1, 3))
        assert (batch.records.num_rows, batch.reached, batch.error) == (0, 3, None)

    def test_a_gap_in_the_middle_is_passed_over(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(2))
        self.abort(topic, 0, records=2)
        self.write(topic, 0, numbered(2, first=5))
        batches = self.read(piece(topic, 0, 7), batch_records=2)
        assert values(batches) == [b"0", b"1", b"5", b"6"]
        assert [offset for batch in batches for offset in offsets(batch)] == [0, 1, 5, 6]

    def test_an_offset_that_retention_took_fails_alone_and_names_the_bounds(self) -> None:
        expired, sound = self.make_topic(), self.make_topic()
        self.write(expired, 0, numbered(10))
        self.write(sound, 0, numbered(10))
        self.expire(expired, 0, 6)
        batches = self.read(piece(expired, 2, 8), piece(sound, 0, 10))
        error = failure(batches, expired)
        assert (error.code, error.temporary) == ("OffsetOutOfRange", False)
        assert "6..10" in error.message
        assert len(values(batches)) == 10

    def test_a_topic_that_is_not_there_fails_alone(self) -> None:
        missing, sound = self.make_topic(), self.make_topic()
        self.delete_topic(missing)
        self.write(sound, 0, numbered(10))
        batches = self.read(piece(missing, 0, 5), piece(sound, 0, 10))
        error = failure(batches, missing)
        assert (error.code, error.temporary) == ("TopicMissing", False)
        assert len(values(batches)) == 10

    def test_a_partition_that_is_not_there_fails_alone(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(3))
        batches = self.read(piece(topic, 0, 5, partition=9), piece(topic, 0, 3))
        assert [batch.error.code for batch in batches if batch.error] == ["TopicMissing"]
        assert len(values(batches)) == 3

    def test_closing_early_leaves_the_reader_usable(self) -> None:
        topic = self.make_topic(partitions=2)
        self.write(topic, 0, numbered(50))
        self.write(topic, 1, numbered(50))
        with self.reader() as reader:
            begun = reader.read([piece(topic, 0, 50), piece(topic, 0, 50, 1)], 10)
            next(iter(begun))
            begun.close()  # type: ignore[attr-defined]
            again = list(reader.read([piece(topic, 5, 10)], 10))
        assert values(again) == [b"5", b"6", b"7", b"8", b"9"]

    def test_a_reader_reads_again_and_again(self) -> None:
        topic = self.make_topic()
        self.write(topic, 0, numbered(10))
        with self.reader() as reader:
            for _ in range(3):
                assert len(values(list(reader.read([piece(topic, 0, 10)], 10)))) == 10


def piece(topic: str, start: int, until: int, partition: int = 0) -> Slice:
    """A slice to read."""
    return Slice(LaneId("contract", topic, partition), topic, start, until, epoch=1)


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
