"""What the demo asks of Kinesis: its streams are made, split, merged, written to and read through.

All streams are changed at once, and nothing goes on before each is done with it. Errors are those
of the log that drivers read by; nothing is tried again, as the Kinesis of the demo refuses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.connectors.kinesis.client import translated
from headrace.connectors.kinesis.shards import Shard, ShardOf, number_of
from headrace.connectors.kinesis.streams import listed
from headrace.demo.visits import PARTITIONS, TENANTS
from headrace.errors import BrokerUnavailable

STREAMS: Final = tuple(f"{tenant}.visits" for tenant in TENANTS)
#: most records of a request, and of an answer
MOST_PUT, _MOST_READ = 500, 10_000
#: how long a stream may be in the making
_SETTLES_WITHIN_S = 30.0


class At(NamedTuple):
    """Where a record is in its stream; parents have lower numbers than their children."""

    shard: int
    sequence_number: int


@dataclass(slots=True)
class DemoStreams:
    """A stream of each tenant."""

    client: Any = field(repr=False)

    def make(self) -> None:
        """Make them, of as many shards as a topic has partitions.

        Raises:
            HeadraceError: the service does not.
        """
        for stream in STREAMS:
            self._asked("create_stream", stream, ShardCount=PARTITIONS)
        self._settled()

    def put(self, stream: str, records: Sequence[tuple[str, bytes]]) -> list[At]:
        """Put keys and data there in one request, which keeps no order among them.

        Raises:
            HeadraceError: not all were taken.
        """
        made = [{"PartitionKey": key, "Data": data} for key, data in records]
        answers = self._asked("put_records", stream, Records=made)["Records"]
        if refused := {one["ErrorCode"] for one in answers if one.get("ErrorCode")}:
            raise BrokerUnavailable(f"stream {stream} did not take a visit: {', '.join(refused)}")
        return [At(number_of(one["ShardId"]), int(one["SequenceNumber"])) for one in answers]

    def split(self) -> None:
        """Split the first open shard of each."""
        for stream in STREAMS:
            first = self._open(stream)[0]
            middle = str((first.keys.first + first.keys.last + 1) // 2)
            shard = ShardOf(stream, first.number).shard_id
            self._asked("split_shard", stream, ShardToSplit=shard, NewStartingHashKey=middle)
        self._settled()

    def merge(self) -> None:
        """Merge the last two open shards of each."""
        for stream in STREAMS:
            two = self._open(stream)[-2:]
            one, other = (ShardOf(stream, shard.number).shard_id for shard in two)
            self._asked("merge_shards", stream, ShardToMerge=one, AdjacentShardToMerge=other)
        self._settled()

    def shards(self) -> Iterator[tuple[str, Shard]]:
        """All that there are, closed ones too, each with its stream."""
        for stream in STREAMS:
            yield from ((stream, shard) for shard in listed(self.client, stream))

    def held(self, shard: ShardOf) -> int:
        """How many records a shard hands out that is read from its beginning."""
        how = {"ShardId": shard.shard_id, "ShardIteratorType": "TRIM_HORIZON"}
        iterator = self._asked("get_shard_iterator", shard.stream, **how)["ShardIterator"]
        found = 0
        while iterator is not None:
            try:
                told = self.client.get_records(ShardIterator=iterator, Limit=_MOST_READ)
            except Exception as error:
                raise translated(error, str(shard)) from error
            found += len(told["Records"])
            at_end = not told["Records"] and not told["MillisBehindLatest"]
            iterator = None if at_end else told.get("NextShardIterator")
        return found

    def _open(self, stream: str) -> list[Shard]:
        """Those that take records, in the order of their keys."""
        found = (shard for shard in listed(self.client, stream) if not shard.closed)
        return sorted(found, key=lambda shard: shard.keys)

    def _settled(self) -> None:
        """Wait until no stream is being made or changed."""
        until_s = time.monotonic() + _SETTLES_WITHIN_S
        for stream in STREAMS:
            while self._status(stream) != "ACTIVE":
                if time.monotonic() > until_s:
                    raise BrokerUnavailable(f"stream {stream} is not ready after 30 s")
                time.sleep(0.02)

    def _status(self, stream: str) -> str:
        told = self._asked("describe_stream_summary", stream)
        return str(told["StreamDescriptionSummary"]["StreamStatus"])

    def _asked(self, what: str, stream: str, **request: Any) -> Any:
        try:
            return getattr(self.client, what)(StreamName=stream, **request)
        except Exception as error:
            raise translated(error, f"stream {stream}") from error
