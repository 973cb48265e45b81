"""What any Kinesis does, as tests: the fake, and a server that plays the service.

A fake that is kinder than the service proves nothing, and one that nobody holds against anything
else becomes so. So what readers build on is a law here, told in calls of Amazon's client. A test
module takes the suite in and says what service it is for::

    from headrace.testing.kinesis.contract import *

    @pytest.fixture
    def service(): ...         # ``Service``

What needs a day, or five minutes, is not here.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from headrace.connectors.kinesis.shards import Shard, ShardOf, misplaced_keys, read_shard

__all__ = ["Service", "TestReshards", "TestService"]

_MIDDLE = 2**127
#: answers after which a shard that nobody writes to is at its end
_MOST_ANSWERS = 200


@dataclass
class Service:
    """A service under test, and how the suite speaks to it."""

    #: Amazon's client, or what is called as it is
    client: Any
    #: lets so many seconds pass
    wait: Callable[[float], None]
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def make(self, shards: int = 1) -> str:
        """Make a stream nobody has used; return its name."""
        name = f"stream-{id(self)}-{next(self._numbers)}"
        self.client.create_stream(StreamName=name, ShardCount=shards)
        self.settle(name)
        return name

    def settle(self, stream: str) -> None:
        """Wait until it is not being changed any more."""
        for _ in range(200):
            if self.summary(stream)["StreamStatus"] == "ACTIVE":
                return
            self.wait(0.05)
        raise AssertionError(f"{stream} does not become active")

    def summary(self, stream: str) -> dict[str, Any]:
        """What is said of it."""
        told = self.client.describe_stream_summary(StreamName=stream)
        found: dict[str, Any] = told["StreamDescriptionSummary"]
        return found

    def shards(self, stream: str) -> list[Shard]:
        """All that are listed."""
        return [read_shard(told) for told in self.client.list_shards(StreamName=stream)["Shards"]]

    def put(self, stream: str, *values: bytes, hash_key: int = 0, key: str = "k") -> list[int]:
        """Write records to the shard that has this hash key; return their numbers."""
        return [
            int(
                self.client.put_record(
                    StreamName=stream, Data=value, PartitionKey=key, ExplicitHashKey=str(hash_key)
                )["SequenceNumber"]
            )
            for value in values
        ]

    def split(self, stream: str, number: int = 0, middle: int = _MIDDLE) -> None:
        """Divide a shard."""
        self.client.split_shard(
            StreamName=stream,
            ShardToSplit=f"shardId-{number:012}",
            NewStartingHashKey=str(middle),
        )
        self.settle(stream)

    def merge(self, stream: str, one: int, other: int) -> None:
        """Make one of two shards."""
        self.client.merge_shards(
            StreamName=stream,
            ShardToMerge=f"shardId-{one:012}",
            AdjacentShardToMerge=f"shardId-{other:012}",
        )
        self.settle(stream)

    def iterator(self, stream: str, kind: str, number: int = 0, **where: Any) -> str:
        """Where to read a shard from."""
        told = self.client.get_shard_iterator(
            StreamName=stream,
            ShardId=f"shardId-{number:012}",
            ShardIteratorType=kind,
            **where,
        )
        return str(told["ShardIterator"])

    def read(self, iterator: str, most: int = 1000) -> tuple[list[dict[str, Any]], bool]:
        """Records from there to where there are no more, and whether there will be none."""
        found: list[dict[str, Any]] = []
        for _ in range(_MOST_ANSWERS):
            self.wait(0.25)
            told = self.client.get_records(ShardIterator=iterator, Limit=most)
            found += told["Records"]
            if not told.get("NextShardIterator"):
                return found, True
            iterator = told["NextShardIterator"]
            if told["MillisBehindLatest"] == 0 and not told["Records"]:
                return found, False
        raise AssertionError("a shard that nobody writes to does not come to its end")

    def values(self, stream: str, kind: str = "TRIM_HORIZON", number: int = 0, **where: Any) -> Any:
        """What is read of a shard from there on."""
        records, _ = self.read(self.iterator(stream, kind, number, **where))
        return [record["Data"] for record in records]


def refused(call: Callable[[], Any], *codes: str) -> None:
    """Hold that a call is refused, with one of these codes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - told by its code
        call()
    told: Any = getattr(caught.value, "response", None)
    assert told is not None, caught.value
    assert told["Error"]["Code"] in codes


