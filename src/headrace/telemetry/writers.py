"""By which schemas a stream's records were written, over the last hour.

An operator who sees that a new version came, and when, knows why a stream behaves otherwise since.
Workers count by the ids that records carry, and tell it with their receipts. Whoever may write
records may make up ids, so a stream remembers few of them, those that came last, and counts the
others together.

What was counted goes into buckets of five minutes; those older than an hour are forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.receipts import MOST_WRITERS, Writer, WrittenBy
from headrace.model.statistics import WriterFigures

BUCKET_S = 300.0
#: the one that runs, and those before it
_BUCKETS = 12
#: what is older is told to nobody
KEPT_S = _BUCKETS * BUCKET_S


@dataclass(slots=True)
class _Seen:
    first_s: float
    last_s: float
    #: records, by number of the bucket
    buckets: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class SeenWriters:
    """Who wrote the records of one stream."""

    #: whoever was seen last comes last
    _seen: dict[Writer, _Seen] = field(default_factory=dict)
    _forgets_at_s: float = math.inf

    def add(self, writers: Iterable[WrittenBy], now_s: float) -> None:
        """Count records that were committed now."""
        bucket = int(now_s // BUCKET_S)
        for writer, records in writers:
            seen = self._seen.pop(writer, None) or _Seen(now_s, now_s)
            seen.buckets[bucket] = seen.buckets.get(bucket, 0) + records
            seen.first_s, seen.last_s = min(seen.first_s, now_s), now_s
            self._seen[writer] = seen
        self._forgets_at_s = min(self._forgets_at_s, (bucket + _BUCKETS) * BUCKET_S)
        self._count_together()

    def forgets(self, now_s: float) -> bool:
        """Whether something of it is older than an hour by now."""
        return now_s >= self._forgets_at_s

    def figures(self, now_s: float) -> tuple[WriterFigures, ...]:
        """What came within the hour, the newest first."""
        if self.forgets(now_s):
            self._forget(now_s)
        return tuple(
            WriterFigures(*writer, sum(seen.buckets.values()), seen.first_s, seen.last_s)
            for writer, seen in reversed(self._seen.items())
        )

    def _forget(self, now_s: float) -> None:
        oldest, left = int(now_s // BUCKET_S) - _BUCKETS + 1, math.inf
        for writer, seen in list(self._seen.items()):
            kept = {number: count for number, count in seen.buckets.items() if number >= oldest}
            if not kept:
                del self._seen[writer]
            elif len(kept) < len(seen.buckets):
                seen.buckets, seen.first_s = kept, max(seen.first_s, min(kept) * BUCKET_S)
            left = min(left, *kept, math.inf)
        self._forgets_at_s = (left + _BUCKETS) * BUCKET_S

    def _count_together(self) -> None:
        """Those that were not seen for longest, where there are too many."""
        named = [writer for writer in self._seen if writer.schema_id]
        for writer in named[: max(0, len(named) - MOST_WRITERS)]:
            gone = self._seen.pop(writer)
            others = self._seen.setdefault(
                Writer(writer.column, ""), _Seen(gone.first_s, gone.last_s)
            )
            others.first_s = min(others.first_s, gone.first_s)
            others.last_s = max(others.last_s, gone.last_s)
            for number, count in gone.buckets.items():
                others.buckets[number] = others.buckets.get(number, 0) + count
