"""Lanes whose ends only reading tells are looked at soon enough, and never for the last time."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.model.receipts import Behind
from headrace.policies.visits import LEAST, SELDOM_S, SOON_S, Visits, rest_s

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
    assert after.waits == 1600
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
    some.builds(Behind, some.none() | some.floats(0, 1e6), some.just(False), some.just(0.0)),
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


#: what an answer is worth where a log gives five in a second
ANSWER_S = 0.2


def test_where_nothing_is_rationed_nobody_rests():
    assert rest_s(0.0, 100) == 0.0


@pytest.mark.parametrize(
    ("readers", "seconds"), [(1, 0.2), (2, 0.5), (3, 1.0), (5, 1.0), (10, 2.0), (0, 0.2)]
)
def test_each_of_those_who_read_a_lane_has_whole_answers_of_a_second(readers, seconds):
    assert rest_s(ANSWER_S, readers) == pytest.approx(seconds)


def test_a_visit_that_took_much_rests_for_as_long_as_all_readers_would_take():
    assert rest_s(2.5, 3) == 7.5


def test_a_visit_comes_not_before_those_who_read_the_lane_as_well_had_their_part():
    alone = Visits().came_back(5, UP_TO_DATE._replace(spent_s=ANSWER_S), 100.0)
    assert alone.is_due(100.0 + SOON_S)
    with_others = Visits().came_back(5, UP_TO_DATE._replace(spent_s=ANSWER_S), 100.0, readers=3)
    assert (with_others.is_due(100.99), with_others.is_due(101.0)) == (False, True)
    goes_on = Visits().came_back(5, GOES_ON._replace(spent_s=2 * ANSWER_S), 100.0, readers=3)
    assert (goes_on.is_due(101.19), goes_on.is_due(101.2)) == (False, True)


def test_a_quiet_lane_of_many_readers_rests_for_longer_than_others_do():
    visits = Visits()
    for second in range(100):
        visits = visits.came_back(0, UP_TO_DATE._replace(spent_s=ANSWER_S), second, readers=20)
        assert (visits.is_due(second + 3.99), visits.is_due(second + 4.0)) == (False, True)


@given(
    some.integers(1, 5),
    some.lists(some.lists(some.floats(0, 3), min_size=5, max_size=5), min_size=2, max_size=30),
)
def test_however_late_each_comes_all_readers_never_ask_more_than_a_log_answers(readers, delays):
    asked = []
    for reader in range(readers):
        at_s = 0.0
        for delay_s in (late[reader] for late in delays):
            at_s += rest_s(ANSWER_S, readers) + delay_s
            asked.append(at_s)
    for at_s in asked:
        assert sum(at_s - 1 + 1e-6 < other <= at_s for other in asked) <= 5