def numbers(records: Sequence[dict[str, Any]]) -> list[int]:
    """Their sequence numbers."""
    return [int(record["SequenceNumber"]) for record in records]


class TestService:
    """The laws of streams, and of the records of a shard."""

    def test_a_stream_that_is_not_there_is_said_to_be_missing(self, service: Service) -> None:
        missing = "ResourceNotFoundException"
        refused(lambda: service.summary("nobody-made-this"), missing)
        refused(lambda: service.shards("nobody-made-this"), missing)
        refused(lambda: service.iterator("nobody-made-this", "TRIM_HORIZON"), missing)

    def test_a_stream_says_when_it_was_made_and_how_long_it_keeps_records(
        self, service: Service
    ) -> None:
        name = service.make()
        told = service.summary(name)
        assert told["StreamARN"].endswith(f"stream/{name}")
        assert told["RetentionPeriodHours"] == 24
        assert service.summary(name)["StreamCreationTimestamp"] == told["StreamCreationTimestamp"]

    def test_a_stream_that_is_made_again_was_made_later(self, service: Service) -> None:
        name = service.make()
        before = service.summary(name)["StreamCreationTimestamp"]
        service.client.delete_stream(StreamName=name)
        service.wait(2.0)
        service.client.create_stream(StreamName=name, ShardCount=1)
        service.settle(name)
        assert service.summary(name)["StreamCreationTimestamp"] > before

    def test_shards_have_each_hash_key_once(self, service: Service) -> None:
        shards = service.shards(service.make(3))
        assert [shard.number for shard in shards] == [0, 1, 2]
        assert misplaced_keys(shards) == ""
        assert not any(shard.closed or shard.parents for shard in shards)

    def test_a_record_comes_as_it_was_written_with_the_number_it_was_given(
        self, service: Service
    ) -> None:
        name = service.make()
        value = bytes(range(256))
        (number,) = service.put(name, value, key="schlüssel")
        ((record,), ended) = service.read(service.iterator(name, "TRIM_HORIZON"))
        assert (record["Data"], record["PartitionKey"], ended) == (value, "schlüssel", False)
        assert int(record["SequenceNumber"]) == number
        assert record["ApproximateArrivalTimestamp"].tzinfo is not None

    def test_records_come_in_order_and_numbers_grow_above_what_the_shard_starts_with(
        self, service: Service
    ) -> None:
        name = service.make()
        given = service.put(name, *(b"%d" % value for value in range(20)))
        records, _ = service.read(service.iterator(name, "TRIM_HORIZON"), most=3)
        assert numbers(records) == given == sorted(given)
        (shard,) = service.shards(name)
        assert shard.starting < given[0]

    def test_a_record_goes_to_the_shard_of_its_hash_key(self, service: Service) -> None:
        name = service.make(2)
        low, high = service.shards(name)
        service.put(name, b"low", hash_key=low.keys.last)
        service.put(name, b"high", hash_key=high.keys.first)
        assert service.values(name, number=0) == [b"low"]
        assert service.values(name, number=1) == [b"high"]

    def test_reading_begins_at_a_number_or_after_it(self, service: Service) -> None:
        name = service.make()
        given = service.put(name, b"0", b"1", b"2")
        at: dict[str, Any] = {"StartingSequenceNumber": str(given[1])}
        assert service.values(name, "AT_SEQUENCE_NUMBER", **at) == [b"1", b"2"]
        assert service.values(name, "AFTER_SEQUENCE_NUMBER", **at) == [b"2"]

    def test_the_number_that_a_shard_starts_with_is_before_all_its_records(
        self, service: Service
    ) -> None:
        name = service.make()
        (shard,) = service.shards(name)
        at: dict[str, Any] = {"StartingSequenceNumber": str(shard.starting)}
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            assert service.values(name, kind, **at) == []
        service.put(name, b"0", b"1")
        for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            assert service.values(name, kind, **at) == [b"0", b"1"]

    def test_reading_begins_at_a_time(self, service: Service) -> None:
        name = service.make()
        service.put(name, b"0")
        service.wait(2.0)
        service.put(name, b"1")
        records, _ = service.read(service.iterator(name, "TRIM_HORIZON"))
        then = records[1]["ApproximateArrivalTimestamp"] - timedelta(seconds=1)
        assert service.values(name, "AT_TIMESTAMP", Timestamp=then) == [b"1"]
        long_ago = then - timedelta(hours=1)
        assert service.values(name, "AT_TIMESTAMP", Timestamp=long_ago) == [b"0", b"1"]

    def test_the_latest_is_what_comes_next(self, service: Service) -> None:
        name = service.make()
        service.put(name, b"0")
        iterator = service.iterator(name, "LATEST")
        service.put(name, b"1")
        records, _ = service.read(iterator)
        assert [record["Data"] for record in records] == [b"1"]

    def test_an_answer_has_no_more_than_was_asked_for_and_the_next_goes_on(
        self, service: Service
    ) -> None:
        name = service.make()
        service.put(name, b"0", b"1", b"2")
        first = service.client.get_records(
            ShardIterator=service.iterator(name, "TRIM_HORIZON"), Limit=2
        )
        assert [record["Data"] for record in first["Records"]] == [b"0", b"1"]
        service.wait(0.25)
        second = service.client.get_records(ShardIterator=first["NextShardIterator"], Limit=2)
        assert [record["Data"] for record in second["Records"]] == [b"2"]

    def test_an_iterator_may_be_used_again(self, service: Service) -> None:
        name = service.make()
        iterator = service.iterator(name, "TRIM_HORIZON")
        service.put(name, b"0")
        assert [service.read(iterator)[0][0]["Data"] for _ in range(2)] == [b"0", b"0"]

    def test_what_is_at_its_end_says_so_and_goes_on_when_there_is_more(
        self, service: Service
    ) -> None:
        name = service.make()
        service.put(name, b"0")
        iterator = service.iterator(name, "LATEST")
        told = service.client.get_records(ShardIterator=iterator)
        assert (told["Records"], told["MillisBehindLatest"]) == ([], 0)
        service.put(name, b"1")
        service.wait(0.25)
        told = service.client.get_records(ShardIterator=told["NextShardIterator"])
        assert [record["Data"] for record in told["Records"]] == [b"1"]

    def test_many_records_go_each_to_its_shard_and_are_told_in_their_places(
        self, service: Service
    ) -> None:
        name = service.make(2)
        given = [{"PartitionKey": f"k{number}", "Data": b"%d" % number} for number in range(500)]
        told = service.client.put_records(StreamName=name, Records=given)
        assert told["FailedRecordCount"] == 0
        kept = {
            (record["SequenceNumber"], shard.shard_id): (record["PartitionKey"], record["Data"])
            for shard in (ShardOf(name, number) for number in range(2))
            for record in service.read(service.iterator(name, "TRIM_HORIZON", shard.number))[0]
        }
        for one, answer in zip(given, told["Records"], strict=True):
            put = kept[answer["SequenceNumber"], answer["ShardId"]]
            assert put == (one["PartitionKey"], one["Data"])

    def test_a_number_that_the_shard_did_not_give_is_refused(self, service: Service) -> None:
        name, other = service.make(), service.make()
        service.put(name, b"0")
        service.wait(1.0)
        (strange,) = service.put(other, b"0")[-1:]
        refused(
            lambda: service.iterator(
                name, "AT_SEQUENCE_NUMBER", StartingSequenceNumber=str(strange + 1)
            ),
            "InvalidArgumentException",
            "ResourceNotFoundException",
        )


