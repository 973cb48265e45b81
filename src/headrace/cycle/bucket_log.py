"""A log as it is asked about buckets: about the lanes that they are of, once for all of these.

A log knows nothing of buckets (`model/buckets.py`). Where its lanes begin and end, their buckets
do, and places in these are its own. Which lanes are divided is not decided here (`divisions.py`),
and a topic has the lanes that its log gives it. Nor does a log know of lists (`described.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.cycle.described import absent, described
from headrace.model.buckets import by_whole_lane
from headrace.model.places import Place, Places
from headrace.ports import Log, TopicInfo


@dataclass(frozen=True, slots=True)
class BucketLog:
    """Implements ``headrace.ports.Log`` on a log, for names of buckets as well."""

    log: Log

    def of(self, topic: str) -> BucketLog:
        """That which has the topic."""
        return BucketLog(self.log.of(topic))

    @property
    def places(self) -> Places:
        """Those of the log."""
        return self.log.places

    @property
    def tells_ends(self) -> bool:
        """As the log does."""
        return self.log.tells_ends

    @property
    def tells_starts(self) -> bool:
        """As the log does."""
        return self.log.tells_starts

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """With the lanes of the log; of lists as well."""
        return described(self.log, names)

    def all_topics(self) -> Collection[str]:
        """Those of the log."""
        return self.log.all_topics()

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Topics that are surely not there, and lists of which none is."""
        return absent(self.log, names)

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes, or those they are of, end."""
        return _asked(lanes, self.log.end_offsets)

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes, or those they are of, begin."""
        return _asked(lanes, self.log.start_offsets)

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """Where lanes, or those they are of, were at a time."""
        return _asked(lanes, lambda wholes: self.log.offsets_at(wholes, timestamp_s))

    def doubt(self, lanes: Collection[str]) -> None:
        """Forget who leads these."""
        self.log.doubt(list(by_whole_lane(lanes)))

    def close(self) -> None:
        """Close the log."""
        self.log.close()


def _asked(
    lanes: Collection[str], ask: Callable[[Collection[str]], dict[str, Place]]
) -> dict[str, Place]:
    if not any("#" in name for name in lanes):
        return ask(lanes)
    wholes = by_whole_lane(lanes)
    found = ask(list(wholes))
    return {name: found[lane] for lane, names in wholes.items() if lane in found for name in names}
