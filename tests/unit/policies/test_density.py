"""In how many places a bucket's next record is expected."""

import pytest

from headrace.policies.density import seen


def after(*slices, buckets=16, every=1.0):
    for places, records in slices:
        every = seen(every, places, records, buckets)
    return every


def test_it_grows_little_by_little_to_what_is_seen():
    assert [after(*[(160, 10)] * n) for n in (0, 1)] == [1.0, 4.0]
    assert after(*[(160, 10)] * 9) == pytest.approx(16.0, rel=0.01)


def test_where_records_come_closer_it_is_known_at_once():
    assert after((100, 100), every=16.0) < 1.6
    assert after(*[(100, 100)] * 2, every=16.0) < 1.03


def test_a_few_records_that_came_by_chance_tell_little():
    """A bin of slices that were planned by such guesses took a quarter, or twice, of its time."""
    assert 10.0 < after((32, 5), every=16.0) < after((32, 1), every=16.0) < 20.0


def test_a_bucket_without_records_is_not_expected_to_stay_so():
    assert after(*[(10_000, 0)] * 20) == 64.0


@pytest.mark.parametrize("records", [0, 7])
def test_what_went_nowhere_tells_nothing(records):
    assert after((0, records), every=3.0) == 3.0
