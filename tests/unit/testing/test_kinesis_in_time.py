"""What the fake of Kinesis does when time passes, as the service does by its documentation."""

import pickle
from datetime import UTC, datetime
from functools import partial

import pytest

from headrace.connectors.kinesis.shards import misplaced_keys
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import Service, refused
from headrace.testing.kinesis.service import FakeKinesis

SPENT = "ProvisionedThroughputExceededException"
DAY_S = 86_400


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def kinesis(clock):
    return FakeKinesis(clock)


@pytest.fixture
def service(kinesis, clock):
    return Service(kinesis, clock.move)


def test_an_iterator_is_good_for_five_minutes(service, kinesis, clock):
    iterator = service.iterator(service.make(), "TRIM_HORIZON")
    clock.move(300)
    (again,) = [kinesis.get_records(ShardIterator=iterator)["NextShardIterator"]]
    clock.move(301)
    refused(lambda: kinesis.get_records(ShardIterator=again), "ExpiredIteratorException")


def test_a_shard_gives_five_answers_a_second(service, kinesis, clock):
    iterator = service.iterator(service.make(), "TRIM_HORIZON")
    for _ in range(5):
        kinesis.get_records(ShardIterator=iterator)
    refused(lambda: kinesis.get_records(ShardIterator=iterator), SPENT)
    clock.move(1)
    kinesis.get_records(ShardIterator=iterator)


def test_and_after_ten_megabytes_nothing_for_five_seconds(service, kinesis, clock):
    name = service.make()
    service.put(name, *[b"x" * 2**20] * 11)
    iterator = service.iterator(name, "TRIM_HORIZON")
    told = kinesis.get_records(ShardIterator=iterator)
    assert len(told["Records"]) == 9, "a key has a byte"
    clock.move(4.4)
    refused(lambda: kinesis.get_records(ShardIterator=told["NextShardIterator"]), SPENT)
    clock.move(0.6)
    assert len(kinesis.get_records(ShardIterator=told["NextShardIterator"])["Records"]) == 2


def test_and_five_iterators(service, kinesis, clock):
    name = service.make()
    for _ in range(5):
        service.iterator(name, "TRIM_HORIZON")
    refused(lambda: service.iterator(name, "TRIM_HORIZON"), SPENT)


def test_answers_can_be_empty_though_there_is_more(service, kinesis, clock):
    name = service.make()
    clock.move(1500)
    service.put(name, b"late")
    iterator, behind, found = service.iterator(name, "TRIM_HORIZON"), [], []
    while not found:
        told = kinesis.get_records(ShardIterator=iterator)
        behind.append(told["MillisBehindLatest"])
        found, iterator = told["Records"], told["NextShardIterator"]
        clock.move(1)
    assert behind == [900_000, 301_000, 0]


def test_retention_takes_records_and_says_nothing_of_it(service, clock):
    name = service.make()
    first, *_ = service.put(name, b"0", b"1")
    clock.move(DAY_S - 10)
    service.put(name, b"2")
    clock.move(20)
    at = {"StartingSequenceNumber": str(first)}
    assert service.values(name) == service.values(name, "AT_SEQUENCE_NUMBER", **at) == [b"2"]


def test_a_parent_goes_with_its_last_record_and_its_children_still_name_it(service, clock):
    name = service.make()
    service.put(name, b"0")
    service.split(name)
    clock.move(DAY_S + 1)
    low, high = service.shards(name)
    assert (low.parents, high.parents) == ((0,), (0,))
    refused(lambda: service.iterator(name, "TRIM_HORIZON"), "ResourceNotFoundException")


def test_children_can_be_listed_late(service, kinesis, clock):
    kinesis.listed_after_s = 30
    name = service.make()
    service.split(name)
    service.put(name, b"0")
    assert "no open shard" in misplaced_keys(service.shards(name))
    clock.move(30)
    assert misplaced_keys(service.shards(name)) == ""
    assert service.values(name, number=1) == [b"0"]


def test_lists_come_in_pages(service, kinesis):
    kinesis.page = 2
    name = service.make(5)
    told = kinesis.list_shards(StreamName=name)
    found = [*told["Shards"]]
    while "NextToken" in told:
        told = kinesis.list_shards(NextToken=told["NextToken"])
        found += told["Shards"]
    assert len(found) == 5
    refused(kinesis.list_shards, "InvalidArgumentException")


def test_an_iterator_of_a_stream_that_was_made_again_is_refused(service, kinesis, clock):
    name = service.make()
    iterator = service.iterator(name, "TRIM_HORIZON")
    kinesis.delete_stream(StreamName=name)
    kinesis.create_stream(StreamName=name)
    refused(lambda: kinesis.get_records(ShardIterator=iterator), "InvalidArgumentException")


def test_nobody_reads_from_the_future(service, clock):
    name = service.make()
    then = datetime.fromtimestamp(clock.now_s() + 60, UTC)
    refused(
        lambda: service.iterator(name, "AT_TIMESTAMP", Timestamp=then), "InvalidArgumentException"
    )


def test_what_is_no_iterator_is_refused(kinesis):
    refused(lambda: kinesis.get_records(ShardIterator="bm9uZQ=="), "InvalidArgumentException")


def test_it_refuses_what_it_is_told_to(service, kinesis):
    name = service.make()
    kinesis.refusals.append("AccessDeniedException")
    refused(lambda: service.shards(name), "AccessDeniedException")
    assert len(service.shards(name)) == 1


def test_it_travels_with_what_it_has(service, kinesis):
    name = service.make()
    service.put(name, b"0")
    copy = pickle.loads(pickle.dumps(kinesis))
    assert Service(copy, copy.clock.move).values(name) == [b"0"]


def test_a_request_with_too_much_is_refused_as_a_whole(service, kinesis):
    name = service.make()
    small, large = ({"PartitionKey": "k", "Data": b"0" * size} for size in (1, 2**20))
    for records in ([small] * 501, [small, large], [{**large, "Data": b"0" * (2**20 - 1)}] * 6):
        codes = ("ValidationException", "InvalidArgumentException")
        refused(partial(kinesis.put_records, StreamName=name, Records=records), *codes)
    assert service.values(name) == []


def test_of_many_records_some_are_refused_and_told_in_their_places(service, kinesis):
    name = service.make()
    kinesis.fate_of = lambda key, _: SPENT if key == "b" else None
    told = kinesis.put_records(
        StreamName=name, Records=[{"PartitionKey": key, "Data": key.encode()} for key in "abc"]
    )
    assert told["FailedRecordCount"] == 1
    assert [one.get("ErrorCode") for one in told["Records"]] == [None, SPENT, None]
    assert service.values(name) == [b"a", b"c"]
