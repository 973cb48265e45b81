"""Few bins, none over the budget, and close to the best there is."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from planning_cases import QUICK, snapshot, stream

from headrace.model.plans import Limits
from headrace.planning.demand import find_demands
from headrace.planning.packing import equal_bins, fewest_bins, pack
from headrace.planning.slices import Cut

sizes = st.lists(st.integers(1, 1000), min_size=1, max_size=9)


def cuts_of(sizes_ms: list[int]) -> list[Cut]:
    """One stream with one lane for each size in milliseconds, longest first."""
    ordered = sorted(sizes_ms, reverse=True)
    views = [stream(f"t{number}", size) for number, size in enumerate(ordered)]
    return [
        Cut(demand, demand.lanes, demand.most, demand.records / 1000)
        for demand in find_demands(snapshot(*views))
    ]


def best(sizes_ms: list[int]) -> int:
    """Fewest bins of 1,000, by trying every subset that could fill one."""
    count = len(sizes_ms)
    total = [
        sum(size for bit, size in enumerate(sizes_ms) if mask >> bit & 1)
        for mask in range(1 << count)
    ]

    @cache
    def fewest(left: int) -> int:
        if not left:
            return 0
        found, part = count, left
        lowest = left & -left
        while part:
            if part & lowest and total[part] <= 1000:
                found = min(found, 1 + fewest(left & ~part))
            part = (part - 1) & left
        return found

    return fewest((1 << count) - 1)


def lengths(bins: list[list[Cut]]) -> list[float]:
    return [sum(item.room_s for item in one) for one in bins]


@given(sizes_ms=sizes)
@QUICK
def test_bins_are_few_against_brute_force(sizes_ms: list[int]) -> None:
    bins, over = fewest_bins(cuts_of(sizes_ms), len(sizes_ms), 1.0)
    assert not over
    assert max(lengths(bins)) <= 1.0 + 1e-6
    assert len(bins) <= 11 / 9 * best(sizes_ms) + 1


@given(sizes_ms=sizes, slots=st.integers(1, 4))
@QUICK
def test_what_is_trimmed_leaves_no_bin_half_empty(sizes_ms: list[int], slots: int) -> None:
    bins = pack(cuts_of(sizes_ms), slots, Limits(min_bin_s=9.0))
    assert len(bins) <= slots
    assert max(lengths(bins)) <= 1.0 + 1e-6
    packed_ms = round(sum(lengths(bins)) * 1000)
    assert packed_ms == sum(sizes_ms) or min(lengths(bins)) > 0.5


@given(sizes_ms=sizes, count=st.integers(1, 5))
@QUICK
def test_equal_bins_differ_by_at_most_one_cut(sizes_ms: list[int], count: int) -> None:
    spread = lengths(equal_bins(cuts_of(sizes_ms), count))
    assert max(spread) - min(spread) <= max(sizes_ms) / 1000 + 1e-6


def test_a_bin_is_opened_only_for_work_that_is_worth_it() -> None:
    cuts = cuts_of([60] * 6)
    assert len(pack(cuts, 4, Limits(min_bin_s=0.2))) == 1
    assert len(pack(cuts, 4, Limits(min_bin_s=0.1))) == 3
