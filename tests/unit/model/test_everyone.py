"""Which tenants have a stream of a use case, and who may be called as nobody is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.model.everyone import (
    EVERYONE,
    has_stream,
    is_plain,
    may_be_added,
    may_be_customer,
)
from headrace.model.streams import State, StreamId, Tenant
from headrace.store.own_topics import doubtful
from headrace.store.streams import topic_of

TOPICS = st.text("abtenz{}.-", max_size=12) | st.sampled_from(["{tenant}.a", "a", "b-{tenant}"])
NAMES = st.sampled_from([EVERYONE, "acme", "everyone-else"])
TENANTS = st.builds(Tenant, NAMES, st.sampled_from(State), reserved=st.booleans())


@given(TOPICS)
def test_a_topic_is_for_all_or_of_each_and_never_both(topic):
    assert has_stream(topic, reserved=True) is is_plain(topic)
    assert has_stream(topic, reserved=False) is not is_plain(topic)


@given(TOPICS, NAMES)
def test_a_topic_for_all_is_the_same_whoever_asks(topic, name):
    try:
        made = topic_of(topic, name)
    except ConfigError:
        return
    assert (made == topic) is is_plain(topic)


@given(NAMES, st.none() | TENANTS)
def test_who_may_be_added_by_that_name_was_the_reserved_one_before(name, known):
    free = may_be_added(name, known)
    assert free is (name != EVERYONE or (known is not None and known.reserved))


@given(NAMES, st.none() | TENANTS)
def test_nobody_is_a_customer_by_that_name_and_the_reserved_one_both(name, known):
    if name != EVERYONE:
        assert may_be_customer(name, known)
    elif may_be_customer(name, known):
        assert not may_be_added(name, known)
        assert known.state is not State.REMOVED


@given(st.dictionaries(st.sampled_from("abc"), TOPICS), st.sampled_from(["acme.a", "a", "b-acme"]))
def test_a_topic_for_all_is_in_doubt_with_exactly_those_whose_topic_it_is(templates, topic):
    templates = {name: text for name, text in templates.items() if topic_fits(text)}
    found = {one.other for one in doubtful({StreamId("new", EVERYONE): [topic]}, templates)}
    expected = {
        StreamId(use_case, "acme")
        for use_case, text in templates.items()
        if not is_plain(text) and topic_of(text, "acme") == topic
    }
    assert {stream for stream in found if stream.tenant == "acme"} == expected
    for stream in found:
        assert topic_of(templates[stream.use_case], stream.tenant) == topic


@given(st.dictionaries(st.sampled_from("abc"), TOPICS), st.sampled_from(["acme.a", "a", "b-acme"]))
def test_a_customers_topic_is_in_doubt_with_all_that_read_it_for_all(templates, topic):
    templates = {name: text for name, text in templates.items() if topic_fits(text)}
    found = {one.other for one in doubtful({StreamId("new", "acme"): [topic]}, templates)}
    for_all = {stream.use_case for stream in found if stream.tenant == EVERYONE}
    assert for_all >= {name for name, text in templates.items() if text == topic}


def topic_fits(text):
    try:
        return bool(topic_of(text, "acme"))
    except ConfigError:
        return False


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "ü", "a/b", "a" * 250])
def test_no_topic_for_all_has_a_name_that_no_topic_can_have(topic):
    with pytest.raises(ConfigError, match="topic"):
        topic_of(topic, EVERYONE)
