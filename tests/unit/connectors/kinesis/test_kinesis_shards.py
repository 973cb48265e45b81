"""Shards are read as they are listed, with what they follow, and hash keys that are amiss."""

import re

import pytest

from headrace.connectors.kinesis import KinesisLog
from headrace.connectors.kinesis.shards import (
    LAST_HASH_KEY,
    HashRange,
    Shard,
    ShardOf,
    lineage_of,
    misplaced_keys,
    read_shard,
    shard_of,
)
from headrace.connectors.kinesis.spots import END
from headrace.model.lineage import Parent
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.service import DESCRIBED_PER_S, FakeKinesis

HALF = 2**127


def told(shard_id="shardId-000000000003", **more):
    return {
        "ShardId": shard_id,
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(LAST_HASH_KEY)},
        "SequenceNumberRange": {"StartingSequenceNumber": "7"},
        **more,
    }


def shard(number, first=0, last=LAST_HASH_KEY, *, closed=False, parents=()):
    return Shard(number, parents, HashRange(first, last), 0, closed)


def test_a_shard_is_read_as_it_is_listed():
    found = read_shard(
        told(ParentShardId="shardId-000000000002", AdjacentParentShardId="shardId-000000000001")
    )
    assert found == Shard(3, (1, 2), HashRange(0, LAST_HASH_KEY), 7, False)
    numbers = {"StartingSequenceNumber": "7", "EndingSequenceNumber": "9"}
    assert read_shard(told(SequenceNumberRange=numbers)).closed


def test_a_shard_of_another_name_is_refused():
    with pytest.raises(ValueError, match="'shard-3'"):
        read_shard(told("shard-3"))


def test_a_lane_is_called_by_stream_and_number():
    assert shard_of("acme.visits[12]") == ShardOf("acme.visits", 12)
    assert shard_of("acme.visits[12]").shard_id == "shardId-000000000012"
    assert shard_of("acme.visits") is None


def test_what_follows_waits_for_the_ends_of_its_parents():
    family = [shard(0), shard(1), shard(2, parents=(0, 1))]
    assert lineage_of("s", family) == {"s[2]": (Parent("s[0]", END), Parent("s[1]", END))}


@pytest.mark.parametrize(
    ("shards", "wrong"),
    [
        ([shard(0)], ""),
        ([shard(0, closed=True), shard(1, 0, HALF - 1), shard(2, HALF)], ""),
        ([shard(0, closed=True), shard(1, 0, HALF - 1)], f"no open shard has .* {HALF} to"),
        ([shard(0, closed=True), shard(2, HALF)], f"no open shard has .* 0 to {HALF - 1}"),
        ([shard(1, 0, HALF), shard(2, HALF)], f"shard 2 and another .* {HALF} on"),
        ([], "no open shard"),
    ],
)
def test_each_hash_key_has_one_open_shard_or_it_is_told(shards, wrong):
    found = misplaced_keys(shards)
    assert (found == "") == (wrong == "")
    assert re.match(wrong, found)


def test_a_stream_that_was_made_again_is_another_though_it_is_seldom_described():
    clock = FakeClock()
    kinesis = FakeKinesis(clock)
    kinesis.create_stream(StreamName="visits", ShardCount=2)
    log = KinesisLog(kinesis, clock)
    ids = {log.topics(["visits"])["visits"].topic_id for _ in range(2 * DESCRIBED_PER_S)}
    assert len(ids) == 1
    kinesis.delete_stream(StreamName="visits")
    assert log.topics(["visits"]) == {}
    clock.move(1)
    kinesis.create_stream(StreamName="visits", ShardCount=2)
    ids.add(log.topics(["visits"])["visits"].topic_id)
    assert len(ids) == 2
    log.close()
