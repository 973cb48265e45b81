"""Which buckets have to be there, and are not."""

import json

import pytest

from headrace.model.buckets import divided, heirs_of
from headrace.model.lineage import Parent, without
from headrace.model.missing_buckets import missing_buckets, told

LANE, OTHER = "acme.visits[3]", "acme.visits[4]"
FOUR = divided(LANE, 4)


def left_of(names, *gone):
    return [name for name in names if name not in gone]


@pytest.mark.parametrize("by_place", [False, True])
def test_a_bucket_that_is_not_there_among_others_is_missing(by_place):
    names = divided(LANE, 4, by_place=by_place)
    assert missing_buckets([*names, OTHER], {}, [LANE, OTHER]) == []
    assert missing_buckets([*left_of(names, names[2]), OTHER], {}, [LANE, OTHER]) == [names[2]]


def test_of_a_lane_that_has_no_place_at_all_nothing_is_missing():
    assert missing_buckets([OTHER], {}, [LANE, OTHER]) == []


def test_what_went_after_others_had_come_is_not_missing():
    made = heirs_of(LANE, FOUR, 2, 90)
    names, lineage = {*FOUR, *made.places}, made.parents
    assert missing_buckets(names, lineage, [LANE]) == []
    for gone in FOUR:
        names.remove(gone)
        lineage = {name: without(parents, [gone]) for name, parents in lineage.items()}
        assert missing_buckets(names, lineage, [LANE]) == []


def test_what_others_wait_for_is_missing_if_it_is_not_there():
    made = heirs_of(LANE, FOUR, 2, 90)
    assert missing_buckets({*FOUR[1:], *made.places}, made.parents, [LANE]) == [FOUR[0]]
    assert missing_buckets(made.places, made.parents, [LANE]) == FOUR
    whole = {*FOUR, *made.places} - {LANE}
    assert missing_buckets(whole, made.parents, [LANE]) == [LANE]
    assert missing_buckets({*FOUR, *made.places} - {f"{LANE}#1/2"}, made.parents, [LANE]) == [
        f"{LANE}#1/2"
    ]


def test_of_a_lane_that_its_log_made_others_of_buckets_go_one_by_one():
    child = {OTHER: (Parent(FOUR[0], 90), Parent(FOUR[1], None))}
    assert missing_buckets([FOUR[0], *FOUR[2:], OTHER], child, [LANE, OTHER]) == []
    assert missing_buckets([FOUR[0], OTHER], {}, [OTHER]) == []


def test_a_rerun_has_no_more_buckets_than_it_reads():
    assert missing_buckets(FOUR[:1], {}, [LANE], FOUR[:2]) == [FOUR[1]]
    assert missing_buckets(FOUR[:2], {}, [LANE], FOUR[:2]) == []
    assert missing_buckets([], {}, [LANE], FOUR[:2]) == FOUR[:2]
    assert missing_buckets([], {}, [OTHER], FOUR[:2]) == []


def test_a_lane_in_two_divisions_is_not_told_of_twice():
    assert missing_buckets([LANE, *FOUR[1:]], {}, [LANE]) == []


def test_what_is_told_names_them_and_the_command_for_them_alone():
    places = dict(zip(FOUR[2:], [60, 50], strict=True))
    said = told("acme/keep", "acme.visits", FOUR[:2], {}, places)
    assert said.startswith("partition 3 is without some of its buckets")
    assert "3#0/4, 3#1/4" in said
    assert "the least is at 50" in said
    to = json.dumps({"acme.visits": {"3#0/4": -2, "3#1/4": -2}})
    assert f"headrace streams seek acme/keep --to '{to}'" in said
    assert told("acme/keep", "acme.visits", [], {}, places) is None
    places |= {f"{OTHER}#1/2": 5}
    said = told("acme/keep", "acme.visits", [*FOUR[:2], f"{OTHER}#0/2"], {}, places)
    assert said.startswith("partition 3 (and 1 more) is without some of its buckets")
    said = told("acme/keep", "acme.visits", FOUR, {}, {f"{OTHER}#1/2": 5})
    assert said.startswith("partition 3 is without any of its buckets")
    assert "the least" not in said


def test_what_others_wait_for_is_mended_as_a_whole():
    made = heirs_of(LANE, FOUR, 2, 90)
    places = dict.fromkeys(FOUR[1:], 90) | made.places
    said = told("acme/keep", "acme.visits", FOUR[:1], made.parents, places)
    assert "'headrace streams seek acme/keep --to' a place mends it, of the whole topic" in said


@pytest.mark.parametrize("missing", [f"{LANE}#1/2", f"{OTHER}#1/4"])
def test_while_buckets_are_not_done_that_others_follow_it_is_mended_as_a_whole(missing):
    made = heirs_of(LANE, FOUR, 2, 90)
    others = divided(OTHER, 4)
    places = dict.fromkeys([*FOUR, *others], 40) | made.places
    del places[missing]
    said = told("acme/keep", "acme.visits", [missing], made.parents, places)
    assert "'headrace streams seek acme/keep --to' a place mends it, of the whole topic" in said
    places |= dict.fromkeys(FOUR, 90)
    assert "these alone" in told("acme/keep", "acme.visits", [missing], made.parents, places)
