"""A topic for all is none that the gateway sends a tenant's events to."""

import re
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_use_cases import settings, write

from headrace.deploying.offer import load
from headrace.deploying.sent_patterns import tenant_sent_to
from headrace.deploying.sent_topics import refuse_sent
from headrace.errors import ConfigError
from headrace.gateway.event_types import EventType
from headrace.model.streams import TENANT_NAME
from headrace.model.topic_patterns import by_tenant, pattern_text, tenants_in

TOPICS = st.text("ab.-{}", min_size=1, max_size=6) | st.sampled_from(["{tenant}.a", "b.a", "b.a.a"])
NAMES = st.from_regex(TENANT_NAME, fullmatch=True)


def tenant_of(text, topic):
    return tenants_in(text, [topic]).get(topic)


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


PATTERNS = [
    r".*",
    r".*\.visits",
    r"[^.]+\.visits",
    r"(shop|till)-\d{1,2}\.(visits|clicks)",
    r"x?y{2,}z*\.v\w+",
    r"(?i:SHOP\.)visits|other",
    r"visits-.*",
    r"(?i)shop\.[A-Z]+",
    r"\bshop-eu$|shop-\w+?\.visits",
    r"(a|b-){3}[a-c].*its",
    r"((ab)*c)+\.visits",
    r"a{63}\.visits",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_for_all_matches_no_topic_that_the_gateway_sends_to(pattern):
    """Some names were tried, and `shop-.*` was let by."""
    text = pattern_text(pattern)
    tenant = tenant_sent_to(text, "visits")
    assert TENANT_NAME.fullmatch(tenant)
    assert tenant_of(text, f"{tenant}.visits") == ""
    told = f"matches {tenant}.visits, where the gateway would send events visit"
    with pytest.raises(ConfigError, match=re.escape(told)):
        refuse_sent({"count": text}, {"visit": "visits"})


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i:SHOP)\.VISITS|other",
        r"shop-[^.]*",
        r"[A-Z]+\.visits",
        r"-.*\.visits",
        r"\.visits",
        r".*\.visits?-all",
        r"shop_\d\.visits",
        r"[\W\d]+_visits",
        r"a{64}\.visits",
        r"a{64,}\.visits",
        r"(?P<tenant>[a-z]+)\.visits",
    ],
)
def test_a_pattern_that_matches_none_is_let_by(pattern):
    refuse_sent({"count": pattern_text(pattern)}, {"visit": "visits"})


def test_dead_letters_are_matched_by_no_pattern():
    refuse_sent({"count": pattern_text(r".*")}, {"visit": "visits.dlq"})


SIGNS = ["a", "b", "-", r"\.", ".", "[ab]", "[^a]", "(a|.b)", r"\w", "(?i:A)", "(b-)", "A", "[.-]"]
TIMES = ["", "?", "*", "+", "{2}", "{0,2}", "*?"]


@given(st.lists(st.tuples(st.sampled_from(SIGNS), st.sampled_from(TIMES)), max_size=6))
def test_it_is_told_exactly_which_patterns_match_one(parts):
    """Held against each name of up to four letters."""
    pattern = "".join(map("".join, parts))
    text = pattern_text(pattern)
    names = ["".join(one) for size in range(1, 5) for one in product("ab-", repeat=size)]
    sent = [f"{name}.a" for name in names if TENANT_NAME.fullmatch(name)]
    found = tenant_sent_to(text, "a")
    assert found is not None or not by_tenant(pattern, sent)
    assert found is None or tenant_of(text, f"{found}.a") == ""


def test_a_pattern_too_large_to_be_walked_is_refused():
    large = pattern_text("(x?y?z?w?){900}" + "(x?y?z?w?){900}" * 9)
    assert tenant_sent_to(large, "visits") == "acme"


def test_whoever_deploys_one_is_told_of_type_and_tenant(tmp_path):
    write(tmp_path, names=("one",), topic="acme.visits")
    assert load(settings(), tmp_path).use_cases["one"].topic == "acme.visits"
    told = r"use case one: topic acme.visits .* events visit of tenant acme, .*\{tenant\}"
    with pytest.raises(ConfigError, match=told):
        load(settings(gateway={"types": {"visit": {"topic": "visits"}}}), tmp_path)
