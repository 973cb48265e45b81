"""How much a schema asks, and that nobody waits for the answer."""

import json
import time

import pytest

from headrace.formats.json_judge import exactly, judge_by
from headrace.formats.json_weight import weight_of
from headrace.ports import SchemaKind, WrittenSchema

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


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        ({}, 1),
        ({"type": "string"}, 1),
        ({"properties": {"a": {}, "$ref": {}, "$defs": {"items": {}}}}, 5),
        ({"items": {"allOf": [{}, {"minimum": 1}]}}, 4 + 10),
        ({"maximum": 0.5, "exclusiveMaximum": True, "const": True}, 51),
        ({"uniqueItems": True}, 51),
        ({"enum": [True, "a"] * 500}, 1),
        ({"enum": [1, "a"] * 500}, 51),
        ({"enum": [[1, 2], {"a": [3]}], "const": [4]}, 1 + 3 + 2 + 2 + 2 + 1),
        ({"patternProperties": {"a": True, "b": {}}}, 1 + 20 + 1),
        ({"$id": "http://a/b", "$ref": "#/$defs/a", "$defs": {"a": {}}}, 2),
        ({"properties": {"$id": {"type": "string"}, "id": {}}}, 3),
        ({"pattern": "a", "$defs": {"a": {"allOf": [{}] * 9}}}, 11),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"not": {}}}}, 4),
        ({"properties": {"a": {"$ref": "b.json"}, "c": {"$ref": "b.json#/x~1y"}}}, 3 + 3 + 1),
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
    began_s = time.process_time()
    assert weight_of(schema, {}, MOST) is None
    assert time.process_time() - began_s < 1


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
    began_s = time.process_time()
    assert judge.validator.is_valid(value)
    assert time.process_time() - began_s < 0.4
