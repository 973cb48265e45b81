"""The tenant of topics for all, as somebody meets it who types commands."""

import json

import pytest

from headrace.errors import ConfigError
from headrace.model.everyone import EVERYONE
from headrace.model.records import Deployment
from headrace.model.streams import State, StreamId
from headrace.operating.retiring import lacking, retire

COUNT = Deployment("count", "count.py", "ab12", "impressions")


def words_of(result):
    return " ".join(result.output.split())


def test_nobody_adds_it_by_name_or_in_a_list(headrace, store, config):
    for words in ((EVERYONE,), ("corp", EVERYONE)):
        result = headrace("tenants", "add", *words)
        assert result.exit_code == 2
        assert "tenant everyone: the name is reserved for topics without {tenant}" in words_of(
            result
        )
    listed = config.parent / "tenants.csv"
    listed.write_text("name\nACME\neveryone\n")
    told = words_of(headrace("tenants", "add", "--file", str(listed)))
    assert "ACME" in told
    assert "everyone: the name is reserved" in told
    assert {tenant.name for tenant in store.registry.tenants()} == {"acme", "bolt"}


def test_it_is_listed_suspended_throttled_and_weighed_as_others_are(headrace, store):
    store.registry.deploy(COUNT)
    for words in (("suspend",), ("resume",), ("throttle", "--records", "5"), ("weigh", "20")):
        verb, *more = words
        result = headrace("tenants", verb, EVERYONE, *more)
        assert result.exit_code == 0, result.output
    rows = json.loads(headrace("tenants", "list", "--json").output)
    (row,) = [row for row in rows if row["name"] == EVERYONE]
    assert (row["state"], row["weight"]) == ("active", 20)


def test_removed_it_is_added_by_hand_and_nothing_brings_it_back(headrace, store):
    store.registry.deploy(COUNT)
    assert headrace("tenants", "remove", EVERYONE, "--yes").exit_code == 0
    store.registry.deploy(COUNT)
    other = Deployment("other", "count.py", "ab12", "clicks")
    with pytest.raises(ConfigError, match="'headrace tenants add everyone' starts it afresh"):
        store.registry.deploy(other)
    result = headrace("tenants", "add", EVERYONE, "--yes")
    assert result.exit_code == 0, result.output
    store.registry.deploy(other)
    there = {one.id for one in store.registry.streams() if one.state is not State.REMOVED}
    assert there >= {StreamId("count", EVERYONE), StreamId("other", EVERYONE)}


def test_no_key_is_made_of_it(headrace, store, monkeypatch, tmp_path):
    store.registry.deploy(COUNT)
    monkeypatch.setenv("HEADRACE_SECRET", "a secret of thirty-two characters")
    result = headrace("keys", "create", "--role", "tenant", "--tenant", EVERYONE)
    assert result.exit_code == 2
    assert "no credential is of it; role operator or viewer sees its streams" in words_of(result)
    assert store.keys.every() == []


def test_who_has_no_stream_of_a_use_case_is_told_whose_it_is(headrace, store):
    store.registry.deploy(COUNT)
    told = words_of(headrace("streams", "add", "acme/count", "--yes"))
    assert "reads topic impressions, of which everyone alone has a stream" in told
    told = words_of(headrace("streams", "add", "everyone/score", "--yes"))
    assert "reads topic {tenant}.visits, of which each customer has one" in told


def test_what_lacks_a_stream_is_given_to_who_can_have_it(store):
    store.registry.deploy(COUNT)
    assert lacking(store.registry, ["count", "score"], {}) == []
    for name in ("count", "score"):
        retire(store.registry, name)
    assert lacking(store.registry, ["count", "score"], {}) == [
        StreamId("count", EVERYONE),
        StreamId("score", "acme"),
    ]
