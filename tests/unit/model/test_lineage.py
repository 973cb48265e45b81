"""Lanes that follow others: what opens one, and what is known of its parents."""

import pytest

from headrace.model.lineage import (
    Ahead,
    Parent,
    ahead,
    begun,
    bounded,
    closed,
    depths,
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


def test_lanes_of_very_many_generations_are_each_deeper_than_the_one_before():
    lineage = {f"lane {n}": (Parent(f"lane {n - 1}", 1),) for n in range(1, 5000)}
    names = ["lane 0", *lineage]
    for order in (names, reversed(names)):
        assert depths(order, lineage, {}, 3) == {f"lane {n}": 3 + n for n in range(5000)}


def test_a_lane_is_deeper_than_the_deepest_that_it_follows_and_than_any_where_nobody_knows_one():
    lineage = {**LINEAGE, "last": (Parent("merged", 1), Parent("old", 9)), "odd": (Parent("x", 1),)}
    assert depths(["last", *LINEAGE, "old", "odd"], lineage, {"else": 7}, 0) == {
        "old": 0,
        "left": 1,
        "right": 1,
        "merged": 2,
        "last": 3,
        "odd": 8,
    }


def test_of_many_generations_that_are_done_none_is_asked_for_all_before_it(monkeypatch):
    lineage = {f"lane {n}": (Parent(f"lane {n - 1}", 1),) for n in range(1, 5000)}
    places = {f"lane {n}": 1 for n in range(5000)}
    with monkeypatch.context() as patch:
        patch.setattr("headrace.model.lineage.ahead", lambda *asked: pytest.fail("asked"))
        assert closed(lineage, places) == {}
    assert list(closed({"b": (Parent("a", 1),)}, {"a": 0})) == ["b"]


def test_lanes_that_a_log_says_follow_each_other_have_depths_all_the_same():
    lineage = {"one": (Parent("other", 1),), "other": (Parent("one", 1),)}
    assert depths(lineage, lineage, {}, 0).keys() == lineage.keys()


def test_a_range_behind_very_many_splits_and_merges_is_found_at_once():
    lineage: dict[str, tuple[Parent, ...]] = {"end": (Parent("merged 0", 1),)}
    for n in range(200):
        lineage[f"merged {n}"] = (Parent(f"left {n}", 1), Parent(f"right {n}", 1))
        for half in ("left", "right"):
            lineage[f"{half} {n}"] = (Parent(f"merged {n + 1}", 1),)
    assert bounded(lineage, {"end": 1, "merged 200": 1}) == {"end": (Parent("merged 200", 1),)}
