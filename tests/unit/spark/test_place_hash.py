"""Which bucket a place is in: for ever the same, and spread over all, however places are."""

from collections import Counter

import numpy as np
import pytest

from headrace.spark.place_hash import bucket_of_place, buckets_of_places

WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


def test_it_never_changes():
    assert [bucket_of_place(at, 64) for at in (0, 1, 2**63 - 1, WIDE)] == [47, 1, 45, 6]


@pytest.mark.parametrize("step", [1, 2, 16, 1 << 20])
def test_places_with_gaps_are_spread_over_all_buckets(step):
    counts = Counter(buckets_of_places(np.arange(16_000) * step, 16).tolist())
    assert len(counts) == 16
    assert max(counts.values()) < 1.2 * 1_000


@pytest.mark.parametrize("low", [1, 1 << 60, 1 << 120])
def test_all_digits_of_a_wide_place_count(low):
    places = np.array([WIDE + number * low for number in range(1_600)], np.object_)
    counts = Counter(buckets_of_places(places, 16).tolist())
    assert len(counts) == 16
    assert max(counts.values()) < 160


def test_one_place_is_where_it_is_among_others():
    found = buckets_of_places(np.arange(100), 7).tolist()
    assert found == [bucket_of_place(at, 7) for at in range(100)]
