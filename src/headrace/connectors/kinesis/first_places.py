"""Where a shard begins, or what was its first record at a time, found by reading.

The service looks a shard through for minutes at a time, and its answers are empty where nothing
came. So a search takes a few answers, and is gone on with later where it had no end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.connectors.kinesis.client import (
    EXPIRED,
    Kinesis,
    Spent,
    code_of,
    moment,
    told_at_ms,
    translated,
)
from headrace.connectors.kinesis.shards import ShardOf
from headrace.connectors.kinesis.spots import END, before, passed, since
from headrace.connectors.kinesis.walk import MARGIN_MS, record_of
from headrace.model.places import OPEN, Place
from headrace.ports import STILL_TO_COME, Clock

_MOST_ANSWERS = 4
#: moments are asked for by the second, in which a shard takes so many records
_OF_A_SECOND = 1000


@dataclass(slots=True)
class Search:
    """Looks for the first record of a shard that is left, or that is not older than a moment."""

    client: Kinesis
    clock: Clock
    shard: ShardOf
    #: what its numbers start above
    starting: int
    #: in seconds since 1970; None: the first that is left; `STILL_TO_COME`: that comes from now on
    since_s: float | None = None
    _iterator: str | None = None

    def go_on(self) -> Place | None:
        """The place, once it is known.

        Raises:
            HeadraceError: the shard is not there, or cannot be asked.
        """
        try:
            return self._answered()
        except Exception as error:
            self._iterator = None if code_of(error) == EXPIRED else self._iterator
            trouble = translated(error, f"{self.shard.shard_id} of stream {self.shard.stream}")
            if code_of(error) == EXPIRED or isinstance(trouble, Spent):
                return None
            raise trouble from error

    def _answered(self) -> Place | None:
        if self._since_ms is not None and self._since_ms > self.clock.now_s() * 1000:
            return OPEN
        if self._iterator is None:
            self._iterator = self._opened()
        limit = 1 if self._since_ms is None else _OF_A_SECOND
        for _ in range(_MOST_ANSWERS):
            told = self.client.get_records(ShardIterator=self._iterator, Limit=limit)
            place = self._place(told, limit)
            if place is not None:
                return place
            self._iterator = told["NextShardIterator"]
        return None

    def _opened(self) -> str:
        how: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if self._is_latest:
            how = {"ShardIteratorType": "LATEST"}
        elif self._since_ms is not None:
            how = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment(self._since_ms)}
        told = self.client.get_shard_iterator(
            StreamName=self.shard.stream, ShardId=self.shard.shard_id, **how
        )
        return str(told["ShardIterator"])

    def _place(self, told: Mapping[str, Any], limit: int) -> Place | None:
        """What an answer says; None if it says nothing."""
        records = [record_of(one) for one in told["Records"]]
        for record in records:
            if self._since_ms is None or record.came_ms >= self._since_ms:
                return before(record.number)
        if not told.get("NextShardIterator"):
            return END
        if told["MillisBehindLatest"] or len(records) >= limit:
            return None
        at_ms = told_at_ms(told, self.clock.now_s())
        if self.since_s is None:
            return passed(self.starting, at_ms - MARGIN_MS)
        # Who reads on from a moment looks a margin before it, and nothing older is wanted.
        since_ms = at_ms if self._since_ms is None else self._since_ms
        return since(self.starting, max(since_ms + MARGIN_MS, at_ms - MARGIN_MS))

    @property
    def _is_latest(self) -> bool:
        return self.since_s == STILL_TO_COME

    @property
    def _since_ms(self) -> int | None:
        """The moment that is searched for, if it is one."""
        return None if self.since_s is None or self._is_latest else round(self.since_s * 1000)
