"""Lanes that follow others: what opens one, and what is known of its parents."""

import pytest

from headrace.model.lineage import (
    Ahead,
    Parent,
    ahead,
    begun,
    bounded,
    closed,
    ends_in,
    waits_told,
    without,
)

#: one is split, and then its halves are merged again
LINEAGE = {
    "left": (Parent("old", 9),),
    "right": (Parent("old", 9),),
    "merged": (Parent("left", 4), Parent("right", 0)),
}


def waiting(**places):
    return {name: [lane.lane for lane in of] for name, of in closed(LINEAGE, places).items()}


def test_a_lane_is_closed_until_its_parent_is_at_its_end():
    assert waiting(old=8, left=0, right=0)["left"] == ["old"]
    assert "left" not in waiting(old=9, left=0, right=0)


def test_a_lane_of_two_waits_for_both():
    assert waiting(old=9, left=3, right=0) == {"merged": ["left"]}
    assert waiting(old=9, left=4, right=0) == {}


def test_a_parent_without_a_record_opens_nothing_before_its_own_parents_are_done():
    assert "old" in waiting(old=0, left=4, right=0)["merged"]


def test_a_parent_that_is_nowhere_yet_is_not_done():
    assert ahead("left", LINEAGE, {}) == (Ahead("old", -1, 9),)


def test_what_was_decided_about_is_not_waited_for():
    assert closed({"left": without(LINEAGE["left"], {"old"})}, {"left": 0}) == {}


def test_what_a_lane_waits_for_is_told():
    told = waits_told(closed(LINEAGE, {"old": 5, "left": 0, "right": 0}))
    assert told == "left waits for its parents: old (at 5 of 9) (2 more wait)"
    assert waits_told({}) == ""


@pytest.mark.parametrize(
    ("parents", "found"),
    [
        ((Parent("old", 9),), (Parent("old", 9),)),
        # its log forgot where it ended, and a sibling knows
        ((Parent("left", None),), (Parent("left", 4),)),
        # nobody knows where it ended: somebody has to decide
        ((Parent("right", None),), None),
        # it was there before the stream
        ((Parent("before", None),), (Parent("before", None),)),
        # it gets its own place first
        ((Parent("new", 3),), None),
    ],
)
def test_a_lane_begins_when_it_can_be_said_what_it_follows(parents, found):
    assert begun(parents, {"old", "new"}, {"old", "left", "right"}, {"left": 4}) == found


def test_within_a_range_lanes_follow_what_is_in_it():
    assert bounded(LINEAGE, {"old": 5, "merged": 2, "left": 3}) == {
        "left": (Parent("old", 5),),
        "merged": (Parent("left", 3), Parent("old", 5)),
    }


def test_ends_of_parents_are_known_from_their_children():
    assert ends_in(LINEAGE, {"other": (Parent("gone", None),)}) == {
        "old": 9,
        "left": 4,
        "right": 0,
    }
