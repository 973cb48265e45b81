"""Objects that a JSON Schema takes: judged by the digits that are written."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.formats import JsonSchemaOutput
from headrace.ports import SchemaKind, WrittenSchema
from own_time import own_s

DECIMAL = pa.decimal128(38, 20)
NEAR_ONE = Decimal("1.00000000000000000001")
LONG = Decimal("123456789012345678901234567890.10")


def told(schema, value, kind=DECIMAL):
    """What is told of the one value of column ``a``; empty: it is written."""
    columns = pa.schema([("a", kind)])
    output = JsonSchemaOutput(columns, {"properties": {"a": schema}})
    found = output.encode(pa.table({"a": pa.array([value], kind)}), None)
    return "".join(one.reason for one in found.unencoded)


@pytest.mark.parametrize(
    ("word", "said", "fits", "does_not"),
    [
        ("maximum", 1, Decimal(1), NEAR_ONE),
        ("maximum", 1.0, Decimal(1), NEAR_ONE),
        ("maximum", 0.3, Decimal("0.3"), Decimal("0.30000000000000000001")),
        ("exclusiveMinimum", 1, NEAR_ONE, Decimal(1)),
        ("type", "integer", Decimal(2), NEAR_ONE),
        ("const", 1, Decimal(1), NEAR_ONE),
        ("enum", [0.3], Decimal("0.3"), Decimal("0.30000000000000000001")),
        ("multipleOf", 0.1, Decimal("0.30"), Decimal("0.30000000000000000001")),
        ("multipleOf", 1, Decimal(3), NEAR_ONE),
    ],
)
def test_a_decimal_is_judged_with_all_of_its_digits(word, said, fits, does_not):
    assert told({word: said}, fits) == ""
    assert told({word: said}, does_not) == f"column a: it does not fit the schema's {word}"


def test_a_decimal_of_many_digits_is_judged_as_others():
    kind = pa.decimal128(38, 2)
    assert told({"multipleOf": 0.1, "minimum": 1e29}, LONG, kind) == ""
    assert told({"maximum": 1e29}, LONG, kind) != ""
    assert told({"multipleOf": 0.2}, LONG, kind) != ""


@pytest.mark.parametrize(
    ("kind", "same", "others"),
    [
        (DECIMAL, [NEAR_ONE, NEAR_ONE], [NEAR_ONE, Decimal(1)]),
        (DECIMAL, [Decimal(0), Decimal("-0.0")], [Decimal(0), -NEAR_ONE]),
        (pa.decimal128(38, 0), [Decimal(10**30)] * 2, [Decimal(10**30), Decimal(10**30 + 1)]),
        (pa.float64(), [0.5, 0.5], [0.5, -0.5]),
        (pa.float64(), [0.0, -0.0], [0.0, 5e-324]),
    ],
)
def test_items_are_unique_by_all_of_their_digits(kind, same, others):
    schema = {"uniqueItems": True}
    assert told(schema, others, pa.list_(kind)) == ""
    assert told(schema, same, pa.list_(kind)) != ""


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 1.5, 1e308, 5e-324, -1.7976931348623157e308])
def test_a_float_is_the_number_that_a_schema_writes_alike(value):
    for schema in ({"const": value}, {"minimum": value, "maximum": value, "type": "number"}):
        assert told(schema, value, pa.float64()) == ""


@given(
    st.decimals(-1000, 1000, places=18),
    st.decimals(-1000, 1000, places=3) | st.integers(-1000, 1000).map(Decimal),
    st.sampled_from([-1, 0, 1]),
)
def test_a_bound_is_the_number_that_is_written(value, bound, step):
    near = value if not step else bound + step * Decimal("1e-18")
    for said in (str(bound), f"{bound}.0" if "." not in str(bound) else f"{bound}0"):
        for word, fits in (("maximum", near <= bound), ("exclusiveMinimum", near > bound)):
            assert judged(f'{{"properties": {{"a": {{"{word}": {said}}}}}}}', near) is fits


def judged(text, value):
    kind = pa.decimal128(38, 18)
    output = JsonSchemaOutput(pa.schema([("a", kind)]), text)
    return not output.encode(pa.table({"a": pa.array([value], kind)}), None).unencoded


def test_a_number_of_a_schema_that_is_larger_than_any_is_soon_judged():
    columns = pa.schema([("a", pa.int64())])
    text = '{"properties": {"a": {"minimum": 1e-999999999999}}}'
    found = JsonSchemaOutput(columns, text).encode(pa.table({"a": [1]}), None)
    assert not found.unencoded


def test_a_small_schema_that_is_asked_a_million_times_holds_nobody():
    defs = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(20)}
    heavy = {"$ref": "#/$defs/d0", "$defs": {**defs, "d20": {"type": "object"}}}
    columns, rows = pa.schema([("a", pa.int64())]), pa.table({"a": [1, 2]})

    def asked():
        with pytest.raises(ConfigError, match="10000 parts"):
            JsonSchemaOutput(columns, heavy)
        newest = WrittenSchema(SchemaKind.JSON, json.dumps(heavy))
        found = JsonSchemaOutput(columns, {}).encode(rows, newest)
        assert ["10000 parts" in one.reason for one in found.unencoded] == [True, True]

    assert own_s(asked) < 1


def test_a_row_that_would_take_long_by_its_schema_is_refused_alone():
    schema = {"properties": {"a": {"items": {"allOf": [{"multipleOf": 2}] * 150}}}}
    columns = pa.schema([("a", pa.list_(pa.int64()))])
    rows = pa.table({"a": [[2] * 20_000, [2]]}, columns)

    def encoded():
        found = JsonSchemaOutput(columns, schema).encode(rows, None)
        assert [one.row for one in found.unencoded] == [0]
        assert "too much for a schema" in found.unencoded[0].reason

    assert own_s(encoded) < 1


@pytest.mark.parametrize(
    ("around", "said"),
    [
        (lambda wide: wide, "column a: it does not fit the schema's type"),
        (lambda wide: {"anyOf": [wide, False]}, "it does not fit the schema"),
    ],
    ids=["the first fault", "faults of alternatives are made together"],
)
def test_what_a_row_has_against_it_is_told_without_making_all_its_faults(around, said):
    wide = {"items": {"allOf": [{"type": "string"}] * 900}}
    newest = WrittenSchema(SchemaKind.JSON, json.dumps({"properties": {"a": around(wide)}}))
    columns = pa.schema([("a", pa.list_(pa.int64()))])
    rows = pa.table({"a": [[1] * 199]}, columns)

    def encoded():
        found = JsonSchemaOutput(columns, {}).encode(rows, newest)
        assert [one.reason for one in found.unencoded] == [said]

    assert own_s(encoded) < 0.5
