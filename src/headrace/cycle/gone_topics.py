"""Topics of a pattern that are gone, and that nothing is owed of any more.

Where topics come and go, a stream would keep the place of each one that ever was, and say of all of
them that they are not there. A topic that was deleted does not come again: another one of its name
has another id, and is read from its beginning. So it is forgotten when it was left out of all that
was told for an hour, the brokers then say by its name that there is none (of one that may not be
described they do not), and it was read to the end that its log had. What was not read to the end,
or has a failure or something recorded, stays: that somebody has to know of, who gives it up by a
seek. So does one whose end this driver was never told: one that went away before the driver that
holds the stream was started, or took the stream up, is never forgotten by itself.

This only decides. A list is said by people, and what is in it is not forgotten.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headrace.board import HeldStream, Lane
from headrace.model.places import UNKNOWN
from headrace.model.topic_lists import topic_of_lane
from headrace.model.topic_patterns import is_pattern

#: monotonic seconds for which a topic is told by nobody before it may be forgotten
GONE_FOR_S: Final = 3600.0


def note_missing(held: HeldStream, missing: Collection[str], now_s: float) -> None:
    """Remember since when topics of a pattern were told by nobody."""
    if held.missing_since or (missing and is_pattern(held.stream.topic)):
        held.missing_since = {one: held.missing_since.get(one, now_s) for one in missing}


def over(held: HeldStream, now_s: float) -> frozenset[str]:
    """Topics to be forgotten, should brokers say that they are not there."""
    due = {one for one, since_s in held.missing_since.items() if now_s - since_s >= GONE_FOR_S}
    if not due:
        return frozenset()
    owed = {
        topic_of_lane(name, held.stream.topic)
        for name, lane in held.lanes.items()
        if _is_owed(lane)
    }
    return frozenset(due - owed)


def _is_owed(lane: Lane) -> bool:
    """Whether something of it is to be done, or is somebody's to decide."""
    unread = lane.end == UNKNOWN or lane.position < lane.end
    stopped = lane.failure is not None or lane.aside is not None
    return unread or stopped or lane.wave is not None
