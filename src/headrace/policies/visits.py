"""When a lane is looked at whose log does not say where it ends, and how much of it is taken then.

Of such a log only reading tells what waits. Each reading costs, and is often rationed; and what
nobody reads, nobody knows of. So a lane is *visited*: at once where the last visit did not come to
the end, soon where it found something, and ever more seldom where it found nothing, but never more
seldom than every `SELDOM_S`: else the first record after a quiet time would wait for ever.

A visit takes up to so many records as it is guessed to find, and more than the last one found: who
asked for one record would never see that there are a thousand. What it costs is settled afterwards
by what it found, so a guess that is too high costs nobody anything but room in a bin.

Where a log rations what it gives of a lane, that is a budget of all who read the lane, whichever
driver they are of. Each of them knows how many they are, and after a visit rests for as long as
what it took is worth, times as many: so all of them together take no more than there is, and nobody
has to be refused. A shard of Kinesis gives five answers a second; of three use cases that read it
each has one in a second, since a log counts seconds, and of a second's five no whole two are left
for each. Only then may a lane be visited more seldom than every `SELDOM_S`.

Nothing here is known; whoever shows it to people says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from headrace.model.receipts import Behind

#: a visit takes up to so many records, however few are guessed: they cost hardly more than one
LEAST = 16
#: and up to so many times what is guessed
MORE = 4
#: or what the last one took, if there was more
MORE_BEHIND = 16
#: pause after a visit that found something; logs that ration readings allow some five a second
SOON_S = 0.25
#: the longest pause: how late the first record after a quiet time may be seen
SELDOM_S = 2.0
#: part of what the last visit told in the rate that is remembered
_NEW_PART = 0.5
#: a quotient of floats that is a whole number may come out below it
_ROUNDING = 1e-9


def rest_s(spent_s: float, readers: int) -> float:
    """How long one of so many readers rests after a visit, so that their log refuses none of them.

    Args:
        spent_s: how many seconds' worth of what the log gives to all the visit took.
        readers: how many there are.
    """
    share_s = spent_s * max(1, readers)
    if not 0 < share_s < 1:
        return share_s
    return 1 / floor(1 / share_s + _ROUNDING)


@dataclass(frozen=True, slots=True)
class Visits:
    """What visits of a lane told so far."""

    #: no visit before this monotonic second
    due_s: float = 0.0
    #: records that the next one may take
    waits: int = LEAST
    #: the last one found something
    found: bool = False
    #: what its log said last; None: it was not visited yet
    behind: Behind | None = None
    #: when that was, in monotonic seconds
    at_s: float = 0.0
    #: records that come in a second, as far as visits tell
    rate_per_s: float = 0.0
    #: seconds until the next visit, when the last one was over
    pause_s: float = SOON_S

    def is_due(self, now_s: float) -> bool:
        """Whether a visit may find something; not of a lane that takes no more records."""
        sealed = self.behind is not None and self.behind.sealed
        return now_s >= self.due_s and not sealed

    def came_back(self, records: int, behind: Behind, now_s: float, readers: int = 1) -> Visits:
        """What is known after a visit that came to its end, of a lane that so many read."""
        if self.behind is not None and now_s > self.at_s:
            rate_per_s = records / (now_s - self.at_s)
            rate_per_s = self.rate_per_s + _NEW_PART * (rate_per_s - self.rate_per_s)
        else:
            rate_per_s = self.rate_per_s
        rests_s = rest_s(behind.spent_s, readers)
        pause_s = max(rests_s, SOON_S if records else min(SELDOM_S, 2 * self.pause_s))
        found = replace(self, found=records > 0, behind=behind, at_s=now_s, rate_per_s=rate_per_s)
        if behind.caught_up:
            guess = int(MORE * rate_per_s * pause_s)
            return replace(found, waits=max(LEAST, guess), pause_s=pause_s, due_s=now_s + pause_s)
        guess = max(MORE_BEHIND * records, int(rate_per_s * (behind.seconds or 0.0)))
        # One that found nothing and is not at the end is gone on with, but not as fast as can be.
        due_s = now_s + max(rests_s, 0.0 if records else SOON_S)
        return replace(found, waits=max(LEAST, guess), pause_s=SOON_S, due_s=due_s)

    @property
    def lag(self) -> int | None:
        """About how many records wait; None: they do, or may, and nobody can say how many."""
        if self.behind is None:
            return None
        if self.behind.caught_up:
            return 0
        guess = int(self.rate_per_s * (self.behind.seconds or 0.0))
        return guess or None


#: of a lane that was read to its end in an earlier life of its driver: nothing is asked of it
DONE = Visits(behind=Behind(0.0, sealed=True))
