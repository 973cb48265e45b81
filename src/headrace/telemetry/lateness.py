"""How late a lane is in seconds: how long ago its log ended where its position is now.

A lag in records says little: a thousand may be a second or a day. So for each lane that lags it is
remembered where its log ended when, and the moment when the end was at the position is read from
that, on a straight line between two looks, as kafka-lag-exporter does it. Where the position is
before everything remembered, the line is drawn on backwards at the rate seen since; without any
growth it is at least since the first look.

Timestamps of records play no part: producers write them as they like.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.model.places import Place, Places

#: looks remembered of a lane; with more of them every other one is forgotten
MOST_LOOKS = 30
#: a line drawn backwards ends here
MOST_S = 86_400.0


class EndSample(NamedTuple):
    """Where a log ended at a time."""

    at_s: float
    end: Place


def remembered(
    looks: tuple[EndSample, ...], new: EndSample, position: Place
) -> tuple[EndSample, ...]:
    """What to remember of a lane that lags, after one more look.

    Of the looks that the position has passed only the last one is still needed.
    """
    if len(looks) >= 2 and looks[-1].end == looks[-2].end == new.end:
        looks = looks[:-1]  # of a time without growth the first and the last look are enough
    looks = (*looks, new)
    passed = sum(look.end <= position for look in looks)
    looks = looks[max(0, passed - 1) :]
    if len(looks) > MOST_LOOKS:
        looks = (*looks[:-2:2], *looks[-2:])
    return looks


def lag_s(looks: tuple[EndSample, ...], position: Place, places: Places) -> float:
    """Seconds since the log ended at ``position``, as of the last look; 0 if it still does."""
    first, last = looks[0], looks[-1]
    if last.end <= position:
        return 0.0
    if first.end > position:
        return min(MOST_S, last.at_s - first.at_s + _before(first, last, position, places))
    number = max(n for n, look in enumerate(looks) if look.end <= position)
    here, after = looks[number], looks[number + 1]
    share = (places.between(position, here.end) or 0) / (places.between(after.end, here.end) or 1)
    return last.at_s - (here.at_s + share * (after.at_s - here.at_s))


def _before(first: EndSample, last: EndSample, position: Place, places: Places) -> float:
    """How long before the first look the end was at a position, if it always grew as since."""
    seconds = last.at_s - first.at_s
    if last.end <= first.end or seconds <= 0:
        return 0.0
    grown = places.between(last.end, first.end) or 1
    return (places.between(first.end, position) or 0) * seconds / grown
