"""Where lanes begin: exactly where was said, or nowhere, with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.buckets import divided, whole_lane
from headrace.model.lane_names import named
from headrace.model.places import OPEN, place_at
from headrace.model.starting import AtPlaces, Edge, SinceTime
from headrace.policies.starting import Edges, first_places, is_earliest, too_early, unnamed

TOPIC = "acme.visits"
TOPICS = {TOPIC: "{tenant}.visits"}
LANES = [named(TOPIC, number) for number in range(4)]


@st.composite
def logs(draw):
    """Lanes of a topic, some of them divided, and what the log says; some have no leader."""
    count, parts = draw(st.integers(1, 4)), draw(st.sampled_from([1, 3]))
    lanes = [part for lane in LANES[:count] for part in divided(lane, parts)]
    starts, ends, then = {}, {}, {}
    for lane in LANES[:count]:
        start = draw(st.integers(0, 20))
        end = draw(st.integers(start, 40))
        at = draw(st.integers(start, end))
        led = draw(st.booleans() | st.just(True))
        for name in divided(lane, parts) if led else ():
            starts[name], ends[name], then[name] = map(place_at, (start, end, at))
    return lanes, Edges(starts, ends, then)


AT = st.sampled_from(Edge) | st.integers(0, 45).map(place_at)
ANY = st.dictionaries(st.integers(0, 4).map(str), AT, min_size=1)


def numbers_of(lanes):
    return [str(number) for number in range(len({whole_lane(name) for name in lanes}))]


def whole(lanes):
    """What is said of all partitions, and of no others."""
    return st.fixed_dictionaries(dict.fromkeys(numbers_of(lanes), AT))


@given(logs())
def test_edges_and_times_are_what_the_log_says(log):
    lanes, edges = log
    assert first_places(Edge.EARLIEST, TOPICS, lanes, edges) == edges.starts
    assert first_places(Edge.LATEST, TOPICS, lanes, edges) == edges.ends
    assert first_places(SinceTime(5.0, "then"), TOPICS, lanes, edges) == edges.then


@given(logs(), ANY, st.sampled_from([*TOPICS, *TOPICS.values(), "other"]))
def test_what_is_not_said_of_all_partitions_and_of_no_others_is_named(log, said, topic):
    lanes, _ = log
    reason = unnamed(AtPlaces({topic: said}), TOPICS, lanes)
    assert (reason is None) == (topic != "other" and said.keys() == {*numbers_of(lanes)})
    assert reason is None or TOPIC in reason


@given(logs(), st.data())
def test_of_offsets_each_lane_gets_its_own_and_none_that_its_log_does_not_hold(log, data):
    lanes, edges = log
    said = data.draw(whole(lanes))
    starting = AtPlaces({data.draw(st.sampled_from([*TOPICS, *TOPICS.values()])): said})
    assert unnamed(starting, TOPICS, lanes) is None
    found = first_places(starting, TOPICS, lanes, edges)
    if isinstance(found, str):
        assert any(
            not edges.starts[name] <= said[str(LANES.index(whole_lane(name)))] <= edges.ends[name]
            for name in edges.starts
            if not isinstance(said[str(LANES.index(whole_lane(name)))], Edge)
        )
        return
    assert found.keys() == edges.starts.keys()
    for name, at in found.items():
        asked = said[str(LANES.index(whole_lane(name)))]
        edge = {Edge.EARLIEST: edges.starts, Edge.LATEST: edges.ends}
        assert at == (edge[asked][name] if isinstance(asked, Edge) else asked)
        assert edges.starts[name] <= at <= edges.ends[name]


@given(logs(), ANY, st.data())
def test_a_topics_own_name_counts_more_than_that_of_all_tenants(log, of_all, data):
    lanes, edges = log
    own = data.draw(whole(lanes))
    alone = AtPlaces({TOPIC: own})
    both = AtPlaces({TOPICS[TOPIC]: of_all, TOPIC: own})
    assert unnamed(both, TOPICS, lanes) is None
    assert first_places(both, TOPICS, lanes, edges) == first_places(alone, TOPICS, lanes, edges)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"0": 1}, "no offset of partition 1 of acme.visits"),
        ({"0": 1, "1": 1, "7": 1}, "partition 7 of acme.visits, which has 2 of them"),
        ({"0": 1, "1": 1, "x": 1}, "partition x of acme.visits"),
        ({"0": 1, "acme.visits[0]": 2}, "name a partition of acme.visits twice"),
    ],
)
def test_what_is_left_out_or_not_there_is_named(said, told):
    starting = AtPlaces({"{tenant}.visits": said})
    assert told in unnamed(starting, TOPICS, LANES[:2])


def test_an_offset_that_is_not_there_is_told_with_what_is():
    edges = Edges(dict.fromkeys(LANES, 40), dict.fromkeys(LANES, 90), {})
    starting = AtPlaces({TOPIC: {"0": 39, "1": 40, "2": 90, "3": 91}})
    told = first_places(starting, TOPICS, LANES, edges)
    assert told == (
        "startingOffsets begin acme.visits[0] at 39, and it holds 40 to 90 (1 more are like that)"
    )


def test_nobody_begins_at_a_place_of_a_lane_whose_end_nobody_tells():
    edges = Edges({LANES[0]: 0}, {LANES[0]: OPEN}, {})
    assert isinstance(first_places(AtPlaces({TOPIC: {"0": 3}}), TOPICS, LANES[:1], edges), str)


def test_a_time_that_is_still_to_come_is_waited_for():
    assert "still to come" in too_early(SinceTime(10.0, "then"), 9.9)
    assert too_early(SinceTime(10.0, "then"), 10.0) is None
    assert too_early(Edge.LATEST, 0.0) is None
    assert [is_earliest(one) for one in (*Edge, SinceTime(0.0, "then"))] == [True, False, False]


BOTH = {"acme.clicks": "{tenant}.clicks", TOPIC: "{tenant}.visits"}


def of_both(**places):
    lanes = {"acme.clicks[0]": 3, "acme.visits[0]": 5, "acme.visits[1]": 7}
    ends = {name: place_at(end) for name, end in lanes.items()}
    starting = AtPlaces({topic: dict(said) for topic, said in places.items()})
    edges = Edges(dict.fromkeys(ends, place_at(0)), ends, {})
    return unnamed(starting, BOTH, lanes) or first_places(starting, BOTH, list(lanes), edges)


def test_of_a_list_each_topic_has_offsets_of_its_own_by_either_of_its_names():
    visits = {"0": place_at(4), "1": Edge.EARLIEST}
    said = {"{tenant}.clicks": {"0": Edge.LATEST}, "acme.visits": visits}
    assert of_both(**said) == {
        "acme.clicks[0]": place_at(3),
        "acme.visits[0]": place_at(4),
        "acme.visits[1]": place_at(0),
    }


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"acme.visits": {"0": 1, "1": 1}}, "name no offset of acme.clicks; add it"),
        ({"acme.clicks": {"0": 1}, "acme.visits": {"0": 1}}, "no offset of partition 1 of acme.v"),
        (
            {"acme.clicks": {"0": 1, "1": 1}, "acme.visits": {"0": 1, "1": 1}},
            "partition 1 of acme.clicks, which has 1 of them",
        ),
        ({"acme.clicks": {"0": 9}, "acme.visits": {"0": 1, "1": 1}}, "acme.clicks[0] at "),
    ],
)
def test_what_is_not_true_of_a_topic_of_a_list_is_told_with_its_name(said, told):
    places = {
        topic: {lane: place_at(at) for lane, at in lanes.items()} for topic, lanes in said.items()
    }
    assert told in of_both(**places)
