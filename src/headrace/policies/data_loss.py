"""What a log no longer has, found by comparing where a lane stands with what is there.

Retention removes records before they were read, an unclean election cuts the end of a log, and a
topic can be deleted and made again under its name. Whoever reads on as if nothing had happened
loses records, or takes others for them, in silence. So a lane's position is held against the edges
of its log, and what does not fit is told by its exact places, with the place where the lane could
go on:

======================  ===========================  ================================
what happened           places told                  could go on at
======================  ===========================  ================================
retention overtook it   ``[position, start)``        the new start
the log was cut         ``[end, position)``: read    the new end
                        once, and gone since
its end was cut, with   ``[end, until)``: what it    the position
what the lane is        is stopped at, as far as
stopped at              it is gone
the topic is another    from the position on; what   its beginning; nowhere if it has no
                        there was after it is known  lane of that name
                        to nobody
the lane is not listed  from the position to its     nowhere: those that follow it
any more, and was not   end, where that is known     go on without it
done                    from its children
======================  ===========================  ================================

A log that ends too early is not believed at once. A leader that is cut off from its cluster does
not know that it is none any more, and tells the end it had: to go back by that would make effects
again, and to suspend would call a person for nothing. Only the session of such a broker ends it, so
a log counts as cut when every answer for longer than a session was too short. Nor is a list without
a lane believed at once, which may be in the next one, nor the id of another topic
(`cycle/topic_ids.py`). A beginning is believed: a broker that is cut
off removes what its cluster removes as well, by the same rules.

Whether it does go on is the use case's ``data_loss``; `cycle/losses.py` acts. A log that was cut
and has grown past the position since looks like one that was not, and cannot be told from it here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from headrace.model.lineage import Lineage
from headrace.model.places import FIRST, Place

#: errors of a slice that say nothing of records: the log itself has to be looked at
ABOUT_THE_LOG = frozenset({"OffsetOutOfRange", "TopicMissing"})
#: errors of a slice whose log did not answer
NOT_READ = frozenset({"BrokerUnavailable", "LeaderUnknown", "Temporary"})
#: how long every answer has to be too short. A broker that is cut off is replaced when its session
#: is over, which is 9 s (``broker.session.timeout.ms``) or, with ZooKeeper, 18 s; and an election
#: takes a moment.
CUT_PATIENCE_S = 20.0
#: how long every answer has to be without a lane, or of another topic
LIST_PATIENCE_S = 20.0
#: of a lane that no position is known of
NOWHERE = FIRST


class Loss(StrEnum):
    """What happened to a log."""

    RETENTION = "retention"  #: its beginning was removed, and records with it that were not read
    CUT = "cut"  #: it ends before what was read
    RECREATED = "recreated"  #: its topic was deleted, and another has its name
    EXPIRED = "expired"  #: it is not listed any more, and was not read to its end


@dataclass(frozen=True, slots=True)
class Lost:
    """What a lane lost, half-open, and where its log goes on."""

    loss: Loss
    from_place: Place
    until_place: Place
    go_on_at: Place

    @property
    def unread(self) -> bool:
        """Whether what is between these was never read."""
        return self.loss is not Loss.CUT


def lost_range(
    position: Place, start: Place | None, end: Place | None, had: Place | None = None
) -> Lost | None:
    """What a lane lost in a topic that is still the same; None if it stands inside its log.

    Args:
        position: the next place to read.
        start: the first place that is there; None if it cannot be had, which tells nothing.
        end: the place after the last one; None the same way.
        had: behind what the lane is stopped at, as its log had that; None if it is not.
    """
    if end is not None and had is not None and position <= end < had:
        # What it is stopped at is not there as a whole, and its places may be given anew. What
        # retention took before these as well is found when this is decided.
        return Lost(Loss.CUT, end, had, position)
    if start is not None and position < start:
        return Lost(Loss.RETENTION, position, start, start)
    if end is not None and end < position:
        # Two questions, two moments: retention may have come between them.
        return Lost(Loss.CUT, end, position, end if start is None else max(end, start))
    return None


@dataclass(frozen=True, slots=True)
class Short:
    """A log that told of too little at every look from one monotonic second to another.

    It ended before a position, did not list the lane at all, or was of another topic.
    """

    #: which it is too short for; of another topic its id
    position: Place | str
    #: when the first answer was there
    first_s: float
    #: when the last question was put; its answer may be as old, however late it is looked at
    last_s: float

    def lasts(self, patience_s: float) -> bool:
        """Whether it did so for long enough to be believed."""
        return self.last_s - self.first_s >= patience_s


def seen_short(
    before: Short | None, position: Place | str, asked_s: float, now_s: float, patience_s: float
) -> Short:
    """What is known after one more look that found a log too short.

    Args:
        before: what was known; None if the look before this one found it long enough.
        position: the next place to read, or the id of the other topic.
        asked_s: monotonic second at which the look began.
        now_s: monotonic.
        patience_s: of looks further apart than this the first does not count.
    """
    known = before is not None and before.position == position
    if before is None or not known or asked_s - before.last_s > patience_s:
        return Short(position, now_s, asked_s)
    return Short(position, before.first_s, asked_s)


def lost_lanes(
    listed: Collection[str], told: Lineage, kept: Lineage, places: Mapping[str, Place]
) -> dict[str, Lost]:
    """Lanes that their log does not list any more and that were not committed to their ends.

    Not only parents are looked for: a lane whose children went as well is lost all the same, and
    they are lost with it, though nobody ever saw them. That a lane is not listed says nothing of
    whether it was read.

    Args:
        listed: lanes that the log has.
        told: their parents, as the log says.
        kept: parents of the stream's lanes, as the store has them.
        places: where the stream's lanes are committed.
    """
    new = [parents for name, parents in told.items() if name not in places]
    ends: dict[str, list[Place]] = {}
    for lane, until in chain(*new, *kept.values()):
        if until is not None:
            ends.setdefault(lane, []).append(until)
    decided = {lane for lane, until in chain(*kept.values()) if until is None}
    found = {}
    for name in places.keys() - set(listed):
        at = places[name]
        until = max(ends.get(name, ()), default=None)
        if until is None or at < until:
            # Where nobody knows its end, nobody knows either that it was done.
            found[name] = Lost(Loss.EXPIRED, at, at if until is None else until, at)
    for lane, _ in chain(*new):
        if lane not in listed and lane not in places and lane not in decided:
            found[lane] = Lost(Loss.EXPIRED, NOWHERE, NOWHERE, NOWHERE)
    return found


def lost_topic(position: Place, start: Place | None) -> Lost:
    """What a lane lost with its topic.

    Args:
        position: the next place of the old topic, as far as anybody knows its end as well.
        start: the first place of the new one; None: that has no lane of this name, and where one
            would begin only its log can say, once it is there.
    """
    return Lost(Loss.RECREATED, position, position, position if start is None else start)
