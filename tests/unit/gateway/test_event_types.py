"""A schema is judged when the gateway starts, and nothing is fetched for it."""

import pytest

from headrace.errors import ConfigError
from headrace.gateway.event_types import EventType, compiled


def fault(schema, value):
    return EventType("t", "t", validator=compiled(schema, "t.json")).fault_of(value)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "an object is expected"),
        ({"type": "nonsense"}, "/type"),
        ({"$ref": "https://example.com/x.json"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/$defs/b"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_name(schema, said):
    with pytest.raises(ConfigError, match=r"t\.json") as caught:
        compiled(schema, "t.json")
    assert said in str(caught.value)


def test_references_within_a_schema_are_followed():
    schema = {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "number"}}}
    assert fault(schema, {"a": 1}) is None
    assert fault(schema, {"a": "x"}).pointer == "/a"


def test_a_schema_that_never_ends_is_a_fault_of_the_event():
    assert fault({"$ref": "#"}, {}).kind == "not-valid"


def test_a_long_value_is_not_repeated_to_its_sender():
    found = fault({"type": "integer"}, "x" * 5000)
    assert len(found.detail) < 300


def test_no_more_than_ten_errors_are_told():
    assert len(fault({"items": {"type": "integer"}}, ["x"] * 50).errors) == 10


def test_a_type_says_where_its_events_go():
    assert EventType("visit", "visits").topic_of("acme") == "acme.visits"


@pytest.mark.parametrize(
    ("items", "fits"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, None, "0", [], {}], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([{"a": 1}, {"a": True}], True),
        ([["a", 1], ["a", 1]], False),
        ([{"a": number} for number in range(20_000)], True),
        ([{"a": number} for number in range(20_000)] + [{"a": 0}], False),
    ],
)
def test_unique_items_are_what_json_schema_has_for_them_however_many(items, fits):
    kind = EventType("t", "t", validator=compiled({"uniqueItems": True}, "s.json"))
    assert (kind.fault_of(items) is None) is fits
