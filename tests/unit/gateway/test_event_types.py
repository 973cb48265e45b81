"""A schema is judged when the gateway starts, and nothing is fetched for it."""

import pytest

from headrace.errors import ConfigError
from headrace.gateway.event_schemas import compiled
from headrace.gateway.event_types import EventType


def fault(schema, value, *, at_length=True):
    kind = EventType("t", "t", schema=compiled(schema, "t.json"))
    return kind.fault_of(value, at_length=at_length)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "an object is expected"),
        ({"type": "nonsense"}, "/type"),
        ({"$ref": "https://example.com/x.json"}, "nothing is fetched"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "/$defs/b"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"$schema": "https://example.com/own"}, "https://example.com/own"),
        ({"properties": {"a": {"pattern": "(?=a)b"}}}, "at /properties/a/pattern"),
        ({"patternProperties": {r"(a)\1": {}}}, "no back references"),
        ({"pattern": "(?:x{1000}){1000}"}, "match in linear time"),
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


def test_a_schema_that_leads_to_itself_comes_to_an_end():
    assert fault({"$ref": "#"}, {}) is None
    down = {"properties": {"a": {"$ref": "#"}, "b": False}}
    assert fault(down, {"a": {"a": {"b": 1}}}).kind == "not-valid"
    assert fault(down, {"a": {"a": {"c": 1}}}) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 100_000 + "!"),
        ({"items": {"pattern": "^(a|a)*$"}}, ["a" * 50_000 + "!"] * 10),
        (
            {"patternProperties": {"^(x+x+)+y": {"type": "null"}}, "required": ["z"]},
            {"x" * 50_000: 1},
        ),
        ({"unevaluatedProperties": False}, {str(number): 1 for number in range(50_000)}),
        ({"unevaluatedItems": False}, [1] * 100_000),
    ],
    ids=["nested", "alternatives", "names", "properties", "items"],
)
def test_no_event_holds_up_the_others(schema, value):
    # What is tried in every way never ends, and what is compared each with each takes minutes.
    assert fault(schema, value, at_length=False).kind == "not-valid"


def test_a_format_says_nothing():
    draft_7 = "http://json-schema.org/draft-07/schema#"
    assert fault({"$schema": draft_7, "format": "date-time"}, "tomorrow") is None


def test_a_long_value_is_not_repeated_to_its_sender():
    found = fault({"type": "integer"}, "x" * 5000)
    assert len(found.detail) < 300


def test_no_more_than_ten_errors_are_told():
    assert len(fault({"items": {"type": "integer"}}, ["x"] * 50).errors) == 10


def test_it_is_told_that_an_event_does_not_fit_where_no_more_is_asked_for():
    found = fault({"items": {"type": "integer"}}, ["x", "y"], at_length=False)
    assert (found.pointer, len(found.errors)) == ("", 1)


_IN = {"properties": {"c": {"$ref": "#/$defs/tree"}}}


@pytest.mark.parametrize(
    "tree",
    [
        {"anyOf": [{**_IN, "required": ["y"]}, {**_IN, "required": ["z"]}]},
        {"type": "object", "allOf": [_IN, _IN]},
        {"type": "object", **_IN, "if": {"properties": {"d": {"const": 1}}}, "then": _IN},
        {"type": "object", **_IN, "dependentSchemas": {"c": _IN}},
        {"type": "object", **_IN, "patternProperties": {"^[a-z]": {"$ref": "#/$defs/tree"}}},
    ],
    ids=["alternatives", "two views", "if and then", "dependent", "patterns"],
)
def test_of_what_refers_to_itself_not_all_ways_are_told(tree):
    # All of them would take minutes, and more memory than there is.
    deep = 1
    for _ in range(60):
        deep = {"c": deep}
    untold = (("", "it does not fit the schema of its type"),)
    assert fault({"$ref": "#/$defs/tree", "$defs": {"tree": tree}}, deep).errors == untold


def test_a_schema_refers_to_itself_by_a_name_as_well():
    ways = [{"properties": {"c": {"$ref": "#tree"}}, "required": [name]} for name in "yz"]
    named = {"$ref": "#tree", "$defs": {"tree": {"$anchor": "tree", "anyOf": ways}}}
    assert not compiled(named, "t.json").parts


def test_a_pointer_within_a_part_of_its_own_name_leads_there():
    ways = [{"properties": {"c": {"$ref": "#/$defs/x"}}, "required": [name]} for name in "yz"]
    part = {"$id": "http://a/part", "$ref": "#/$defs/x", "$defs": {"x": {"anyOf": ways}}}
    assert not compiled({"properties": {"c": part}, "$defs": {"x": {}}}, "t.json").parts


def test_alternatives_that_refer_to_others_are_told():
    schema = {
        "oneOf": [{"$ref": "#/$defs/a%20b"}, {"type": "null"}],
        "$defs": {"a b": {"$ref": "#/$defs/c"}, "c": {"type": "string"}},
    }
    assert "oneOf" in fault(schema, 5).detail


def test_what_is_deeper_than_is_told_is_judged():
    deep = []
    for _ in range(500):
        deep = [deep]
    assert fault({"items": {}}, deep) is None
    assert fault({"enum": [1]}, deep).errors == (("", "it does not fit the schema of its type"),)


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
        (["a", "b", "a"], False),
        ([0, -0.0], False),
        ([2**63, float(2**63)], False),
        ([2**63, float(2**63 + 4096)], True),
        ([10**16, 1e16], False),
        ([1e300, 1e301], True),
        ([{"1": 1.5}, {"1": 1.5}], False),
        # To the validator's own hash all of these are one number: it would take a minute.
        ([2**63 + number for number in range(20_000)], True),
        ([{"a": [2**62 + number]} for number in range(20_000)], True),
        ("aa", True),
    ],
)
def test_unique_items_are_what_json_schema_has_for_them_however_many(items, fits):
    kind = EventType("t", "t", schema=compiled({"uniqueItems": True}, "s.json"))
    assert (kind.fault_of(items, at_length=False) is None) is fits


def test_whether_items_are_unique_is_only_asked_where_a_schema_asks():
    assert fault({"uniqueItems": False}, [1, 1]) is None
    assert fault({"items": {"uniqueItems": True}}, [[1], [2, 2]]).pointer == "/1"


def test_items_that_are_too_deep_to_be_compared_do_not_fit():
    deep = []
    for _ in range(450):
        deep = [deep]
    assert fault({"uniqueItems": True}, [deep, 1]).kind == "not-valid"
    assert fault({"uniqueItems": False}, [deep, 1]) is None


@pytest.mark.parametrize(
    ("divisor", "number", "fits"),
    [
        (0.01, 0.07, True),
        (0.01, 0.07 * 3, False),
        (0.01, -1.23, True),
        (0.01, 5, True),
        (0.01, 1e308, True),
        (3, 1e308, False),
        (2, 3.0, False),
        (2, -4.0, True),
        (2, -0.5, False),
        (1.5, 3, True),
        (1e300, 5, False),
        (7, 2**64 - 2, True),
        (2, 0.0, True),
        (2, "3", True),
        (2, True, True),
    ],
)
def test_a_multiple_is_what_its_digits_say(divisor, number, fits):
    assert (fault({"multipleOf": divisor}, number) is None) is fits


def test_a_multiple_is_told_of_large_numbers_as_soon_as_of_small_ones():
    # Written out, each of them has 300 digits: half a minute.
    schema = {"items": {"multipleOf": 1e-300}}
    assert fault(schema, [1e308] * 300_000) is None
    assert fault({"multipleOf": 5}, 12).detail == "the event: 12 is not a multiple of 5"
