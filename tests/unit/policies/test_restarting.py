"""What was left alone, and what of it is passed over: by what was said and what a log says."""

import pytest

from headrace.model.lineage import Parent
from headrace.model.places import OPEN
from headrace.model.restarts import Restart, RestartFrom, restart_of
from headrace.policies.restarting import (
    RestartEdges,
    is_left,
    movable,
    passed_over,
    unanswered,
)

NAMES = "restart_after", "max_age"
LATEST, POSITION = RestartFrom.LATEST, RestartFrom.POSITION


@pytest.mark.parametrize(
    ("silent_s", "restart", "left"),
    [
        (60.0, Restart(60.0), True),
        (59.9, Restart(60.0), False),
        (-5.0, Restart(60.0), False),
        (None, Restart(60.0), False),
        (1e9, None, False),
    ],
)
def test_a_stream_was_left_alone_when_nobody_committed_for_as_long_as_was_said(
    silent_s, restart, left
):
    assert is_left(silent_s, restart) is left


def edges(waited, fresh):
    return RestartEdges(dict.fromkeys(waited, 0), waited, fresh)


def test_where_nothing_that_is_left_has_waited_nothing_is_passed_over():
    """Its log lost some of it for want of room, which says nothing of how old that was."""
    places, fresh = {"a": 5}, {"a": 12}
    assert passed_over(places, RestartEdges({"a": 9}, {"a": 9}, fresh), {}) == {}
    assert passed_over(places, RestartEdges({"a": 9}, {"a": 10}, fresh), {}) == {"a": 12}


@pytest.mark.parametrize(
    ("places", "waited", "fresh", "to"),
    [
        # all that waits is passed over
        ({"a": 3, "b": 5}, {"a": 7, "b": 9}, {"a": 9, "b": 9}, {"a": 9, "b": 9}),
        # one lane that waited is enough for the stream
        ({"a": 3, "b": 5}, {"a": 7, "b": 0}, {"a": 9, "b": 9}, {"a": 9, "b": 9}),
        # nothing has waited for long enough
        ({"a": 3, "b": 5}, {"a": 3, "b": 4}, {"a": 9, "b": 9}, {}),
        ({"a": 9}, {"a": 9}, {"a": 9}, {}),
        # what is young enough is read, be it all
        ({"a": 3}, {"a": 7}, {"a": 5}, {"a": 5}),
        ({"a": 3}, {"a": 7}, {"a": 3}, {}),
        # none goes back, to an end that an old leader tells or to an older record
        ({"a": 3, "b": 8}, {"a": 7, "b": 9}, {"a": 9, "b": 6}, {"a": 9}),
        # of one that does not tell its end nobody knows where to go on
        ({"a": 3}, {"a": OPEN}, {"a": OPEN}, {}),
        ({}, {}, {}, {}),
    ],
)
def test_what_is_passed_over(places, waited, fresh, to):
    assert passed_over(places, edges(waited, fresh), {}) == to


def test_a_lane_that_others_follow_goes_no_further_than_they_begin():
    found = passed_over({"a": 3, "b": 8}, edges({"a": 9, "b": 9}, {"a": 9, "b": 9}), {"a": 8})
    assert found == {"a": 8, "b": 9}


def test_a_lane_that_is_done_does_not_wait_for_what_is_behind_its_end():
    """Its followers have that: one of the two buckets that a partition had before it had three."""
    places, log = {"old": 5, "new": 9}, edges({"old": 9, "new": 9}, {"old": 12, "new": 12})
    assert passed_over(places, log, {"old": 5}) == {}
    assert passed_over(places, log, {"old": 7}) == {"old": 7, "new": 12}


def test_a_lane_of_which_its_log_does_not_tell_is_named():
    places = {"a": 1, "b": 2}
    assert unanswered(places, edges({"a": 1, "b": 1}, {"a": 1})) == "b"
    assert unanswered(places, edges({"b": 1}, {"a": 1, "b": 2})) == "a"
    assert unanswered(places, edges({"a": 1, "b": 1}, {"a": 1, "b": 2})) is None


def test_a_lane_that_a_person_decides_about_stays_and_takes_those_along_that_it_is_merged_with():
    places = {"a": 1, "b": 2}
    assert movable(places, {"a"}, {}, merged=False) == {"b": 2}
    assert movable(places, {"a"}, {}, merged=True) == {}
    assert movable(places, set(), {}, merged=True) == places
    lineage = {"b": (Parent("c", 9),), "c": (Parent("a", 9),)}
    assert movable({**places, "d": 3}, {"a"}, lineage, merged=False) == {"d": 3}


def test_what_was_said_of_a_use_case():
    assert restart_of(POSITION, None, None, NAMES) is None
    assert restart_of(LATEST, 300, None, NAMES) == Restart(300.0)
    assert restart_of(LATEST, 300, 60.0, NAMES) == Restart(300.0, 60.0)


@pytest.mark.parametrize(
    ("said", "after_s", "max_age_s", "why"),
    [
        (LATEST, None, 5.0, "restart latest passes records over, so it needs restart_after"),
        (POSITION, 5.0, None, "restart_after is for restart latest"),
        (POSITION, None, 5.0, "max_age is for restart latest"),
        (LATEST, 0, None, "restart_after is a number of seconds above 0, not 0"),
        (LATEST, "5m", None, "restart_after is a number of seconds above 0, not '5m'"),
        (LATEST, float("nan"), None, "restart_after is a number of seconds above 0"),
        (LATEST, 5, float("inf"), "max_age is a number of seconds above 0, not inf"),
        (LATEST, 5, True, "max_age is a number of seconds above 0, not True"),
    ],
)
def test_what_makes_no_sense_is_told_by_name(said, after_s, max_age_s, why):
    with pytest.raises(ValueError, match=why):
        restart_of(said, after_s, max_age_s, NAMES)
