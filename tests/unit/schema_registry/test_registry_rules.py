"""What goes together with what, in each language: tables of two schemas and the answer."""

import base64
import json
from contextlib import suppress

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.errors import ConfigError
from headrace.formats import Avro
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry.judging import faults_among, form_of
from headrace.schema_registry.rules.avro_form import avro_form
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.json_form import json_faults, json_form
from headrace.schema_registry.rules.texts import BadSchema, Compared, without_layout
from own_time import calls_of


def record(*fields, **more):
    return {"type": "record", "name": "a.R", "fields": list(fields)} | more


def field(name, kind, **more):
    return {"name": name, "type": kind} | more


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols)} | more


def fixed(size):
    return {"type": "fixed", "name": "F", "size": size}


A, B = field("a", "int"), field("b", "int")
#: old, new, whether the new one reads the old
AVRO = [
    (record(A), record(A, field("b", "int", default=1)), True),
    (record(A), record(A, B), False),
    (record(A, B), record(A), True),
    (record(A), record(field("x", "int", aliases=["a"])), True),
    (record(A), record(field("x", "int")), False),
    (record(A), record(A, name="a.S"), False),
    (record(A), record(A, name="a.S", aliases=["R"]), True),
    (record(A), record(field("a", "long")), True),
    (record(field("a", "long")), record(A), False),
    (record(field("a", "string")), record(field("a", "bytes")), True),
    (record(field("a", enum("X", "Y"))), record(field("a", enum("X"))), False),
    (record(field("a", enum("X", "Y"))), record(field("a", enum("X", default="X"))), True),
    (record(field("a", fixed(4))), record(field("a", fixed(8))), False),
    (record(A), record(field("a", ["null", "int"])), True),
    (record(field("a", ["null", "int"])), record(A), False),
    (record(field("a", ["int", "string"])), record(field("a", ["string", "int"])), True),
    (record(field("a", {"type": "array", "items": "int"})), record(A), False),
    (
        record(field("a", {"type": "int", "logicalType": "date"})),
        record(field("a", {"type": "int", "logicalType": "time-millis"})),
        True,
    ),
]


def closed(*names, required=()):
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(required),
        "additionalProperties": False,
    }


def open_(**properties):
    return {"type": "object", "properties": properties}


S, WHOLE, N = {"type": "string"}, {"type": "integer"}, {"type": "number"}
JSON = [
    (closed("a"), closed("a", "b"), True),
    (closed("a", "b"), closed("a"), False),
    (closed("a"), closed("a", "b", required=["b"]), False),
    (closed("a", required=["a"]), closed("a"), True),
    (open_(a=S), open_(a=S, b=WHOLE), False),
    (open_(a=S), open_(), True),
    (WHOLE, N, True),
    (N, WHOLE, False),
    ({"enum": ["x"]}, {"enum": ["x", "y"]}, True),
    ({"enum": ["x", "y"]}, {"enum": ["x"]}, False),
    ({"type": "integer", "maximum": 5}, {"type": "integer", "maximum": 9}, True),
    ({"type": "integer", "maximum": 9}, {"type": "integer", "maximum": 5}, False),
    ({"type": "string", "minLength": 2}, S, True),
    ({"type": "array", "items": WHOLE}, {"type": "array", "items": N}, True),
    ({"type": "array", "items": N}, {"type": "array", "items": WHOLE}, False),
    (S, {"oneOf": [S, WHOLE]}, True),
    ({"oneOf": [S, WHOLE]}, S, False),
    ({"anyOf": [S, WHOLE]}, {"anyOf": [WHOLE, S]}, True),
    ({"title": "a", **S}, {"title": "b", "description": "c", **S}, True),
    # what cannot be judged counts as incompatible, though this one is not
    (
        {"additionalProperties": S, "properties": {"a": S}},
        {"additionalProperties": S, "properties": {"a": S, "b": S}},
        False,
    ),
]


def proto(inside, *, head="", syntax="proto3", package="p"):
    return f'syntax="{syntax}"; package {package}; {head} message M {{ {inside} }}'


