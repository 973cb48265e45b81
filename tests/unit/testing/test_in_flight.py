"""The count of slices that faults took finds more of them than faults would explain."""

from headrace.testing.in_flight import Made, slices_again, slices_never
from headrace.testing.ledger import Place

LANE = ("acme.visits", 0)


def slice_of(begin, end, lane=LANE):
    return [Made(Place(*lane, at), begin, end) for at in range(begin, end)]


def places(begin, end):
    return [Place(*LANE, at) for at in range(begin, end)]


def test_what_was_made_once_was_not_made_again():
    assert not slices_again(slice_of(0, 5) + slice_of(5, 9))


def test_a_slice_that_was_in_flight_counts_once_however_it_is_cut_the_second_time():
    made = slice_of(0, 10) + slice_of(0, 4) + slice_of(4, 10) + slice_of(10, 12)
    assert slices_again(made) == {LANE: 1}


def test_neighbouring_slices_are_each_one():
    made = [effect for at in range(5) for effect in slice_of(2 * at, 2 * at + 2)]
    assert slices_again(made + slice_of(0, 10)) == {LANE: 5}


def test_a_slice_that_is_made_three_times_was_in_flight_twice():
    assert slices_again(slice_of(0, 3) * 3) == {LANE: 2}


def test_a_second_fault_may_meet_what_the_first_one_repeated():
    made = slice_of(0, 10) + slice_of(0, 4) + slice_of(0, 4) + slice_of(4, 10)
    assert slices_again(made) == {LANE: 2}


def test_lanes_are_counted_apart():
    other = ("bolt.visits", 1)
    made = slice_of(0, 3) * 2 + slice_of(0, 3, other) * 2
    assert slices_again(made) == {LANE: 1, other: 1}


def test_a_run_that_is_missing_is_as_many_slices_as_it_is_too_long_for_one():
    assert slices_never(places(5, 15), largest=10) == {LANE: 1}
    assert slices_never(places(5, 16), largest=10) == {LANE: 2}
    assert slices_never(places(5, 7) + places(9, 10), largest=10) == {LANE: 2}


def test_where_nothing_was_ever_made_each_record_counts():
    assert slices_never(places(0, 100), largest=1) == {LANE: 100}
