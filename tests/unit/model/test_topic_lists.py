"""A list of topics is one text, and its id that of each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.streams import Stream, StreamId, ids_left
from headrace.model.topic_lists import (
    adds_to,
    as_list_id,
    as_said,
    id_of_list,
    id_without,
    ids_in,
    is_another,
    is_list,
    is_of,
    lanes_in,
    listed,
    missing_of,
    others,
    part_of_lane,
    reads_several,
    topic_of_lane,
    topics_left,
    topics_of,
    topics_read,
    with_known,
)

NAMES = st.text("ab.-_1", min_size=1, max_size=4)
LIST = "a,b[2],b[10]"
PATTERN = "acme of [ab]{1,2}"
OF = StreamId("keep", "acme")


def of(**ids):
    return id_of_list(ids)


@given(st.sets(NAMES, min_size=1), st.dictionaries(NAMES, st.integers(0, 20), max_size=3))
def test_whatever_was_said_is_read_and_in_any_order_it_is_the_same_text(topics, partitions):
    parts = [f"{topic}[{at}]" for topic, at in partitions.items() if topic not in topics]
    text = listed([*topics, *parts])
    assert text == listed([*reversed(parts), *topics])
    assert {*topics_of(text)} == topics | {*partitions} - (partitions.keys() & topics)
    assert is_list(text) == (len(topics) + len(parts) > 1)
    assert all(topic_of_lane(f"{topic}[7]", text) == topic for topic in topics)


def test_a_topic_is_no_list_and_a_partition_alone_is_one():
    assert (is_list("a"), topics_of("a"), listed(["a"])) == (False, ("a",), "a")
    assert (is_list("a[3]"), topics_of("a[3]")) == (True, ("a",))
    assert lanes_in(LIST) == {"a": frozenset(), "b": {"b[2]", "b[10]"}}


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([], "names no topic"),
        (["a", "b", "a"], "names a twice"),
        (["a[1]", "a[1]"], "names a\\[1\\] twice"),
        (["a[1]", "a"], "names a, and a\\[1\\] besides"),
    ],
)
def test_what_would_be_read_twice_is_refused(parts, told):
    with pytest.raises(ValueError, match=told):
        listed(parts)


@pytest.mark.parametrize(
    ("text", "before", "whether"),
    [
        ("a,b", "a,b", True),
        ("a,b,c", "a,b", True),
        ("a[1],a[2]", "a[1]", True),
        ("a,c", "a[1],c", True),
        ("a,b", "a", True),
        ("b,c", "a", False),
        ("a[1],b", "a", False),
        ("a,c:b", "c:b", False),
        ("c:a,c:b", "c:b", True),
        ("c:a,c:b", "a", False),
        ("a,b", "all of a", False),
        ("a", "a", False),
        ("a", "a,b", False),
        ("a,c", "a,b", False),
        ("a[1],b", "a,b", False),
        ("a[1],b", "a[2],b", False),
    ],
)
def test_a_list_goes_on_in_one_that_has_all_of_it(text, before, whether):
    assert adds_to(text, before) == whether


def test_lanes_and_their_buckets_are_of_their_topic():
    assert topic_of_lane("b[2]", LIST) == "b"
    assert topic_of_lane("b[2]#3/16", LIST) == "b"
    # Where one topic is read, its log may call a lane as it likes.
    assert topic_of_lane("shard-7", "a") == topic_of_lane("shard[7]", "a") == "a"


def test_what_a_list_calls_a_lane_is_a_topic_or_a_partition():
    assert [part_of_lane(lane, LIST) for lane in ("a[2]", "b[2]", "b[2]#3/16")] == [
        "a",
        "b[2]",
        "b[2]",
    ]
    assert part_of_lane("a[0]#1/4", PATTERN) == "a"


def test_ids_of_a_list_are_without_topics_that_are_no_more():
    assert id_without(of(a="1", b="2"), ["b", "c"]) == of(a="1")
    assert id_without(of(a="1"), ["a"]) == of()
    assert dict(ids_in(of())) == {}


def test_the_id_of_a_topic_becomes_that_of_a_list_once():
    assert as_list_id("1", "a") == of(a="1")
    assert as_list_id(of(a="1"), "a") == of(a="1")
    assert as_list_id(of(a="1", b="2"), "a,b") == of(a="1", b="2")


def test_topics_and_partitions_that_are_not_there_are_named():
    assert missing_of(LIST, ["b[2]", "b[10]#1/2", "a[0]"], None) == []
    assert missing_of(LIST, ["b[2]"], None) == ["a", "b[10]"]
    assert missing_of("a", [], "1") == []
    assert missing_of(PATTERN, ["a[0]"], of(a="1", b="1")) == ["b"]


def test_topics_of_a_pattern_are_those_that_a_stream_is_of():
    assert (is_list(PATTERN), reads_several(PATTERN), topics_of(PATTERN)) == (False, True, ())
    assert topics_read(PATTERN, of(b="1", a="1")) == ("a", "b")
    assert (topics_read(PATTERN, None), topics_read(LIST, None)) == ((), ("a", "b"))
    assert topic_of_lane("b[3]#1/4", PATTERN) == "b"
    assert as_said(PATTERN, "{tenant} of [ab]", of(a="1")) == {"a": "a"}


def test_only_a_topic_that_has_another_id_is_another():
    was = of(a="1", b="2")
    assert not is_another(was, of(a="1"))
    assert not is_another(of(a="1"), was)
    assert not is_another(None, was)
    assert others(was, of(a="1", b="3")) == {"b"}
    assert (is_another("1", "2"), is_another("1", "1")) == (True, False)


def test_lanes_are_of_another_topic_only_if_theirs_is():
    other = others(of(a="1", b="2"), of(a="1", b="3"))
    assert [is_of(lane, other) for lane in ("a[0]", "b[0]", "b[0]#1/4")] == [False, True, True]
    assert is_of("anything", others("1", "2"))
    assert not is_of("anything", others("1", "1"))


def test_a_topic_that_is_not_there_keeps_its_id():
    assert with_known(of(a="1", b="2"), of(a="3")) == of(a="3", b="2")
    assert with_known(None, of(a="3")) == of(a="3")
    assert with_known("1", "2") == "2"


def stream(topic_id, left):
    return Stream(OF, "a,b", topic_id=topic_id, left_ids=left)


def test_a_topic_of_a_list_that_was_left_is_known_again_beside_whatever_others():
    left = ids_left((), of(a="1", b="1"), of(a="2", b="1"))
    now = stream(of(a="2", b="1"), left)
    assert not now.has_left(of(a="2", b="1"))
    assert not now.has_left(of(a="2", b="5"))
    assert now.has_left(of(a="1", b="5"))
    # One that came was none that another was left for.
    assert ids_left((), of(a="1"), of(a="1", b="1")) == ()


def test_a_stream_that_was_removed_may_have_the_topics_again_that_it_had_last():
    left = ids_left(ids_left((), of(a="1"), of(a="2")), of(a="2"), None)
    again = stream(None, left)
    assert not again.has_left(of(a="2"))
    assert again.has_left(of(a="1"))
    plain = stream(None, ids_left(ids_left((), "1", "2"), "2", None))
    assert (plain.has_left("2"), plain.has_left("1")) == (False, True)


def test_a_topic_of_a_list_without_an_id_may_be_the_one_that_was_had_last():
    """It was told later than the others, and nobody ever read the list again."""
    had = [id_of_list({"a": "1", "b": "1"}), id_of_list({"a": "2", "b": "2"})]
    stays = id_of_list({"a": "2"})
    assert not topics_left(id_of_list({"a": "2", "b": "2"}), had, stays)
    assert topics_left(id_of_list({"a": "2", "b": "1"}), had, stays) == {"b"}
    assert topics_left(id_of_list({"a": "1"}), had, stays) == {"a"}
