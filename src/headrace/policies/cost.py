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

That alone cannot tell a handler that takes two seconds for a call, whatever it is given, from one
that takes ten milliseconds for each of two hundred records: the figure with the larger part takes
the error, and keeps the larger part. The planner then makes slices smaller, the records look dearer
still, and in the end each slice has one record (a *spiral*). So slices that come back one after the
other are compared (`Contrast`). Where one has twice the records of the other, does it take twice as
long, or as long? This growth of log seconds by log records, averaged over pairs by the square of
how far they differ, is held against the growth that the two figures say there is. Where the two are
further apart than chance makes them, both figures move, so that a slice as large as the last one is
still predicted as before. Neighbours are compared and not averages, since a handler that has become
slower, and then gets smaller slices, must not look like a fixed cost.

Worked example: slices of 200, 92 and 45 records take 2 s each. From the first it looked like 10 ms
a record. The pairs say that a slice of half the size takes as long, so slices are not made smaller
any more, and after a few of 45 the next one has 554. It takes 2 s as well, and the one after it has
2,216.

On a stream whose slices all have one size nothing is known but their cost; the planner then tries
another size (`planning.demand`). It knows no time of day and no trend. Calls that are short and ten
times as long strictly in turns fall in step with the sizes, as each long one is followed by a
shorter slice; then the pairs mislead, and such a stream may still end in slices of few records.
Where chance says which call is long, or the two differ by a factor of two, it does not.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.model.plans import Contrast, Cost

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
#: what of the weight of earlier pairs is left after a receipt
_KEPT = 0.95
#: a pair differs by so much at least, and counts as no more than one of fifty times the size
_LEAST_PAIR, _MOST_PAIR = math.log(1.3), math.log(50.0) ** 2
#: a pair of receipts, each with its noise, grows by no more and no less than this
_GROWTH = (-0.5, 1.5)
#: weight of what the two figures say themselves
_PRIOR = 0.5
#: the figures are not held to what chance can make of pairs of weight 1, nor closer than the second
_LEEWAY, _LEAST_LEEWAY = 0.3, 0.1


