"""What history keeps: fine for what is fresh, coarse for what is older, nothing after a day.

Somebody who opens the console wants to see the last minutes in detail and the last day as a shape.
So a point spans a minute for two hours, then ten minutes until it is a day old. For a stream that
is busy all day that is 252 points at most, whatever happens.

Nothing here touches a store: this says which points become one, and what that one is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from itertools import groupby

from headrace.model.statistics import Point
from headrace.model.streams import StreamId
from headrace.telemetry.sketches import COARSE, merged, packed, spread_of, unpacked

#: how long a fresh point spans
FRESH_SPAN_S = 60.0
#: how long one that is older spans
OLD_SPAN_S = 600.0
#: a point stays fresh for so long
FRESH_FOR_S = 2 * 3600.0
#: and is dropped after so long
KEPT_FOR_S = 24 * 3600.0


def old_before_s(now_s: float) -> float:
    """Fresh points that begin before this are to be merged: whole spans of them at once."""
    return began_s(now_s - FRESH_FOR_S, OLD_SPAN_S)


def dropped_before_s(now_s: float) -> float:
    """Points that begin before this are to be dropped."""
    return now_s - KEPT_FOR_S


def began_s(at_s: float, span_s: float) -> float:
    """Where the span that holds this time begins: spans begin at multiples of their length."""
    return math.floor(at_s / span_s) * span_s


def one_of(points: Collection[Point]) -> Point:
    """Points of one stream within one long span, as one."""
    first = next(iter(points))
    sketch = merged((unpacked(point.sketch) for point in points), COARSE)
    return Point(
        stream=first.stream,
        from_s=began_s(first.from_s, OLD_SPAN_S),
        span_s=OLD_SPAN_S,
        lag_records=max(point.lag_records for point in points),
        lag_s=max(point.lag_s for point in points),
        records_in=sum(point.records_in for point in points),
        records_out=sum(point.records_out for point in points),
        task_s=sum(point.task_s for point in points),
        delay=spread_of(sketch),
        sketch=packed(sketch),
    )


def thinned(points: Iterable[Point]) -> list[Point]:
    """Points, fresh or merged before, as one for each stream and long span."""
    in_order = sorted(points, key=_place)
    return [one_of(list(same)) for _, same in groupby(in_order, key=_place)]


def _place(point: Point) -> tuple[StreamId, float]:
    return (point.stream, began_s(point.from_s, OLD_SPAN_S))


def shortest(points: Iterable[Point]) -> list[Point]:
    """By stream and time, without long spans of which a part is told by shorter ones."""
    in_order = sorted(points, key=lambda point: (point.stream, point.from_s, point.span_s))
    fine = {_place(point) for point in in_order if point.span_s < OLD_SPAN_S}
    return [point for point in in_order if point.span_s < OLD_SPAN_S or _place(point) not in fine]
