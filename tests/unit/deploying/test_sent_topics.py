"""A topic for all is none that the gateway sends a tenant's events to."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_use_cases import settings, write

from headrace.deploying.offer import load
from headrace.deploying.sent_topics import refuse_sent
from headrace.errors import ConfigError
from headrace.gateway.event_types import EventType
from headrace.model.streams import TENANT_NAME
from headrace.model.topic_patterns import pattern_text

TOPICS = st.text("ab.-{}", min_size=1, max_size=6) | st.sampled_from(["{tenant}.a", "b.a", "b.a.a"])
NAMES = st.from_regex(TENANT_NAME, fullmatch=True)


@given(st.dictionaries(st.sampled_from("xyz"), TOPICS), NAMES, st.sampled_from(["a", "a.a", "b-a"]))
def test_what_is_let_by_is_nowhere_that_any_tenants_events_go(topics, tenant, sent):
    taken = EventType("visit", sent).topic_of(tenant)
    with suppress(ConfigError):
        refuse_sent(topics, {"visit": sent})
        assert taken not in topics.values()
    with pytest.raises(ConfigError, match=f"of tenant {tenant}"):
        refuse_sent({"one": taken}, {"visit": sent})


@pytest.mark.parametrize(
    "topic", ["visits", ".visits", "Acme.visits", "a.b.visits", "{tenant}.visits"]
)
def test_a_topic_that_no_tenant_sends_to_is_let_by(topic):
    refuse_sent({"count": topic}, {"visit": "visits"})


def test_of_a_list_each_topic_is_looked_at():
    with pytest.raises(ConfigError, match=r"topic acme\.visits is where the gateway sends"):
        refuse_sent({"count": "acme.visits[3],visits"}, {"visit": "visits"})
    refuse_sent({"count": "clicks,visits"}, {"visit": "visits"})


def test_a_pattern_for_all_matches_no_topic_that_the_gateway_sends_to():
    with pytest.raises(ConfigError, match=r"topic acme\.visits is where the gateway sends"):
        refuse_sent({"count": pattern_text(r".*\.visits")}, {"visit": "visits"})
    refuse_sent({"count": pattern_text("visits-.*")}, {"visit": "visits"})
    refuse_sent({"count": pattern_text(r"(?P<tenant>[a-z]+)\.visits")}, {"visit": "visits"})


def test_whoever_deploys_one_is_told_of_type_and_tenant(tmp_path):
    write(tmp_path, names=("one",), topic="acme.visits")
    assert load(settings(), tmp_path).use_cases["one"].topic == "acme.visits"
    told = r"use case one: topic acme.visits .* events visit of tenant acme, .*\{tenant\}"
    with pytest.raises(ConfigError, match=told):
        load(settings(gateway={"types": {"visit": {"topic": "visits"}}}), tmp_path)