PROTOBUF = [
    (proto("int32 a=1;"), proto("int32 a=1; string b=2;"), True),
    (proto("int32 a=1; string b=2;"), proto("int32 a=1;"), True),
    (proto("int32 a=1;"), proto("int32 renamed=1;"), True),
    (proto("int32 a=1;"), proto("int64 a=1;"), True),
    (proto("int32 a=1;"), proto("sint32 a=1;"), False),
    (proto("int32 a=1;"), proto("string a=1;"), False),
    (proto("string a=1;"), proto("bytes a=1;"), True),
    (proto("float a=1;"), proto("double a=1;"), False),
    (proto("fixed32 a=1;"), proto("sfixed32 a=1;"), True),
    (proto("string a=1;"), proto("repeated string a=1;"), True),
    (proto("int32 a=1;"), proto("repeated int32 a=1;"), False),
    (proto("int32 a=1;"), proto("E a=1;", head="enum E { Z=0; }"), True),
    (
        proto("E a=1;", head="enum E { Z=0; Y=1; }"),
        proto("E a=1;", head="enum E { Z=0; }"),
        True,
    ),
    (proto("int32 a=1;", head="message N {}"), proto("int32 a=1;"), False),
    (proto("int32 a=1;"), proto("int32 a=1;", head="message N {}"), True),
    (
        proto("N a=1;", head="message N {int32 x=1;}"),
        proto("N a=1;", head="message N {string x=1;}"),
        False,
    ),
    (
        proto("N a=1;", head="message N {} message O {}"),
        proto("O a=1;", head="message N {} message O {}"),
        False,
    ),
    (proto("int32 a=1;"), proto("oneof o { int32 a=1; }"), True),
    (proto("int32 a=1; int32 b=2;"), proto("oneof o { int32 a=1; int32 b=2; }"), False),
    (proto("oneof o { int32 a=1; int32 b=2; }"), proto("oneof o { int32 a=1; }"), False),
    (proto("int32 a=1;"), proto("optional int32 a=1;"), True),
    (proto("map<string,int32> a=1;"), proto("map<string,int64> a=1;"), True),
    (proto("map<string,int32> a=1;"), proto("map<string,string> a=1;"), False),
    (proto("int32 a=1;"), proto("int32 a=1;", package="q"), False),
    (
        proto("optional int32 a=1;", syntax="proto2"),
        proto("optional int32 a=1; required int32 b=2;", syntax="proto2"),
        False,
    ),
]


def described(**more):
    return base64.b64encode(FileDescriptorProto(package="p", **more).SerializeToString()).decode()


GROUP = "optional group N = 1 {{ optional {} a=1; }}"


def faults(kind, old, new, level=Level.BACKWARD):
    before = [Compared(1, WrittenSchema(kind, old))]
    return faults_among(WrittenSchema(kind, new), before, level)


@pytest.mark.parametrize(("old", "new", "reads"), AVRO)
def test_avro(old, new, reads):
    old, new = json.dumps(old), json.dumps(new)
    assert (not faults(SchemaKind.AVRO, old, new)) is reads
    assert (not faults(SchemaKind.AVRO, new, old, Level.FORWARD)) is reads
    assert reads or faults(SchemaKind.AVRO, old, new, Level.FULL)


def test_the_place_of_an_avro_fault_is_the_field_and_not_the_whole_beside_it():
    new = json.dumps(record(A, field("country", "string"), B))
    (told,) = faults(SchemaKind.AVRO, json.dumps(record(A, B)), new)
    assert " at /fields/1: " in told
    renamed = json.dumps(record(A, name="b.S"))
    (told,) = faults(SchemaKind.AVRO, json.dumps(record(A)), renamed)
    assert " at /name: " in told


@pytest.mark.parametrize(("old", "new", "reads"), JSON)
def test_json_schema(old, new, reads):
    assert (not faults(SchemaKind.JSON, json.dumps(old), json.dumps(new))) is reads


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (
            {"properties": {"p": {"$ref": "part.json"}}},
            {"properties": {"v": S, "n": {"$ref": "#"}}},
            {"properties": {"v": WHOLE, "n": {"$ref": "#"}}},
        ),
        ({"properties": {"n": {"$ref": "#"}, "p": {"$ref": "part.json"}}}, S, WHOLE),
    ],
)
def test_references_that_cannot_be_followed_count_as_incompatible(text, old, new):
    def written(part):
        return WrittenSchema(SchemaKind.JSON, json.dumps(text), (("part.json", json.dumps(part)),))

    told = faults_among(written(new), [Compared(1, written(old))], Level.BACKWARD)
    assert "NOT_JUDGED" in told[0]


