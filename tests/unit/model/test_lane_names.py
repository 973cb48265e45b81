"""Names of lanes: made, taken apart, put in order, and said by people."""

import pickle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.lane_names import (
    alike,
    are_of_several,
    in_order,
    label_of,
    meant,
    named,
    number_of,
    said,
    spoken,
    taken_apart,
    together,
)
from headrace.model.streams import LaneId

topics = st.text(min_size=1, max_size=9)
numbers = st.integers(0, 10**10 - 1)
names = st.one_of(st.builds(named, topics, numbers), topics, st.sampled_from(["t[01]", "[1]", ""]))


@given(topics, numbers)
def test_a_name_is_taken_apart_into_what_it_was_made_of(topic, number):
    name = named(topic, number)
    assert taken_apart(name) == (topic, number)
    assert number_of(name) == number
    assert label_of(name) == str(number)


@pytest.mark.parametrize(
    "name", ["", "t", "t[]", "[3]", "t[03]", "t[-1]", "t[3", "t3]", "t[3]x", "t[\u0663]", "t[3]\n"]
)
def test_a_name_of_another_form_has_no_number(name):
    assert taken_apart(name) is None
    assert (label_of(name), spoken(name), said(name, "t")) == (name, f"lane {name}", name)
    with pytest.raises(ValueError, match="not of the form"):
        number_of(name)


def test_lanes_are_in_the_order_of_their_numbers_topic_by_topic():
    right = ["a", "a[2]", "a[10]", "a[100]", "a.b[0]", "b[1]", "t[01]"]
    for seed in range(20):
        mixed = list(right)
        Random(seed).shuffle(mixed)
        assert in_order(mixed) == right


@given(st.lists(names, unique=True), st.randoms())
def test_any_names_have_one_order(found, chance):
    mixed = list(found)
    chance.shuffle(mixed)
    assert in_order(mixed) == in_order(found)


def test_lanes_of_two_topics_are_two_lanes():
    one, other = (LaneId("pages", "acme", named(topic, 3)) for topic in ("a.x", "a.y"))
    assert one != other
    assert str(one) == "acme/pages/a.x[3]"
    assert pickle.loads(pickle.dumps(one)) == one


@given(names, topics)
def test_what_is_said_of_a_lane_is_what_is_meant(name, topic):
    assert meant(said(name, topic), topic, {name}) == name


def test_a_number_alone_is_a_lane_of_the_streams_topic():
    said_so = {"3": "t[3]", "other[3]": "other[3]", "03": "03"}
    assert {text: meant(text, "t", ()) for text in said_so} == said_so
    assert (said("t[3]", "t"), said("other[3]", "t"), spoken("t[3]")) == (
        "3",
        "other[3]",
        "partition 3",
    )


def test_lanes_of_several_topics_are_spoken_of_with_theirs():
    assert spoken("a[3]", "a") == "partition 3"
    assert spoken("a[3]#1/4", "a,b") == "partition 3 of a, bucket 1 of 4"
    assert are_of_several(["a[0]", "b[0]#1/4"])
    assert not are_of_several(["a[0]", "a[1]"])


def test_lanes_that_are_told_alike_come_together_by_partition():
    odd, even = ["t[1]#1/4", "t[1]#3/4"], ["t[1]#0/4", "t[1]#2/4"]
    all_of_two = ["t[2]#p0/2", "t[2]#p1/2"]
    told = dict.fromkeys(even, 5) | dict.fromkeys(odd, 7) | dict.fromkeys(["t[0]", "t[3]"], 5)
    told |= dict.fromkeys(all_of_two, 5)
    assert alike({name: told[name] for name in in_order(told)}) == [
        (["t[0]"], 5),
        (even, 5),
        (odd, 7),
        (all_of_two, 5),
        (["t[3]"], 5),
    ]
    assert together(even) == "partition 1, buckets 0, 2 of 4"
    assert together(all_of_two) == "partition 2, all 2 buckets by place"
    assert together(["t[3]"]) == "partition 3"
    assert together(["t[1]#1/4"]) == "partition 1, bucket 1 of 4"
    assert together(all_of_two, several=True) == "t[2], all 2 buckets by place"
    assert together(["t[3]"], several=True) == "t[3]"
    # While a partition gets other buckets it has both kinds.
    assert alike({"t[0]#0/2": 1, "t[0]#0/3": 1}) == [(["t[0]#0/2"], 1), (["t[0]#0/3"], 1)]
