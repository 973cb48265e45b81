"""What a schema refers to comes before it, and has an end."""

import pytest

from headrace.connectors.schema_registry import texts
from headrace.connectors.schema_registry.texts import (
    Document,
    ReferencesError,
    Referred,
    in_order,
)
from headrace.formats.kept import Kept
from headrace.ports import SchemaKind


def document(*subjects, text=""):
    named = tuple((subject, Referred(subject, 1)) for subject in subjects)
    return Document(SchemaKind.AVRO, text, named)


def order(root, below, **texts):
    fetched = []

    def fetch(referred):
        fetched.append(referred.subject)
        return document(*below.get(referred.subject, ""), text=referred.subject)

    return [name for name, _ in in_order(root, fetch)], fetched


def test_a_text_that_is_named_twice_comes_once_and_before_both():
    found, _ = order(document("b", "c"), {"b": "d", "c": "d", "d": "e"})
    assert found == ["e", "d", "b", "c"]


@pytest.mark.parametrize("below", [{"a": "a"}, {"a": "b", "b": "a"}])
def test_a_ring_is_refused(below):
    with pytest.raises(ReferencesError, match="refers back to a"):
        order(document("a"), below)


def test_a_chain_without_end_is_refused():
    with pytest.raises(ReferencesError, match="more than anybody means to"):
        order(document("0"), {str(n): [str(n + 1)] for n in range(10_000)})


def test_more_texts_than_anybody_means_to_are_refused():
    many = [str(number) for number in range(1_001)]
    with pytest.raises(ReferencesError, match="more than anybody means to"):
        order(document(*many), {})


def test_one_name_for_two_texts_is_refused():
    two = (("a", Referred("x", 1)), ("a", Referred("x", 2)))
    root = Document(SchemaKind.PROTOBUF, "", two)
    with pytest.raises(ReferencesError, match="two texts by the name a"):
        in_order(root, lambda referred: Document(SchemaKind.PROTOBUF, str(referred.version)))


def test_more_characters_than_anybody_means_to_are_refused(monkeypatch):
    monkeypatch.setattr(texts, "MOST_CHARACTERS", 2)
    assert order(document("b", "c"), {"b": "c"})[0] == ["c", "b"]
    with pytest.raises(ReferencesError, match="more than 2 characters"):
        order(document("b", "c", "d"), {"b": "c"})


def test_texts_that_were_not_asked_for_longest_make_room_for_others():
    kept = Kept(25, lambda found: len(found.text))
    for number in range(1_000):
        kept.put(Referred("s", number), document(text="x" * 10))
        assert kept.get(Referred("s", 0)) is not None
    there = [number for number in range(1_000) if kept.get(Referred("s", number))]
    assert there == [0, 999]


def test_a_text_that_is_larger_than_the_room_is_not_kept():
    kept = Kept(25, lambda found: len(found.text))
    kept.put(Referred("s", 1), document(text="x" * 26))
    assert kept.get(Referred("s", 1)) is None


def test_what_is_kept_again_counts_once():
    kept = Kept(25, lambda found: len(found.text))
    for _ in range(5):
        kept.put(Referred("s", 1), document(text="x" * 10))
    kept.put(Referred("s", 2), document(text="x" * 15))
    assert kept.get(Referred("s", 1)) is not None
    assert kept.get(Referred("s", 2)) is not None
