"""A shard's records from a place on, answer after answer.

A place is turned into an iterator, and this is where it shows whether retention took something that
nobody read: the service itself goes on with what is left and says nothing. Two things tell. The
record that a place names may still be there, and then is the first that comes. Or nothing came
behind it up to a moment that is younger than what the stream keeps. Where neither is so, something
may be gone; where the lane goes on shows then with the first record, or with the shard's end.

Iterators expire after five minutes, and what is handled between two answers may take longer. Then
reading goes on from the last number that came, or from the moment that was reached: the service
looks a shard through for minutes at a time, and its answers are empty where nothing came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.connectors.kinesis.client import (
    EXPIRED,
    INVALID,
    ODD_CLOCK_MS,
    Kinesis,
    code_of,
    moment,
    told_at_ms,
    translated,
)
from headrace.connectors.kinesis.notes import Note
from headrace.connectors.kinesis.shards import ShardOf
from headrace.connectors.kinesis.spots import Spot
from headrace.connectors.kinesis.streams import Streams

#: clocks of the service's own machines may be apart by so much
MARGIN_MS = 10_000
#: however short a stream keeps records
_LEAST_KEPT_MS = 23 * 3_600_000
#: most records of an answer, and bytes after which one may have been cut
MOST_RECORDS = 10_000
_CUT_BYTES = 1024 * 1024


class Record(NamedTuple):
    """What the service keeps under a sequence number."""

    number: int
    came_ms: int
    key: str
    data: bytes


class Came(NamedTuple):
    """An answer."""

    records: tuple[Record, ...]
    #: by the service's clock
    at_ms: int
    #: how far the shard goes on past it
    behind_ms: int
    #: there is nothing more for now
    caught_up: bool
    #: there will never be more
    sealed: bool

    @property
    def quiet_ms(self) -> int:
        """Nothing that is not in it, or was in an earlier one, came before this moment."""
        return self.at_ms - self.behind_ms - MARGIN_MS


@dataclass(slots=True)
class Walk:
    """Goes through a shard."""

    client: Kinesis
    streams: Streams
    shard: ShardOf
    begin: Spot
    #: of an earlier walk that came to the same place
    left: Note | None = None
    #: what the next answer is asked with; None: it is to be opened
    iterator: str | None = None
    #: the record that has to be the first one, if nothing is gone
    awaited: int | None = None
    #: nothing that was not passed came before this moment; 0: nobody knows
    unread_ms: int = field(init=False)
    #: everything up to this number was passed
    _last: int = field(init=False)
    #: nothing that was not passed came before this moment
    _quiet_ms: int = field(init=False)
    _has_come: bool = False
    #: it went to where an earlier walk has come, through a stretch without records
    _has_jumped: bool = False

    def __post_init__(self) -> None:
        """Begin where it is told."""
        self._quiet_ms = self.unread_ms = self.begin.quiet_ms
        self._last = self.begin.number - (self.begin.part is not None)

    def next(self, most: int = MOST_RECORDS) -> Came:
        """The next answer.

        Raises:
            Spent: the shard gives no more in this second; nothing was passed.
            HeadraceError: it is not there, or cannot be asked.
        """
        try:
            return self._next(min(most, MOST_RECORDS))
        except Exception as error:
            if code_of(error) not in {EXPIRED, INVALID}:
                raise translated(error, str(self)) from error
        self.iterator = None
        try:
            return self._next(min(most, MOST_RECORDS))
        except Exception as error:
            raise translated(error, str(self)) from error

    def __str__(self) -> str:
        return f"{self.shard.shard_id} of stream {self.shard.stream}"

    def _next(self, most: int) -> Came:
        if self.iterator is None:
            self.iterator = self._left() or self._opened()
        if self.awaited is not None and not self._has_come and self.begin.part is None:
            most = min(most + 1, MOST_RECORDS)  # the awaited one was passed before
        told = self.client.get_records(ShardIterator=self.iterator, Limit=most)
        came = self._read(told, most)
        self.iterator = told.get("NextShardIterator")
        newest_ms = (one.came_ms - MARGIN_MS for one in came.records[-1:])
        self.unread_ms = max(0, min([came.quiet_ms, *newest_ms]))
        if came.records:
            self._last, self._has_come = came.records[-1].number, True
        elif came.quiet_ms > self._quiet_ms:
            self._quiet_ms = came.quiet_ms
        elif not (came.caught_up or self._has_jumped) and self.awaited is None:
            self._has_jumped, self.iterator = True, None
        return came

    def _read(self, told: Mapping[str, Any], most: int) -> Came:
        records = tuple(map(record_of, told["Records"]))
        behind_ms = int(told.get("MillisBehindLatest") or 0)
        sealed = not told.get("NextShardIterator")
        full = len(records) >= most or sum(len(one.data) for one in records) > _CUT_BYTES
        left = tuple(one for one in records if one.number > self._last)
        at_ms = told_at_ms(told, self.streams.clock.now_s())
        caught_up = sealed or (behind_ms == 0 and not full)
        return Came(left, at_ms, behind_ms, caught_up, sealed)

    def _left(self) -> str | None:
        """The iterator of the earlier walk, if nothing behind it can be gone unseen."""
        left, self.left = self.left, None
        if left is None or not (left.waits or self.is_young(left.unread_ms)):
            return None
        self.unread_ms = left.unread_ms
        if left.waits:
            self._await()
        return left.iterator

    def _await(self) -> int:
        """See that the record comes with which it begins."""
        self.awaited = self.begin.number
        self._last = self.awaited - 1
        return self.awaited

    def _opened(self) -> str:
        """An iterator for where it is."""
        since_ms = self._quiet_ms - MARGIN_MS
        if self._has_come:
            return self._at("AFTER_SEQUENCE_NUMBER", self._last) or self._since(since_ms)
        if self._has_jumped or self._quiet_ms > self.begin.quiet_ms:
            return self._since(since_ms)
        if self.begin.is_beginning and not self.streams.may_have_lost(self.shard):
            return self._from_start()
        if self.is_fresh(self.begin) and self.begin.is_since:
            return self._since(since_ms)
        if self.is_fresh(self.begin):
            return self._at("AFTER_SEQUENCE_NUMBER", self._last) or self._since(since_ms)
        return self._at("AT_SEQUENCE_NUMBER", self._await()) or self._from_start()

    def is_fresh(self, spot: Spot) -> bool:
        """Whether nothing that came behind it can be gone yet."""
        return spot.part is None and self.is_young(spot.quiet_ms)

    def is_young(self, since_ms: int) -> bool:
        """Whether nothing that came since this moment can be gone yet."""
        if not since_ms:
            return False
        age_ms = round(self.streams.clock.now_s() * 1000) - since_ms + ODD_CLOCK_MS
        return age_ms < _LEAST_KEPT_MS or age_ms < self.streams.kept_ms(self.shard.stream)

    def _at(self, kind: str, number: int) -> str | None:
        """An iterator at a number; None if the shard does not know it."""
        try:
            return self._asked(ShardIteratorType=kind, StartingSequenceNumber=str(number))
        except Exception as error:
            if code_of(error) == INVALID:
                return None
            raise

    def _since(self, ms: int) -> str:
        return self._asked(ShardIteratorType="AT_TIMESTAMP", Timestamp=moment(ms))

    def _from_start(self) -> str:
        return self._asked(ShardIteratorType="TRIM_HORIZON")

    def _asked(self, **how: Any) -> str:
        told = self.client.get_shard_iterator(
            StreamName=self.shard.stream, ShardId=self.shard.shard_id, **how
        )
        return str(told["ShardIterator"])


def record_of(told: Mapping[str, Any]) -> Record:
    """A record, of an answer."""
    came_ms = round(told["ApproximateArrivalTimestamp"].timestamp() * 1000)
    return Record(int(told["SequenceNumber"]), came_ms, told["PartitionKey"], bytes(told["Data"]))
