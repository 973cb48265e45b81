"""What a pattern matches, whose it is, and what it never matches."""

import pytest

from headrace.model.everyone import is_plain
from headrace.model.patterns import TENANT
from headrace.model.topic_patterns import (
    by_tenant,
    is_kept,
    is_pattern,
    matching,
    pattern_of,
    pattern_text,
    tenants_in,
)

VISITS = pattern_text(r"(?P<tenant>[a-z0-9-]+)\.(visits|clicks)")
ALL = pattern_text(r"clicks-\d{1,3}")
THERE = [
    "acme.visits",
    "acme.clicks",
    "acme.clicks.dlq",
    "acme.visits.split.parked",
    "bolt.visits",
    "all.visits",
    "__acme.visits",
    "clicks-7",
    "clicks-7000",
]


def tenant_of(text, topic):
    return tenants_in(text, [topic]).get(topic)


def of(tenant):
    return VISITS.replace(TENANT, tenant)


def found(text, topics=THERE):
    return matching(text, by_tenant(pattern_of(text), topics))


def test_a_stream_reads_what_matches_from_end_to_end_and_is_its_tenants():
    assert found(of("acme")) == ["acme.clicks", "acme.visits"]
    assert found(of("all")) == ["all.visits"]
    assert found(of("acm")) == []
    assert found(ALL) == ["clicks-7"]


def test_whose_a_topic_is():
    assert tenant_of(VISITS, "bolt.clicks") == "bolt"
    assert tenant_of(VISITS, "bolt.mails") is None
    assert tenant_of(ALL, "clicks-7") == ""


@pytest.mark.parametrize("topic", ["__offsets", "a.dlq", "a.split.parked"])
def test_what_is_not_for_use_cases_is_never_matched(topic):
    assert found(pattern_text(".*"), [topic, "a"]) == ["a"]
    assert tenant_of(pattern_text("(?P<tenant>.*)"), topic) is None


def test_only_a_pattern_with_the_group_is_of_tenants():
    assert (is_plain(VISITS), is_plain(ALL)) == (False, True)
    assert [is_pattern(text) for text in (VISITS, ALL, "a,b[3]", "{tenant}.visits")] == [
        True,
        True,
        False,
        False,
    ]


def test_what_is_kept_is_known_again():
    assert (is_kept(VISITS), is_kept(ALL)) == (True, True)
    others = ("visits of all", "all of (?P<tenant>a)", "{tenant} of a", "all of (", "a")
    assert not any(map(is_kept, others))


def test_what_a_use_case_writes_it_never_reads_whatever_a_tenant_is_called():
    own = pattern_text(r"(?P<tenant>[a-z0-9-]+)\..*", "{tenant}.scores")
    topics = ["customer-12.visits", "customer-12.scores", "customer-12.scores2"]
    assert found(own.replace(TENANT, "customer-12"), topics) == [topics[2], topics[0]]
    assert tenant_of(own, "t9.scores") is None
    every = pattern_text("seen|sent", "{tenant}-a")
    assert (is_plain(every), is_kept(own), is_kept(every)) == (True, True, True)
    assert found(pattern_text("seen|sent", "seen"), ["seen", "sent"]) == ["sent"]


def test_no_name_of_a_topic_takes_long():
    text = pattern_text(r"(?P<tenant>([a-z0-9]+-?)+)\.visits")
    topics = ["a" * length + "_archive" for length in range(200, 240)]
    assert found(text.replace(TENANT, "acme"), [*topics, "acme.visits"]) == ["acme.visits"]


def test_a_group_that_takes_no_part_is_nobodys():
    assert tenant_of(pattern_text(r"((?P<tenant>[a-z]+)\.)?visits"), "visits") is None


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(", "no regular expression"),
        ("(?P<who>a)", "group who"),
        ("{tenant}.a", "say .*tenant"),
        ("a b", "blank"),
        ("[[:alpha:]]+[.]visits", r"has \[: in it, as .*; say its letters, as \[A-Za-z\]"),
        ("[a-z]{,63}[.]visits", r"has \{, in it, as a\{,3\}; say \{0, in"),
        ("(?i)acme[.]vi\u017fits", "a letter beyond ASCII in it, which no topic has"),
        ("a(?!b)", "grows with the letters alone, as RE2 does: invalid perl operator"),
        (r"(a)\1", "grows with the letters"),
        ("(a)" * 9 + "(?P<tenant>b)", "9 groups before tenant"),
    ],
)
def test_what_could_not_be_kept_is_refused(pattern, told):
    with pytest.raises(ValueError, match=told):
        pattern_text(pattern)


def test_the_group_may_be_the_ninth_one():
    text = pattern_text("(a)" * 8 + "(?P<tenant>b+)")
    assert tenant_of(text, "a" * 8 + "bb") == "bb"
