"""What a stream's records cost, learnt from receipts.

The planner has to say how many seconds a slice will take before it runs. A slice costs something
fixed (assigning, fetching, calling the handler) and something for each record, and only their sum
is ever measured, on slices of very different size. So the error of each prediction is shared out
between the two: a slice of few records teaches the fixed seconds, a slice of many teaches the
seconds per record.

This is a Kalman filter (R. Kalman, "A new approach to linear filtering and prediction problems",
1960) over the logarithms of the two figures, without their covariance: each figure keeps its own
doubt, which grows a little with each receipt and shrinks with what a receipt tells of it, and the
figure in more doubt takes more of the error. R. Sutton found such doubts nearly as good as the full
matrix ("Gain adaptation beats least squares?", 1992); with it, receipts as noisy as ours threw the
figure they tell nothing of about. The error is cut off before it is used, as P. Huber's estimators
do ("Robust estimation of a location parameter", 1964): one slow slice is a stutter, five are the
truth. The spread is the mean deviation that TCP keeps of its round trips (V. Jacobson, "Congestion
avoidance and control", SIGCOMM 1988; RFC 6298).

It cannot tell fixed from growing cost on a stream whose slices all have one size: then what it says
of a size a hundred times as large may be wrong by as much, until slices of other sizes come. It
knows no time of day and no trend.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.model.plans import Cost

#: share of a new receipt in the averages once there are some
_WEIGHT = 0.2
#: a slice counts as at most so many times, and at least one so-manyth of, its prediction
_FACTOR = 5.0
#: how far one receipt moves either figure: among the first four, and later
_FIRST_STEP, _STEP = math.log(6.0), math.log(2.0)
#: variance of the seconds of a slice, relative to its prediction
_NOISE = 0.09
#: variance each receipt adds to either doubt, so that a steady stream learns with _WEIGHT
_DRIFT = _WEIGHT**2 / (1 - _WEIGHT) * _NOISE
#: a figure is never more in doubt than a first guess
_MOST_DOUBT_SLICE, _MOST_DOUBT_RECORD = Cost().doubt_slice, Cost().doubt_record
#: what no clock can tell from nothing, and what no budget could hold
_SLICE_S = (1e-5, 3_600.0)
_RECORD_S = (1e-8, 3_600.0)
_RECORD_BYTES = (1.0, 1e9)


def learn(cost: Cost, records: int, bytes_: int, seconds: float) -> Cost:
    """Take one receipt into the averages.

    The error is cut to a fifth and to five times the prediction. So one receipt at most doubles or
    halves any prediction once there are five, and multiplies or divides it by at most six before. A
    stream that becomes ten times slower is known to be so after about ten receipts.

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
    predicted_s = cost.seconds_per_slice + records * cost.seconds_per_record
    error = min(max(seconds / predicted_s, 1 / _FACTOR), _FACTOR) - 1.0
    fixed = cost.seconds_per_slice / predicted_s
    growing = 1.0 - fixed
    in_slice = min(cost.doubt_slice + _DRIFT, _MOST_DOUBT_SLICE)
    in_record = min(cost.doubt_record + _DRIFT, _MOST_DOUBT_RECORD)
    surprise = fixed**2 * in_slice + growing**2 * in_record + _NOISE
    gain_slice, gain_record = fixed * in_slice / surprise, growing * in_record / surprise
    most = _FIRST_STEP if cost.samples < 4 else _STEP
    return replace(
        cost,
        seconds_per_slice=_moved(cost.seconds_per_slice, gain_slice * error, most, _SLICE_S),
        seconds_per_record=_moved(cost.seconds_per_record, gain_record * error, most, _RECORD_S),
        bytes_per_record=_bytes_per_record(cost, records, bytes_),
        doubt_slice=in_slice * (1.0 - gain_slice * fixed),
        doubt_record=in_record * (1.0 - gain_record * growing),
        spread=cost.spread + _WEIGHT * (abs(error) - cost.spread),
        samples=cost.samples + 1,
    )


def _moved(figure: float, step: float, most: float, bounds: tuple[float, float]) -> float:
    return _within(bounds, figure * math.exp(min(max(step, -most), most)))


def _bytes_per_record(cost: Cost, records: int, bytes_: int) -> float:
    if records == 0 or bytes_ < 0:
        return cost.bytes_per_record
    known, weight = cost.bytes_per_record, max(_WEIGHT, 1.0 / (cost.samples + 1))
    seen = min(max(bytes_ / records, known / _FACTOR), known * _FACTOR)
    return _within(_RECORD_BYTES, known + weight * (seen - known))


def _within(bounds: tuple[float, float], value: float) -> float:
    return min(max(value, bounds[0]), bounds[1])
