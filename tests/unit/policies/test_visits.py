"""Lanes whose ends only reading tells are looked at soon enough, and never for the last time."""

from hypothesis import given
from hypothesis import strategies as some

from headrace.model.receipts import Behind
from headrace.policies.visits import LEAST, SELDOM_S, SOON_S, Visits

UP_TO_DATE, GOES_ON, SEALED = Behind(0.0), Behind(None), Behind(0.0, sealed=True)


def test_a_lane_that_was_never_visited_is_due_and_nobody_knows_what_waits():
    assert Visits().is_due(0.0)
    assert Visits().lag is None


def test_after_a_visit_that_found_something_the_next_comes_soon():
    after = Visits().came_back(5, UP_TO_DATE, 100.0)
    assert (after.is_due(100.0 + SOON_S - 0.01), after.is_due(100.0 + SOON_S)) == (False, True)
    assert (after.lag, after.found) == (0, True)


def test_one_that_did_not_come_to_the_end_is_gone_on_with_at_once_and_takes_more():
    after = Visits().came_back(100, GOES_ON, 100.0)
    assert after.is_due(100.0)
    assert after.waits == 400
    assert after.lag is None


def test_how_far_behind_it_is_says_about_how_much_waits():
    visits = Visits().came_back(0, UP_TO_DATE, 100.0).came_back(50, Behind(10.0), 101.0)
    assert visits.rate_per_s == 25.0
    assert visits.lag == 250


def test_how_far_behind_it_is_says_how_much_the_next_one_may_take():
    visits = Visits().came_back(0, UP_TO_DATE, 100.0).came_back(50, Behind(1000.0), 101.0)
    assert visits.waits == 25_000


def test_a_lane_that_takes_no_more_records_is_not_visited_again():
    assert not Visits().came_back(5, SEALED, 100.0).is_due(1e9)


def test_an_empty_answer_that_is_not_at_the_end_is_not_asked_as_fast_as_can_be():
    after = Visits().came_back(0, GOES_ON, 100.0)
    assert (after.is_due(100.0), after.is_due(100.0 + SOON_S)) == (False, True)


answers = some.tuples(
    some.integers(0, 10_000),
    some.builds(Behind, some.none() | some.floats(0, 1e6), some.just(False)),
    some.floats(0.001, 100.0),
)


@given(some.lists(answers, max_size=30))
def test_whatever_visits_find_there_is_another_one_before_long(found):
    visits, now_s = Visits(), 0.0
    for records, behind, pause_s in found:
        now_s += pause_s
        visits = visits.came_back(records, behind, now_s)
        assert visits.is_due(now_s + SELDOM_S)
        assert visits.waits >= LEAST
        assert visits.lag is None or visits.lag >= 0
