"""In how many places a bucket's next record is expected."""

import pytest

from headrace.policies.density import seen


def after(*slices, buckets=16, every=1.0):
    for places, records in slices:
        every = seen(every, places, records, buckets)
    return every


def test_it_grows_little_by_little_to_what_is_seen():
    assert [after(*[(160, 10)] * n) for n in range(4)] == [1.0, 4.0, 16.0, 16.0]


def test_where_records_come_closer_it_is_known_at_once():
    assert after((100, 100), every=16.0) == 1.0


def test_a_bucket_without_records_is_not_expected_to_stay_so():
    assert after(*[(10_000, 0)] * 20) == 64.0


@pytest.mark.parametrize("records", [0, 7])
def test_what_went_nowhere_tells_nothing(records):
    assert after((0, records), every=3.0) == 3.0
