"""A Kinesis in memory with a clock of its own, called as Amazon's client is.

What makes reading it hard comes seldom, or after a day: shards that split while others read them,
iterators that expire, answers that are empty though there is more, a shard's budget that is spent,
retention that takes records and whole shards, children that are listed late. Here each comes when a
test lets time pass. What it does otherwise than the service: streams are made and divided at once,
and nobody limits what is written.

`headrace.testing.kinesis.contract` is what it and a real one keep alike.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import islice, pairwise
from typing import Any

from headrace.ports import Clock
from headrace.testing.kinesis.state import (
    READS_PER_S,
    Answer,
    Cursor,
    FakeShard,
    FakeStream,
    Kept,
    ServiceError,
    answer,
    cursor_of,
)

_LAST_KEY = 2**128 - 1
#: streams of an account that are described in a second
DESCRIBED_PER_S = 20
#: how long an iterator is good for
EXPIRES_S = 300.0
#: most bytes and records of an answer
MOST_BYTES, MOST_RECORDS = 10 * 1024 * 1024, 10_000
#: most records of a request, their bytes together, and those of one
MOST_PUT, MOST_PUT_BYTES, MOST_RECORD_BYTES = 500, 5 * 1024 * 1024, 1024 * 1024
_DAY_S = 86_400.0


def _taken(key: str, data: bytes) -> str | None:
    """What becomes of a record: it is taken."""
    del key, data
    return None


@dataclass
class FakeKinesis:
    """Streams in memory; its public functions are those of the client for Kinesis."""

    clock: Clock
    #: how long new streams keep records
    retention_s: float = _DAY_S
    #: an answer looks through so much of a shard's time, and is empty where nothing came in it
    span_s: float = 600.0
    #: children come into lists so much later than they take records
    listed_after_s: float = 0.0
    #: most shards of one list
    page: int = 100
    #: False: nobody limits reading
    throttles: bool = True
    #: what the next calls are refused with, by code
    refusals: deque[str] = field(default_factory=deque)
    #: what a record of many is refused with, by code, by its key and data; None: it is taken
    fate_of: Callable[[str, bytes], str | None] = _taken
    streams: dict[str, FakeStream] = field(default_factory=dict)
    made: int = 0
    #: when streams were described in the last second, whichever they were
    described: deque[float] = field(default_factory=deque)

    # streams and shards

    def create_stream(self, *, StreamName: str, ShardCount: int = 1) -> Answer:  # noqa: N803
        """Make a stream."""
        if StreamName in self.streams:
            raise ServiceError("ResourceInUseException", f"Stream {StreamName} already exists")
        self.made += 1
        now_s = self.clock.now_s()
        made = FakeStream(StreamName, now_s, self.made, self.retention_s)
        bounds = [_LAST_KEY * part // ShardCount for part in range(ShardCount + 1)]
        for part, (low, high) in enumerate(pairwise(bounds)):
            made.add(now_s, low + bool(part), high)
        self.streams[StreamName] = made
        return self._answered()

    def delete_stream(self, *, StreamName: str) -> Answer:  # noqa: N803
        """Take a stream away with all that is in it."""
        del self.streams[self._stream(StreamName).name]
        return self._answered()

    def describe_stream_summary(self, *, StreamName: str) -> Answer:  # noqa: N803
        """What there is to say of a stream; an account is told of so many in a second."""
        stream, now_s = self._stream(StreamName), self.clock.now_s()
        while self.described and self.described[0] <= now_s - 1.0:
            self.described.popleft()
        if self.throttles and len(self.described) >= DESCRIBED_PER_S:
            raise ServiceError("LimitExceededException", "Rate exceeded for the account")
        self.described.append(now_s)
        told = {
            "StreamName": stream.name,
            "StreamARN": f"arn:aws:kinesis:eu-central-1:000000000000:stream/{stream.name}",
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": int(stream.retention_s // 3600),
            "StreamCreationTimestamp": datetime.fromtimestamp(stream.made_s, UTC),
            "OpenShardCount": sum(one.closed_s is None for one in stream.shards.values()),
        }
        return self._answered(StreamDescriptionSummary=told)

    def list_shards(
        self,
        *,
        StreamName: str | None = None,  # noqa: N803
        NextToken: str | None = None,  # noqa: N803
        ShardFilter: Mapping[str, Any] | None = None,  # noqa: N803
    ) -> Answer:
        """Shards of a stream, a page at a time; or those that took records at a moment, all."""
        if (StreamName is None) == (NextToken is None):
            raise ServiceError("InvalidArgumentException", "StreamName or NextToken, and not both")
        name, _, after = (NextToken or f"{StreamName}::-1").rpartition("::")
        stream, now_s = self._stream(name), self.clock.now_s()
        listed = [
            shard
            for shard in stream.shards.values()
            if shard.listed_s <= now_s and shard.number > int(after)
        ]
        if ShardFilter is not None:
            at_s = _seconds(ShardFilter["Timestamp"])
            listed = [shard for shard in listed if shard.took_records(at_s)]
            return self._answered(Shards=[shard.told() for shard in listed])
        page = listed[: self.page]
        more = f"{name}::{page[-1].number}" if len(listed) > len(page) else None
        return self._answered(Shards=[shard.told() for shard in page], NextToken=more)

    def split_shard(
        self,
        *,
        StreamName: str,  # noqa: N803
        ShardToSplit: str,  # noqa: N803
        NewStartingHashKey: str,  # noqa: N803
    ) -> Answer:
        """Close a shard, and open two in its place."""
        stream = self._stream(StreamName)
        shard, middle = stream.shard(ShardToSplit), int(NewStartingHashKey)
        self._close(shard)
        if not shard.first_key < middle <= shard.last_key:
            shard.closed_s = None
            raise ServiceError("InvalidArgumentException", "NewStartingHashKey is not in the shard")
        now_s = self.clock.now_s()
        self._opened(stream.add(now_s, shard.first_key, middle - 1, shard))
        self._opened(stream.add(now_s, middle, shard.last_key, shard))
        return self._answered()

    def merge_shards(
        self,
        *,
        StreamName: str,  # noqa: N803
        ShardToMerge: str,  # noqa: N803
        AdjacentShardToMerge: str,  # noqa: N803
    ) -> Answer:
        """Close two shards, and open one in their place."""
        stream = self._stream(StreamName)
        pair = stream.shard(ShardToMerge), stream.shard(AdjacentShardToMerge)
        low, high = sorted(pair, key=lambda shard: shard.first_key)
        if low.last_key + 1 != high.first_key:
            raise ServiceError("InvalidArgumentException", "the shards are not adjacent")
        for shard in pair:
            self._close(shard)
        self._opened(stream.add(self.clock.now_s(), low.first_key, high.last_key, *pair))
        return self._answered()

    # records

    def put_record(
        self,
        *,
        StreamName: str,  # noqa: N803
        Data: bytes,  # noqa: N803
        PartitionKey: str,  # noqa: N803
        ExplicitHashKey: str | None = None,  # noqa: N803
    ) -> Answer:
        """Write a record to the shard that has its hash key."""
        stream = self._stream(StreamName)
        return self._answered(**self._put(stream, PartitionKey, Data, ExplicitHashKey))

    def put_records(
        self,
        *,
        StreamName: str,  # noqa: N803
        Records: Sequence[Mapping[str, Any]],  # noqa: N803
    ) -> Answer:
        """Write some records, each as if alone; what becomes of each is told in its place."""
        stream = self._stream(StreamName)
        if len(Records) > MOST_PUT:
            raise ServiceError("ValidationException", f"there are {len(Records)} records")
        sizes = [len(one["Data"]) + len(one["PartitionKey"].encode()) for one in Records]
        if max(sizes) > MOST_RECORD_BYTES or sum(sizes) > MOST_PUT_BYTES:
            raise ServiceError("InvalidArgumentException", "a record, or all of them, too large")
        told = [self._put_one(stream, one["PartitionKey"], one["Data"]) for one in Records]
        failed = sum("ErrorCode" in one for one in told)
        return self._answered(Records=told, FailedRecordCount=failed)

    def get_shard_iterator(
        self,
        *,
        StreamName: str,  # noqa: N803
        ShardId: str,  # noqa: N803
        ShardIteratorType: str,  # noqa: N803
        StartingSequenceNumber: str | None = None,  # noqa: N803
        Timestamp: datetime | float | None = None,  # noqa: N803
    ) -> Answer:
        """Where to read from."""
        stream, now_s = self._stream(StreamName), self.clock.now_s()
        shard = stream.shard(ShardId)
        self._count_iterator(shard, now_s)
        after, from_s, since_s = shard.starting, shard.made_s, 0.0
        if ShardIteratorType == "LATEST":
            after, from_s = max([after, *(kept.number for kept in shard.records)]), now_s
        elif ShardIteratorType == "AT_TIMESTAMP":
            since_s = from_s = _seconds(Timestamp)
            if since_s > now_s:
                raise ServiceError("InvalidArgumentException", "Timestamp is in the future")
        elif ShardIteratorType in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
            number = int(StartingSequenceNumber or -1)
            if not shard.is_its(number):
                raise ServiceError(
                    "InvalidArgumentException",
                    f"StartingSequenceNumber {number} is not one of {ShardId} of {StreamName}",
                )
            came = [kept.came_s for kept in shard.records if kept.number == number]
            after = number - (ShardIteratorType == "AT_SEQUENCE_NUMBER")
            from_s = came[0] if came else from_s
        cursor = Cursor(
            stream.name, stream.incarnation, shard.number, after, from_s, since_s, now_s
        )
        return self._answered(ShardIterator=cursor.text)

    def get_records(
        self,
        *,
        ShardIterator: str,  # noqa: N803
        Limit: int = MOST_RECORDS,  # noqa: N803
    ) -> Answer:
        """Records from where an iterator is, which may be none though there are more."""
        cursor, now_s = cursor_of(ShardIterator), self.clock.now_s()
        stream = self._stream(cursor.stream)
        if now_s - cursor.issued_s > EXPIRES_S:
            raise ServiceError("ExpiredIteratorException", "Iterator expired: over 300 s old")
        if stream.incarnation != cursor.incarnation:
            raise ServiceError("InvalidArgumentException", "the iterator is of another stream")
        shard = stream.shard(f"shardId-{cursor.shard:012}")
        if self.throttles and shard.is_spent(now_s):
            raise ServiceError(
                "ProvisionedThroughputExceededException", f"Rate exceeded for {shard.shard_id}"
            )
        left = [
            kept
            for kept in shard.records
            if kept.number > cursor.after and kept.came_s >= cursor.since_s
        ]
        looked_to_s = max(cursor.from_s, now_s - stream.retention_s) + self.span_s
        end_s = now_s if shard.closed_s is None else shard.closed_s
        if (left[0].came_s if left else end_s) > looked_to_s:
            shard.spend(now_s, 0)
            further = cursor._replace(from_s=looked_to_s, issued_s=now_s)
            return self._gave([], further, now_s - looked_to_s)
        taken = _within(left, Limit)
        shard.spend(now_s, sum(kept.size for kept in taken))
        if len(taken) < len(left):
            last = taken[-1]
            further = cursor._replace(after=last.number, from_s=last.came_s, issued_s=now_s)
            return self._gave(taken, further, max(0.001, now_s - last.came_s))
        if shard.closed_s is not None:
            return self._gave(taken, None, 0.0, list(stream.children(shard)))
        after = taken[-1].number if taken else cursor.after
        return self._gave(taken, cursor._replace(after=after, from_s=now_s, issued_s=now_s), 0.0)

    # inside

    def _put_one(self, stream: FakeStream, key: str, data: bytes) -> dict[str, Any]:
        code = self.fate_of(key, data)
        if code is not None:
            return {"ErrorCode": code, "ErrorMessage": "the fake was told to refuse it"}
        return self._put(stream, key, data, None)

    def _put(
        self, stream: FakeStream, key: str, data: bytes, hash_key: str | None
    ) -> dict[str, Any]:
        digest = int(hashlib.md5(key.encode()).hexdigest(), 16)  # noqa: S324 - its hash
        shard = stream.open_shard(digest if hash_key is None else int(hash_key))
        kept = shard.take(self.clock.now_s(), key, data)
        return {"ShardId": shard.shard_id, "SequenceNumber": str(kept.number)}

    def _stream(self, name: str) -> FakeStream:
        if self.refusals:
            raise ServiceError(self.refusals.popleft(), "the fake was told to refuse")
        stream = self.streams.get(name)
        if stream is None:
            raise ServiceError("ResourceNotFoundException", f"Stream {name} not found")
        stream.expire(self.clock.now_s())
        return stream

    def _close(self, shard: FakeShard) -> None:
        if shard.closed_s is not None:
            raise ServiceError("InvalidArgumentException", f"{shard.shard_id} is closed")
        shard.closed_s = self.clock.now_s()

    def _opened(self, shard: FakeShard) -> None:
        shard.listed_s = self.clock.now_s() + self.listed_after_s

    def _count_iterator(self, shard: FakeShard, now_s: float) -> None:
        while shard.iterators and shard.iterators[0] <= now_s - 1.0:
            shard.iterators.popleft()
        if self.throttles and len(shard.iterators) >= READS_PER_S:
            raise ServiceError(
                "ProvisionedThroughputExceededException", f"Rate exceeded for {shard.shard_id}"
            )
        shard.iterators.append(now_s)

    def _gave(
        self,
        taken: Sequence[Kept],
        further: Cursor | None,
        behind_s: float,
        children: Sequence[FakeShard] = (),
    ) -> Answer:
        records = [
            {
                "SequenceNumber": str(kept.number),
                "ApproximateArrivalTimestamp": datetime.fromtimestamp(kept.came_s, UTC),
                "Data": kept.data,
                "PartitionKey": kept.key,
            }
            for kept in taken
        ]
        told = [{"ShardId": child.shard_id} for child in children]
        return self._answered(
            Records=records,
            NextShardIterator=None if further is None else further.text,
            MillisBehindLatest=round(behind_s * 1000),
            ChildShards=told or None,
        )

    def _answered(self, **told: Any) -> dict[str, Any]:
        date = format_datetime(datetime.fromtimestamp(self.clock.now_s(), UTC), usegmt=True)
        return {**answer(**told), "ResponseMetadata": {"HTTPHeaders": {"date": date}}}


def _within(records: Sequence[Kept], most: int) -> list[Kept]:
    found, size = list[Kept](), 0
    for kept in islice(records, min(most, MOST_RECORDS)):
        if found and size + kept.size > MOST_BYTES:
            break
        found.append(kept)
        size += kept.size
    return found


def _seconds(at: datetime | float | None) -> float:
    return at.timestamp() if isinstance(at, datetime) else float(at or 0.0)