@pytest.mark.parametrize(
    ("old", "new", "reads"),
    [(WHOLE, {"type": "number"}, True), (WHOLE, S, False), (S, S, True)],
)
@pytest.mark.parametrize(
    "text",
    [
        {"properties": {"p": {"$ref": "part.json#/definitions/v"}}},
        {"properties": {"p": {"$ref": "whole.json"}}, "additionalProperties": False},
    ],
)
def test_what_is_referred_to_is_held_against_what_it_was(text, old, new, reads):
    def written(part):
        others = {
            "part.json": {"definitions": {"v": part}},
            "whole.json": {"properties": {"q": {"$ref": "part.json#/definitions/v"}}},
        }
        texts = tuple((name, json.dumps(other)) for name, other in others.items())
        return WrittenSchema(SchemaKind.JSON, json.dumps(text), texts)

    told = faults_among(written(new), [Compared(1, written(old))], Level.BACKWARD)
    assert (not told) is reads
    assert not any("NOT_JUDGED" in fault for fault in told)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # In draft 7 what stands beside a reference says nothing.
        ({"$ref": "part.json", "minimum": 4}, {"type": "integer", "minimum": 4}),
        ({"const": {"$ref": "part.json"}}, {"const": {"type": "integer"}}),
        ({"enum": [{"$ref": "part.json"}]}, {"enum": [{"type": "integer"}]}),
    ],
)
def test_a_reference_that_cannot_be_replaced_is_not(old, new):
    part = (("part.json", json.dumps(WHOLE)),)
    writer, reader = (
        WrittenSchema(SchemaKind.JSON, json.dumps({"properties": {"p": text}}), part)
        for text in (old, new)
    )
    assert faults_among(reader, [Compared(1, writer)], Level.BACKWARD)


def test_a_schema_that_contains_itself_and_changed_counts_as_incompatible():
    def text(kind):
        return json.dumps({"type": "object", "properties": {"n": {"$ref": "#"}, "v": kind}})

    assert "NOT_JUDGED" in faults(SchemaKind.JSON, text(S), text(WHOLE))[0]


@pytest.mark.parametrize(("old", "new", "reads"), PROTOBUF)
def test_protobuf(old, new, reads):
    assert (not faults(SchemaKind.PROTOBUF, old, new)) is reads


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "optional string a=1;",
            "optional int32 a=1;",
            "FIELD_KIND_CHANGED: field 1 (a) of p.Part",
        ),
        ("optional string a=1;", "required string a=1;", "REQUIRED_FIELD_ADDED"),
        ("", "required int32 b=2;", "REQUIRED_FIELD_ADDED"),
        (GROUP.format("int32"), GROUP.format("string"), "FIELD_KIND_CHANGED"),
        ("optional int32 a=1;", "optional int64 a=1;", None),
    ],
)
def test_what_is_imported_from_the_same_package_is_held_against_what_it_was(old, new, told):
    def compared(part):
        text = f'syntax="proto2"; package p; message Part {{ {part} }}'
        main = proto("optional Part x=1;", head='import "part.proto";', syntax="proto2")
        return WrittenSchema(SchemaKind.PROTOBUF, main, (("part.proto", text),))

    found = faults_among(compared(new), [Compared(1, compared(old))], Level.BACKWARD)
    assert told in found[0] if told else found == []


def test_of_another_package_it_is_told_too_what_changed_in_its_messages():
    old = proto("N a=1;", head="message N { string x=1; }")
    new = proto("N a=1;", head="message N { int32 x=1; }", package="q.r")
    package, kind = faults(SchemaKind.PROTOBUF, old, new)
    assert "PACKAGE_CHANGED" in package
    assert "FIELD_KIND_CHANGED: field 1 (x) of p.N" in kind


def test_nothing_is_held_against_none_and_another_language_is_compatible_with_nothing():
    assert faults(SchemaKind.AVRO, '"int"', '"string"', Level.NONE) == []
    before = [Compared(1, WrittenSchema(SchemaKind.JSON, "{}"))]
    told = faults_among(WrittenSchema(SchemaKind.AVRO, '"int"'), before, Level.BACKWARD)
    assert "SCHEMA_TYPE_CHANGED" in told[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            '{"type":"record","name":"a.R","fields":[]}',
            '{"name":"R","namespace":"a","type":"record","fields":[]}',
        ),
        ('"int"', '{"type": "int"}'),
        ('"int"', "int"),
        (
            '{"type":"record","name":"a.R","fields":[{"name":"n","type":["null","a.R"]}]}',
            '{"type":"record","name":"a.R","fields":[{"name":"n","type":["null","R"],"order":"ascending"}]}',
        ),
    ],
)
def test_one_avro_schema_written_in_two_ways_is_one(one, other):
    kind = SchemaKind.AVRO
    assert form_of(WrittenSchema(kind, one)) == form_of(WrittenSchema(kind, other))