def learn(
    cost: Cost, records: int, bytes_: int, seconds: float, planned: int | None = None
) -> Cost:
    """Take one receipt into the averages.

    The error is cut to a fifth and to five times the prediction. So one receipt at most doubles or
    halves any prediction once there are five, and multiplies or divides it by at most six before. A
    stream that becomes ten times slower is known to be so after about ten receipts.

    Args:
        cost: what was known before.
        records: records of the slice; 0 (a slice of gaps) teaches the fixed seconds only.
        bytes_: bytes of keys and values of these records.
        seconds: task-seconds it took. Not finite or negative is a broken clock and ignored.
        planned: how many records it might have had, if not the same.

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
    contrast = _compared(cost.contrast, records, seconds, records if planned is None else planned)
    slice_step, record_step = _divided(cost, contrast)
    slice_step += _bounded(gain_slice * error, most)
    record_step += _bounded(gain_record * error, most)
    return replace(
        cost,
        seconds_per_slice=_moved(cost.seconds_per_slice, slice_step, most, _SLICE_S),
        seconds_per_record=_moved(cost.seconds_per_record, record_step, most, _RECORD_S),
        bytes_per_record=_bytes_per_record(cost, records, bytes_),
        doubt_slice=in_slice * (1.0 - gain_slice * fixed),
        doubt_record=in_record * (1.0 - gain_record * growing),
        spread=cost.spread + _WEIGHT * (abs(error) - cost.spread),
        samples=cost.samples + 1,
        contrast=contrast,
    )


def learn_guessed(cost: Cost, records: int, bytes_: int, seconds: float, guessed: int) -> Cost:
    """Take in a receipt of a slice that was planned by a guess of its records, as a bucket's is.

    Where it had fewer, its seconds were spent on reading those of others. The planner knows no
    other measure of that than the guess, so it counts as if they had been there. But of a slice
    without any nothing is known of what handling takes, so it makes no stream a known one.

    Args:
        cost: what was known before.
        records: records of the slice; may be 0.
        bytes_: bytes of keys and values of these records.
        seconds: task-seconds it took.
        guessed: how many there were to be, at least 1.

    >>> empty = learn_guessed(Cost(), 0, 0, 0.2, 1000)
    >>> empty.samples, empty.bytes_per_record == Cost().bytes_per_record
    (0, True)
    >>> empty.seconds_per_slice + 1000 * empty.seconds_per_record > 0.1
    True
    """
    unseen_bytes = max(0, guessed - records) * cost.bytes_per_record
    learned = learn(cost, max(records, guessed), bytes_ + round(unseen_bytes), seconds)
    return learned if records else replace(learned, samples=cost.samples)


def _compared(contrast: Contrast, records: int, seconds: float, planned: int) -> Contrast:
    """Compare a slice with the one before it, if they differ in size."""
    if not records or not seconds:
        return contrast
    weight = contrast.weight * _KEPT
    kept = replace(contrast, records=records, planned=planned, seconds=seconds, weight=weight)
    larger = math.log(records / contrast.records) if contrast.records else 0.0
    if abs(larger) < _LEAST_PAIR:
        return kept
    growing = _within(_GROWTH, (math.log(seconds) - math.log(contrast.seconds)) / larger)
    pair = min(larger**2, _MOST_PAIR)
    part = pair / (weight + pair)
    between = math.log(records) - larger / 2
    return replace(
        kept,
        weight=weight + pair,
        growing=contrast.growing + part * (growing - contrast.growing),
        log_records=contrast.log_records + part * (between - contrast.log_records),
        log_width=contrast.log_width + part * (abs(larger) - contrast.log_width),
    )


def _divided(cost: Cost, contrast: Contrast) -> tuple[float, float]:
    """How far the logarithms of the two figures have to move for what pairs of slices told.

    What they say together of a slice as large as the last one stays as it is.
    """
    if not contrast.weight:
        return 0.0, 0.0
    fixed_s, record_s = cost.seconds_per_slice, cost.seconds_per_record
    width = contrast.log_width
    few, many = (math.exp(contrast.log_records + part * width) for part in (-0.5, 0.5))
    growing = math.log((fixed_s + many * record_s) / (fixed_s + few * record_s)) / width
    told = (contrast.weight * contrast.growing + _PRIOR * growing) / (contrast.weight + _PRIOR)
    leeway = max(_LEAST_LEEWAY, _LEEWAY / math.sqrt(contrast.weight))
    wanted = _within((told - leeway, told + leeway), growing)
    wanted = _within((min(growing, _LEAST_LEEWAY), max(growing, 1.0 - _LEAST_LEEWAY)), wanted)
    if wanted == growing:
        return 0.0, 0.0
    times = math.exp(wanted * width)
    ratio = max(_RECORD_S[0] / _SLICE_S[1], (times - 1.0) / (many - times * few))
    last_s = fixed_s + contrast.records * record_s
    wanted_s = last_s / (1.0 + ratio * contrast.records)
    return math.log(wanted_s / fixed_s), math.log(ratio * wanted_s / record_s)


def _moved(figure: float, step: float, most: float, bounds: tuple[float, float]) -> float:
    return _within(bounds, figure * math.exp(_bounded(step, most)))


def _bounded(step: float, most: float) -> float:
    return _within((-most, most), step)


def _bytes_per_record(cost: Cost, records: int, bytes_: int) -> float:
    if records == 0 or bytes_ < 0:
        return cost.bytes_per_record
    known, weight = cost.bytes_per_record, max(_WEIGHT, 1.0 / (cost.samples + 1))
    seen = min(max(bytes_ / records, known / _FACTOR), known * _FACTOR)
    return _within(_RECORD_BYTES, known + weight * (seen - known))


def _within(bounds: tuple[float, float], value: float) -> float:
    return min(max(value, bounds[0]), bounds[1])