class TestReshards:
    """The laws of shards that are divided and merged."""

    def test_a_split_closes_a_shard_and_opens_two_that_follow_it(self, service: Service) -> None:
        name = service.make()
        service.split(name)
        parent, low, high = service.shards(name)
        assert (parent.closed, low.closed, high.closed) == (True, False, False)
        assert (low.parents, high.parents) == ((0,), (0,))
        assert (low.keys.last, high.keys.first) == (_MIDDLE - 1, _MIDDLE)
        assert misplaced_keys([parent, low, high]) == ""

    def test_shards_that_took_records_at_a_time_are_told(self, service: Service) -> None:
        name = service.make()
        service.wait(3.0)
        service.put(name, b"0")
        ((record,), _) = service.read(service.iterator(name, "TRIM_HORIZON"))
        then = record["ApproximateArrivalTimestamp"]
        service.split(name)
        service.wait(3.0)
        service.put(name, b"1")
        ((record,), _) = service.read(service.iterator(name, "TRIM_HORIZON", 1))
        now = record["ApproximateArrivalTimestamp"]
        for at, numbers in ((then - timedelta(seconds=1), [0]), (now, [1, 2])):
            told = service.client.list_shards(
                StreamName=name, ShardFilter={"Type": "AT_TIMESTAMP", "Timestamp": at}
            )
            assert [read_shard(one).number for one in told["Shards"]] == numbers

    def test_a_merge_closes_two_and_opens_one_that_follows_both(self, service: Service) -> None:
        name = service.make(2)
        service.merge(name, 0, 1)
        *parents, child = service.shards(name)
        assert [parent.closed for parent in parents] == [True, True]
        assert (child.parents, child.closed) == ((0, 1), False)
        assert misplaced_keys([*parents, child]) == ""

    def test_a_closed_shard_keeps_what_it_has_takes_nothing_and_ends(
        self, service: Service
    ) -> None:
        name = service.make()
        service.put(name, b"0", b"1")
        service.split(name)
        service.put(name, b"low", hash_key=0)
        service.put(name, b"high", hash_key=_MIDDLE)
        records, ended = service.read(service.iterator(name, "TRIM_HORIZON"))
        assert ([record["Data"] for record in records], ended) == ([b"0", b"1"], True)
        assert service.values(name, number=1) == [b"low"]
        assert service.values(name, number=2) == [b"high"]

    def test_it_ends_wherever_reading_begins(self, service: Service) -> None:
        name = service.make()
        (last,) = service.put(name, b"0", b"1")[-1:]
        service.split(name)
        at: dict[str, Any] = {"StartingSequenceNumber": str(last)}
        iterator = service.iterator(name, "AFTER_SEQUENCE_NUMBER", **at)
        assert service.read(iterator) == ([], True)

    def test_one_without_records_ends_as_well(self, service: Service) -> None:
        name = service.make()
        service.split(name)
        assert service.read(service.iterator(name, "TRIM_HORIZON")) == ([], True)

    def test_who_reads_while_a_shard_is_closed_comes_to_its_end(self, service: Service) -> None:
        name = service.make()
        service.put(name, b"0")
        iterator = service.iterator(name, "TRIM_HORIZON")
        service.split(name)
        records, ended = service.read(iterator)
        assert ([record["Data"] for record in records], ended) == ([b"0"], True)

    def test_numbers_of_what_follows_are_above_those_before(self, service: Service) -> None:
        name = service.make()
        (before,) = service.put(name, b"0")
        service.wait(1.0)
        service.split(name)
        (after,) = service.put(name, b"1")
        _, low, _ = service.shards(name)
        assert before < low.starting < after

    def test_over_generations_each_follows_the_one_before(self, service: Service) -> None:
        name = service.make()
        service.split(name)
        service.merge(name, 1, 2)
        service.split(name, 3)
        follows = {shard.number: shard.parents for shard in service.shards(name)}
        assert follows == {0: (), 1: (0,), 2: (0,), 3: (1, 2), 4: (3,), 5: (3,)}
        assert misplaced_keys(service.shards(name)) == ""

    def test_what_is_closed_is_not_divided_again(self, service: Service) -> None:
        name = service.make()
        service.split(name)
        refused(lambda: service.split(name), "InvalidArgumentException", "ResourceInUseException")

    def test_what_is_not_adjacent_is_not_merged(self, service: Service) -> None:
        name = service.make(3)
        refused(lambda: service.merge(name, 0, 2), "InvalidArgumentException")