def test_a_default_that_may_be_of_its_type_in_very_many_ways_is_judged_at_once():
    def looked_at(innermost):
        default = innermost
        for _ in range(40):
            default = {"x": default}
        part = {"type": "record", "name": "B", "fields": [field("x", ["A", "B", "string"])]}
        whole = {"type": "record", "name": "A", "fields": [field("x", ["A", part])]}
        return WrittenSchema(
            SchemaKind.AVRO, json.dumps(record(field("d", [whole, "B"], default=default)))
        )

    def judged():
        with pytest.raises(BadSchema, match="none of its type"):
            form_of(looked_at(5))
        assert form_of(looked_at("end"))

    calls_of(judged, most=1_000_000)


def test_documentation_is_part_of_a_schema():
    plain = '{"type":"record","name":"R","fields":[]}'
    told = '{"type":"record","name":"R","doc":"x","fields":[]}'
    assert form_of(WrittenSchema(SchemaKind.AVRO, plain)) != form_of(
        WrittenSchema(SchemaKind.AVRO, told)
    )


def test_the_order_of_members_counts_until_it_is_normalized():
    one = form_of(WrittenSchema(SchemaKind.JSON, '{"type":"string","title":"a"}'))
    other = form_of(WrittenSchema(SchemaKind.JSON, '{"title":"a","type":"string"}'))
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized


def test_text_and_descriptor_of_a_file_are_one_schema():
    text = form_of(WrittenSchema(SchemaKind.PROTOBUF, "// note\n" + proto("int32 a_b=1;")))
    sent = base64.b64encode(text.serialized).decode()
    assert form_of(WrittenSchema(SchemaKind.PROTOBUF, sent)).canonical == text.canonical


TWO_BYTES = {"type": "fixed", "name": "Two", "size": 2}


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        *(("double", text) for text in (0.1, "NaN", "Infinity", "-Infinity", "inf", "nan", "1")),
        ("float", 3.4028235e38),
        ("float", 1e39),
        ("double", 1e39),
        ("float", "NaN"),
        ("bytes", "\xff"),
        ("bytes", "\u20ac"),
        ("bytes", ""),
        (TWO_BYTES, "ab"),
        (TWO_BYTES, "abc"),
        (TWO_BYTES, "a\u20ac"),
    ],
)
def test_registry_and_reader_take_the_same_defaults(kind, default):
    schema = json.dumps(record(field("a", kind, default=default)))
    taken = set()
    for name, take in (("reader", Avro), ("registry", avro_form)):
        with suppress(ConfigError):
            take(schema)
            taken.add(name)
    assert taken in ({"reader", "registry"}, set())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SchemaKind.AVRO, '"strange"'),
        (SchemaKind.AVRO, '{"type":"record","name":"R"}'),
        (SchemaKind.AVRO, '{"type":"record","name":"1R","fields":[]}'),
        (SchemaKind.AVRO, '["int","int"]'),
        (SchemaKind.AVRO, '{"type":"enum","name":"E","symbols":["A","A"]}'),
        (SchemaKind.AVRO, json.dumps(record(field("a", "int", default="x")))),
        (SchemaKind.AVRO, json.dumps(record(field("a", "double", default=10**400)))),
        (
            SchemaKind.AVRO,
            '{"type":"record","name":"R","fields":[{"name":"a","type":"float","default":1e999}]}',
        ),
        (SchemaKind.AVRO, json.dumps(record(A, A))),
        (SchemaKind.AVRO, '{"type":"fixed","name":"F","size":"x"}'),
        (SchemaKind.AVRO, '{"type":"fixed","name":"F","size":true}'),
        (SchemaKind.AVRO, json.dumps(record(field("a b", "int")))),
        (SchemaKind.AVRO, json.dumps(record(field("a", "int", aliases="bcd")))),
        (SchemaKind.AVRO, json.dumps(record(field("a", "int", aliases=5)))),
        (SchemaKind.AVRO, '{"type":"map"}'),
        (SchemaKind.AVRO, "7"),
        (SchemaKind.JSON, '{"type":"strange"}'),
        (SchemaKind.JSON, "7"),
        (SchemaKind.JSON, '{"$ref":"http://example.com/x.json"}'),
        (SchemaKind.JSON, '{"$ref":"#/definitions/none"}'),
        (SchemaKind.JSON, '{"$ref":"file:///etc/passwd"}'),
        (SchemaKind.JSON, '{"$schema":"http://example.com/own"}'),
        (SchemaKind.PROTOBUF, "message M {"),
        (SchemaKind.PROTOBUF, proto("None a=1;")),
        (SchemaKind.PROTOBUF, proto("", head='import "/etc/passwd";')),
        (SchemaKind.PROTOBUF, proto("", head='import "../../x.proto";')),
        (SchemaKind.PROTOBUF, "AAAA"),
        (SchemaKind.PROTOBUF, "message A {" * 200 + "}" * 200),
    ],
)
def test_what_is_no_schema_is_refused_with_a_reason(kind, text):
    with pytest.raises(BadSchema):
        form_of(WrittenSchema(kind, text))


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ('edition = "2023"; message M { string a=1; }', 'syntax="proto3";'),
        (proto("", head='import "part.proto";'), 'edition = "2023"; message Part {}'),
        (described(syntax="editions", edition=1000), 'syntax="proto3";'),
    ],
)
def test_editions_are_refused_since_their_features_are_not_judged(text, reference):
    schema = WrittenSchema(SchemaKind.PROTOBUF, text, (("part.proto", reference),))
    with pytest.raises(BadSchema, match="not supported"):
        form_of(schema)


