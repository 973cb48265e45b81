"""What of a merged portion is each lane's own.

With order ``stream`` one call handles the records of several lanes, one of which may have brought
nearly all of them. Costs are learnt and counted lane by lane, so figures of the whole portion are
shared out by what is each lane's own, and the parts always add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from headrace.model.lane_names import taken_apart
from headrace.spark.portions import Portion
from headrace.spark.row_places import lanes_of_rows


def tables_of(portion: Portion) -> list[pa.Table]:
    """The records of each planned slice, in their order."""
    lanes = lanes_of_rows(portion.records)
    order = np.argsort(lanes, kind="stable")
    sorted_, lanes = portion.records.take(order), lanes[order]
    wanted = np.arange(len(portion.planned))
    starts, ends = (np.searchsorted(lanes, wanted, side) for side in ("left", "right"))
    return [
        sorted_.slice(int(start), int(end - start)) for start, end in zip(starts, ends, strict=True)
    ]


def counts_of(portion: Portion) -> list[int]:
    """How many of the records each planned slice has."""
    if len(portion.planned) == 1:
        return [portion.records.num_rows]
    counts: list[int] = np.bincount(
        lanes_of_rows(portion.records), minlength=len(portion.planned)
    ).tolist()
    return counts


def fractions_of(portion: Portion) -> list[float]:
    """The fraction of the records that each planned slice has; they add up to 1."""
    count, whole = len(portion.planned), portion.records.num_rows
    if count == 1 or not whole:
        return [1 / count] * count
    return [own / whole for own in counts_of(portion)]


def unnumbered(portion: Portion) -> dict[tuple[str, int], str]:
    """Lanes without a number in their names, by what their records have as topic and partition."""
    if all(taken_apart(piece.lane.name) for piece in portion.planned):
        return {}
    lanes, rows = np.unique(lanes_of_rows(portion.records), return_index=True)
    said = portion.records.select(["topic", "partition"]).take(rows).to_pylist()
    return {
        (row["topic"], row["partition"]): portion.planned[lane].lane.name
        for lane, row in zip(lanes, said, strict=True)
    }


def spread(whole: int, weights: Sequence[int]) -> list[int]:
    """Share a whole number out by weights; the parts add up to it.

    Without any weight the first has it all.
    """
    sums = list(accumulate(weights, initial=0))
    if not sums[-1]:
        return [whole, *[0] * (len(weights) - 1)]
    return [whole * upto // sums[-1] - whole * since // sums[-1] for since, upto in pairwise(sums)]
