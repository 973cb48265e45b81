"""How much a schema asks, and that nobody waits for the answer."""

import json
import random

import pytest

from headrace.errors import ConfigError
from headrace.formats.json_judge import exactly, judge_by
from headrace.formats.json_weight import weight_of
from headrace.ports import SchemaKind, WrittenSchema
from own_time import calls_of, own_s

MOST = 10_000


def test_patterns_count_as_often_as_they_are_asked():
    schema = {"$ref": "#/$defs/a", "not": {"$ref": "#/$defs/a"}, "pattern": "a"}
    schema["$defs"] = {"a": {"pattern": "b", "patternProperties": {"c": True, "d": True}}}
    assert weight_of(schema, {}, MOST).patterns == 1 + 2 * 3


def twice(levels):
    """A small text in which each reference leads to two others."""
    defs = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "integer"}}}


def chain(length):
    defs = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{length}": {}}}


#: three objects, of which each but the last asks for all below it again
NEST = {"unevaluatedProperties": False, "allOf": [{"unevaluatedItems": True, "contains": {}}]}


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        ({}, 1),
        ({"type": "string"}, 1),
        ({"properties": {"a": {}, "$ref": {}, "$defs": {"items": {}}}}, 5),
        ({"items": {"allOf": [{}, {"minimum": 1}]}}, 4 + 10),
        ({"maximum": 0.5, "exclusiveMaximum": True, "const": True}, 51),
        ({"uniqueItems": True}, 51),
        ({"enum": [True, "a"] * 500}, 1 + 250),
        ({"enum": [1, "a"] * 500}, 51 + 500 * 8 + 250),
        ({"enum": [[1, 2], {"a": [3]}], "const": [4]}, 1 + 3 + 2 + 2 + 2 + 4 * 8 + 1),
        ({"required": ["a"] * 8, "type": ["null", "string"]}, 1 + 2),
        ({"allOf": [True] * 8, "properties": dict.fromkeys("abcd", False)}, 1 + 3),
        ({"dependencies": {"a": ["b"] * 6, "b": ["c"]}}, 1 + 2),
        ({"dependentRequired": {"a": ["b"] * 4, "c": [], "d": [], "e": []}}, 1 + 2 + 1 + 1),
        ({"patternProperties": {"a": True, "b": {}}}, 1 + 20 + 1),
        ({"$id": "http://a/b", "$ref": "#/$defs/a", "$defs": {"a": {}}}, 2),
        ({"properties": {"$id": {"type": "string"}, "id": {}}}, 3),
        ({"pattern": "a", "$defs": {"a": {"allOf": [{}] * 9}}}, 11),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"not": {}}}}, 4),
        ({"properties": {"a": {"$ref": "b.json"}, "c": {"$ref": "b.json#/x~1y"}}}, 3 + 3 + 1),
        ({"properties": {"a": NEST}, "unevaluatedProperties": NEST}, 3 + 4 * (3 + 9 + 9)),
        ({"items": {"$ref": "#/$defs/a"}, "not": {}, "$defs": {"a": NEST}}, 1 + 1 + 1 + 21),
        ({"unevaluatedItems": False, "$ref": "#/$defs/a", "$defs": {"a": NEST}}, 3 + 3 * 21),
        (twice(3), 1 + 3 + 2 * 3 + 4 * 3 + 8),
        (chain(3000), 3002),
    ],
)
def test_each_object_counts_as_often_as_it_is_asked(schema, weight):
    others = {"b.json": {"$ref": "#/x~1y", "x/y": {"$defs": {"z": {}}}}}
    assert weight_of(schema, others, MOST).parts == weight


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"child": {"$ref": "#"}}},
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}},
        },
        {"$dynamicRef": "#"},
        {"properties": {"a": {"$id": "http://a/b", "$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
        {"$id": "http://a/b", "$ref": "c#", "$defs": {"a": {}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "not": {"id": "#a"}},
        {"enum": [[1] * 200] * 100},
        {"patternProperties": dict.fromkeys(map(str, range(1000)), True)},
        {"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}},
        {"$ref": "of nobody"},
        twice(30),
        chain(20_000),
        {"allOf": [{}] * MOST},
        {"allOf": [{"uniqueItems": True}] * (MOST // 50)},
    ],
)
def test_what_has_no_end_or_too_much_has_no_weight_and_that_is_known_soon(schema):
    found = []
    calls_of(lambda: found.append(weight_of(schema, {}, MOST)), most=1_000 * MOST)
    assert found == [None]


@pytest.mark.parametrize("number", ["1", "12345678901", "1.25"])
@pytest.mark.parametrize(
    "word",
    [
        {"type": "integer"},
        {"minimum": 0},
        {"maximum": 0.5},
        {"const": 2},
        {"const": 2.5},
        {"enum": [2, 3]},
        {"multipleOf": 2},
        {"not": {"exclusiveMinimum": 5.5}},
    ],
)
def test_what_is_not_refused_is_soon_judged(word, number):
    values = 2_000
    text = f'{{"a": [{", ".join([number] * values)}]}}'.encode()
    each = weight_of(word, {}, MOST).parts
    # As many words as a text of so many values may be held against.
    many = [{"anyOf": [word, {}]}] * (2_000_000 // values // (each + 2) - 4)
    schema = json.dumps({"properties": {"a": {"items": {"allOf": many}}}})
    judge = judge_by(WrittenSchema(SchemaKind.JSON, schema))
    assert judge.weight.refusal(text) == ""
    value = exactly(text)
    found = []
    assert own_s(lambda: found.append(judge.validator.is_valid(value))) < 0.4
    assert found == [True]


LATER = "https://json-schema.org/draft/2020-12/schema"


def judge(schema):
    return judge_by(WrittenSchema(SchemaKind.JSON, json.dumps(schema)))


def nest(levels, word, within):
    schema = {}
    for _ in range(levels):
        schema = {word: {}, **within(schema)}
    return {"$schema": LATER, **schema}


def a_list_of(text, often):
    return b"[" + b",".join([text] * often) + b"]"


@pytest.mark.parametrize("levels", [5, 7, 9, 17, 50])
@pytest.mark.parametrize(
    "within",
    [
        lambda schema: {"allOf": [schema]},
        lambda schema: {"oneOf": [schema, False]},
        lambda schema: {"allOf": [{"unevaluatedProperties": schema}]},
        lambda schema: {"contains": schema, "if": {"not": {}}},
        lambda schema: {"unevaluatedItems": {"not": schema}},
    ],
)
@pytest.mark.parametrize("word", ["unevaluatedProperties", "unevaluatedItems"])
def test_what_asks_again_at_each_level_is_refused_or_soon_judged(word, within, levels):
    refused_or_soon_judged(nest(levels, word, within), b'{"a": {"a": {"a": {"a": {}}}}}')
    refused_or_soon_judged(nest(levels, word, within), b"[" * 60 + b"]" * 60)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": {"enum": [at + 0.5 for at in range(1000)]}}, a_list_of(b"999.5", 20_000)),
        ({"items": {"enum": [*range(1000)]}}, a_list_of(b"0.5", 20_000)),
        ({"items": {"not": {"enum": [[at, 0.5] for at in range(400)]}}}, a_list_of(b"[9]", 9_000)),
        ({"items": {"allOf": [True] * 39_000}}, a_list_of(b"1", 20_000)),
        (
            {"items": {"dependencies": {key: ["a"] for key in map(str, range(9000))}}},
            a_list_of(b"{}", 50_000),
        ),
        (
            {"items": {"properties": dict.fromkeys(map(str, range(39_000)), True)}},
            a_list_of(b"{}", 50_000),
        ),
    ],
    ids=["numbers", "integers", "lists", "booleans", "names", "properties"],
)
def test_lists_of_what_is_no_object_are_refused_or_soon_judged(schema, text):
    refused_or_soon_judged(schema, text)


def refused_or_soon_judged(schema, text):
    try:
        made = judge(schema)
    except ConfigError:
        return
    if not made.weight.refusal(text):
        value = exactly(text)
        assert own_s(lambda: made.validator.is_valid(value)) < 0.5


SLOW = r"^\w*(\w{0,100}a){%d}[!-/]"


@pytest.mark.parametrize("often", [1, 4, 16, 60])
@pytest.mark.parametrize("length", [300, 3_000, 30_000])
def test_a_slow_pattern_is_refused_or_soon_matched(often, length):
    text = "".join(random.Random(3).choices("ab", k=length))
    refused_or_soon_judged({"pattern": SLOW % often}, json.dumps(text).encode())


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": r"^(\w{100}){300}$"},
        {"patternProperties": {r"^(\w{100}){300}$": True}},
        {"allOf": [{"pattern": rf"^(\w{{100}}){{20}}{at}$"} for at in range(10)]},
        {"pattern": "a" * 4001},
        {"pattern": r"\s{0}" * 700},
        {"allOf": [{"pattern": rf"{at}\s{{0}}" * 90} for at in range(20)]},
    ],
    ids=["one", "names", "many", "long", "classes", "classes of all"],
)
def test_patterns_that_take_much_are_refused(schema):
    with pytest.raises(ConfigError, match="pattern"):
        judge(schema)


@pytest.mark.parametrize(
    "pattern", [r"^.{1,255}$", r"^\p{L}{1,30}$", r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"]
)
def test_patterns_as_people_write_them_are_taken(pattern):
    made = judge({"properties": {"a": {"pattern": pattern}}})
    assert not made.weight.refusal(b'{"a": "%s"}' % (b"a" * 2000))
    assert made.bytes > made.weight.patterns * 1024


def test_why_a_pattern_is_refused_is_told():
    with pytest.raises(ConfigError, match="may not look around or back, and takes at most"):
        judge({"pattern": "(?=a)"})


def test_objects_of_a_later_draft_as_people_write_them_are_taken():
    schema = {"type": "string"}
    for _ in range(12):
        schema = {"properties": {"a": schema}, "unevaluatedProperties": False}
    for _ in range(3):
        schema = {"allOf": [schema, {"properties": {"b": {}}}], "unevaluatedProperties": False}
    assert judge({"$schema": LATER, **schema}).weight.parts < 5000