def test_what_is_referred_to_refers_to_nothing_elsewhere_either():
    other = ("other.json", '{"$ref":"http://127.0.0.1:9/x.json"}')
    with pytest.raises(BadSchema):
        form_of(WrittenSchema(SchemaKind.JSON, '{"$ref":"other.json"}', (other,)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"multipleOf":0.1}', '{"multipleOf":0.10000000000000000001}'),
        ('{"maximum":9007199254740993.0}', '{"maximum":9007199254740992.0}'),
        ('{"const":1e400}', '{"const":1e401}'),
        ('{"enum":[0.10000000000000000001]}', '{"enum":["0.10000000000000000001"]}'),
    ],
)
def test_numbers_that_differ_beyond_what_python_keeps_are_two_texts(one, other):
    assert without_layout(one) != without_layout(other)
    assert without_layout(one)[0] == one


def test_layout_of_numbers_is_no_difference():
    assert without_layout('{"a": 0.10, "b": 1E2}') == without_layout('{"a":0.1,"b":100.0}')


@pytest.mark.parametrize(
    "text",
    [
        '{"anyOf":[{"type":"null"},{"items":{"$ref":"#","unevaluatedItems":{}}}]}',
        '{"anyOf":[{"type":"null"},{"items":{"allOf":[{"$ref":"#"}],"unevaluatedItems":{}}}]}',
        '{"then":{"properties":{"a":{"$ref":"#","unevaluatedProperties":false}}}}',
    ],
)
def test_a_json_schema_over_which_its_library_ends_the_process_is_kept_and_not_compared(text):
    draft = "https://json-schema.org/draft/2020-12/schema"
    text = json.dumps({"$schema": draft} | json.loads(text), separators=(",", ":"))
    assert json_form(text).canonical == text
    schema = WrittenSchema(SchemaKind.JSON, text)
    (told,) = json_faults(schema, schema)
    assert told.startswith("NOT_JUDGED")


@pytest.mark.parametrize(
    "shape",
    [
        {"$defs": {"a": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/a"}]},
        {"$defs": {"a": {"type": "object"}}, "$ref": "#/$defs/a"},
        {"type": "object", "properties": {"orderRef": {"type": "string"}}},
    ],
)
def test_a_strict_schema_that_leads_nowhere_back_is_compared(shape):
    draft = "https://json-schema.org/draft/2020-12/schema"
    text = json.dumps({"$schema": draft, "unevaluatedProperties": False} | shape)
    schema = WrittenSchema(SchemaKind.JSON, text)
    assert json_faults(schema, schema) == []
