"""What buckets are called, and how lanes of another division follow the ones before."""

import pytest

from headrace.model.buckets import (
    Bucket,
    Division,
    bucket_of,
    by_whole_lane,
    divided,
    division_of,
    heirs_of,
    least_places,
    parts_of,
    replaced,
    whole_lane,
)
from headrace.model.lane_names import (
    in_order,
    label_of,
    meant,
    number_of,
    said,
    spoken,
    taken_apart,
    written_name,
)
from headrace.model.lineage import Parent, closed

LANE = "acme.visits[3]"


def test_a_name_says_of_which_lane_which_bucket_it_is():
    names = divided(LANE, 16)
    assert names[5] == "acme.visits[3]#5/16"
    assert [bucket_of(name) for name in names] == [Bucket(LANE, n, 16) for n in range(16)]
    assert {whole_lane(name) for name in names} == {LANE}
    assert divided(LANE, 1) == [LANE]
    assert (bucket_of(LANE), whole_lane(LANE), parts_of(LANE)) == (None, LANE, 1)


def test_a_name_says_whether_keys_or_places_divide_its_lane():
    names = divided(LANE, 16, by_place=True)
    assert names[5] == "acme.visits[3]#p5/16"
    assert [bucket_of(name) for name in names] == [Bucket(LANE, n, 16, True) for n in range(16)]
    assert (division_of(names[5]), parts_of(names[5])) == (Division(16, by_place=True), 16)
    assert division_of(divided(LANE, 16)[5]) == Division(16)
    assert (division_of(LANE), divided(LANE, 1, by_place=True)) == (Division(), [LANE])
    assert spoken(names[5]) == "partition 3, bucket 5 of 16 by place"
    assert label_of(names[5]) == "3#p5/16"
    assert meant("3#p5/16", "acme.visits", names) == names[5]


@pytest.mark.parametrize(
    "tail", ["#16/16", "#0/1", "#0/65", "#01/16", "#-1/4", "#1/4/2", "#1", "#a/4", "#p/4", "#pp1/4"]
)
def test_what_is_no_bucket_is_a_lane_of_that_name(tail):
    assert bucket_of(f"{LANE}{tail}") is None or tail == "#1/4/2"
    assert whole_lane("topic#5[0]") == "topic#5[0]"


def test_people_are_told_of_a_bucket_and_may_say_it():
    name = divided(LANE, 16)[5]
    assert spoken(name) == "partition 3, bucket 5 of 16"
    assert label_of(name) == said(name, "acme.visits") == "3#5/16"
    assert meant("3#5/16", "acme.visits", [name]) == name
    assert meant("3", "acme.visits", [name]) == LANE
    assert said(name, "other") == name
    assert number_of(name) == 3
    assert taken_apart(name) is None


def test_what_is_written_elsewhere_tells_buckets_apart():
    names = [LANE, *divided(LANE, 4), *divided(LANE, 2), *divided(LANE, 4, by_place=True)]
    written = [written_name(name, "acme.visits") for name in names]
    assert len(set(written)) == len(names)
    assert not {"/", "#", ":", ","} & set("".join(written))


def test_buckets_have_the_order_of_their_numbers():
    names = [*divided("t[2]", 16), *divided("t[10]", 16)]
    assert in_order(reversed(names)) == names


def test_a_lane_is_done_as_far_as_the_least_of_its_buckets():
    places = dict(zip(divided(LANE, 3), [7, 5, 9], strict=True)) | {"acme.visits[0]": 4}
    assert least_places(places) == {LANE: 5, "acme.visits[0]": 4}
    assert by_whole_lane(places)[LANE] == divided(LANE, 3)


@pytest.mark.parametrize(("now", "then"), [(1, 4), (4, 1), (4, 3), (3, 64)])
def test_lanes_of_another_division_wait_for_all_of_the_one_before(now, then):
    names = divided(LANE, now)
    made = heirs_of(LANE, names, then, 9)
    assert {name: made.places[name] for name in divided(LANE, then)} == dict.fromkeys(
        divided(LANE, then), 9
    )
    places = dict.fromkeys(names, 9) | made.places
    assert closed(made.parents, places) == {}
    for late in names:
        shut = closed(made.parents, places | {late: 8})
        assert shut.keys() == made.parents.keys()
    assert replaced(made.parents).keys() == ({*names, LANE} if now > 1 and then > 1 else set(names))


@pytest.mark.parametrize("by_place", [True, False])
def test_between_keys_and_places_stands_the_whole_lane(by_place):
    names = divided(LANE, 4, by_place=not by_place)
    made = heirs_of(LANE, names, 4, 9, by_place=by_place)
    assert made.places == dict.fromkeys([LANE, *divided(LANE, 4, by_place=by_place)], 9)
    assert {parent for parent, _ in made.parents[LANE]} == set(names)


def test_parents_are_as_many_as_buckets_and_not_as_pairs_of_them():
    made = heirs_of(LANE, divided(LANE, 64), 32, 9)
    assert sum(map(len, made.parents.values())) == 64 + 32


def test_what_a_lane_of_the_log_follows_is_not_replaced():
    assert replaced({"t[1]#0/2": (Parent("t[0]#0/2", 5), Parent("t[0]#1/2", 5))}) == {}
