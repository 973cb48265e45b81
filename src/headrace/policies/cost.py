"""What a stream's records cost, learnt from receipts.

The planner has to say how many seconds a slice will take before it runs. A slice costs something
fixed (assigning, fetching, calling the handler) and something for each record, and only their sum
is ever measured, on slices of very different size. So the error of each prediction is shared out
between the two: a slice of few records teaches the fixed seconds, a slice of many teaches the
seconds per record.

This is the normalised least-mean-squares step (J. Nagumo and A. Noda, "A learning method for
system identification", IEEE Trans. Automatic Control 12(3), 1967), taken relative to each figure,
with the error cut off before it is used, as P. Huber's estimators do ("Robust estimation of a
location parameter", 1964): one slow slice is a stutter, five are the truth. The spread is the
mean deviation that TCP keeps of its round trips (V. Jacobson, "Congestion avoidance and control",
SIGCOMM 1988; RFC 6298).

It cannot tell fixed from growing cost on a stream whose slices all have one size, and need not:
then it predicts that size. It knows no time of day and no trend.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.model.plans import Cost

#: share of a new receipt in the averages once there are some
_WEIGHT = 0.2
#: a slice counts as at most so many times, and at least one so-manyth of, its prediction
_FACTOR = 5.0
#: what no clock can tell from nothing, and what no budget could hold
_SLICE_S = (1e-5, 3_600.0)
_RECORD_S = (1e-8, 3_600.0)
_RECORD_BYTES = (1.0, 1e9)


def learn(cost: Cost, records: int, bytes_: int, seconds: float) -> Cost:
    """Take one receipt into the averages.

    The error is cut to a fifth and to five times the prediction. The prediction for this size then
    moves by a fifth of it (by all, a half, a third, a quarter for the first four receipts). So one
    receipt at most doubles any prediction once there are five, and multiplies it by less than six
    before. A stream that becomes ten times slower is known to be so after about ten receipts.

    Args:
        cost: what was known before.
        records: records of the slice; 0 (a slice of gaps) teaches the fixed seconds only.
        bytes_: bytes of keys and values of these records.
        seconds: task-seconds it took. Not finite or negative is a broken clock and ignored.

    Returns:
        New averages, always positive and finite, ``spread`` between 0 and 4.
    """
    if not math.isfinite(seconds) or seconds < 0.0 or records < 0:
        return cost
    weight = max(_WEIGHT, 1.0 / (cost.samples + 1))
    fixed_s, growing_s = cost.seconds_per_slice, records * cost.seconds_per_record
    predicted_s = fixed_s + growing_s
    error_s = min(max(seconds, predicted_s / _FACTOR), predicted_s * _FACTOR) - predicted_s
    # Squares, not the figures themselves: with these both would always move by the same factor,
    # and the two could never be told apart.
    step = weight * error_s / (fixed_s**2 + growing_s**2)
    return replace(
        cost,
        seconds_per_slice=_within(_SLICE_S, fixed_s * (1.0 + step * fixed_s)),
        seconds_per_record=_within(_RECORD_S, cost.seconds_per_record * (1.0 + step * growing_s)),
        bytes_per_record=_bytes_per_record(cost, records, bytes_, weight),
        spread=cost.spread + _WEIGHT * (abs(error_s) / predicted_s - cost.spread),
        samples=cost.samples + 1,
    )


def _bytes_per_record(cost: Cost, records: int, bytes_: int, weight: float) -> float:
    if records == 0 or bytes_ < 0:
        return cost.bytes_per_record
    known = cost.bytes_per_record
    seen = min(max(bytes_ / records, known / _FACTOR), known * _FACTOR)
    return _within(_RECORD_BYTES, known + weight * (seen - known))


def _within(bounds: tuple[float, float], value: float) -> float:
    return min(max(value, bounds[0]), bounds[1])
