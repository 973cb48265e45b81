"""Whoever reads a JSON Schema of a registry reads it by the same draft."""

import json

import pyarrow as pa
import pytest

from headrace.errors import ConfigError
from headrace.formats import JsonSchemaOutput
from headrace.gateway.events import EventFault
from headrace.gateway.subject_writers import writer_of
from headrace.ports import SchemaKind, WrittenSchema
from headrace.schema_registry.rules.json_form import json_faults
from headrace.schema_registry.rules.texts import BadSchema

NEWER = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
#: what the first of a list is, as draft 7 says it and as later ones do
OLD, NEW = {"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}
ANY = WrittenSchema(SchemaKind.JSON, "{}")


def written(schema, **others):
    """A schema as a registry tells it: what is wanted of member ``a``."""
    texts = tuple((name, json.dumps(other)) for name, other in others.items())
    return WrittenSchema(SchemaKind.JSON, json.dumps(schema), texts)


def of_a(schema):
    return {"properties": {"a": schema}}


def is_taken_by_the_gateway(schema):
    """Whether a number may be the first of list ``a``."""
    text = b'{"a": [1]}'
    return not isinstance(writer_of(schema).written(text, None, at_length=True), EventFault)


def is_taken_by_a_sink(schema):
    columns = pa.schema([("a", pa.list_(pa.int64()))])
    rows = pa.table({"a": [[1]]}, columns)
    return not JsonSchemaOutput(columns, {}).encode(rows, schema).unencoded


def is_taken_by_the_judge(schema):
    """Whether all values of any schema are its own."""
    return json_faults(schema, written(NEWER if "2020" in schema.text else {})) == []


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        (written(of_a(OLD)), False),
        (written(of_a(NEW)), True),
        (written(NEWER | of_a(NEW)), False),
        (written(of_a({"$ref": "list"}), list=OLD), False),
        (written(of_a({"$ref": "list"}), list=NEW), True),
        (written(NEWER | of_a({"$ref": "list"}), list=NEW), False),
    ],
)
def test_all_read_a_schema_by_the_same_draft(schema, takes):
    answers = [is_taken_by_the_gateway, is_taken_by_a_sink, is_taken_by_the_judge]
    assert [takes] * 3 == [answer(schema) for answer in answers]


def test_a_word_of_another_draft_is_refused_by_all_where_that_draft_is_named():
    schema = written(NEWER | of_a(OLD))
    for answer, error in (
        (is_taken_by_the_gateway, ConfigError),
        (is_taken_by_a_sink, ConfigError),
        (is_taken_by_the_judge, BadSchema),
    ):
        if answer is is_taken_by_a_sink:
            assert not answer(schema)
        else:
            with pytest.raises(error):
                answer(schema)
