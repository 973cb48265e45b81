"""Events in plain JSON as Protobuf: each value what it was, or refused with its place."""

import base64
from decimal import Decimal

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.formats.avro.json_values import Misfit
from headrace.formats.protobuf.json_events import message_writer
from headrace.ports import SchemaKind, WrittenSchema
from headrace.schema_registry.protoc import compiled
from headrace.schema_registry.rules.protobuf_form import protobuf_form

FILE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Visit {
  string lead = 1; int32 n32 = 2; uint64 u64 = 3; sint64 s64 = 4;
  float single = 5; double real = 6; bool yes = 7; bytes raw = 8;
  enum Kind { NONE = 0; PAGE = 1; } Kind kind = 9;
  message Place { string zip_code = 1; optional int32 floor = 2; }
  Place place = 10; repeated Place places = 11; map<int32, Place> by_floor = 12;
  map<bool, string> said = 13; repeated double reals = 14;
  google.protobuf.Timestamp at = 15; google.protobuf.Duration took = 16;
  google.protobuf.StringValue note = 17;
  oneof who { string name = 18; int64 number = 19; }
}
"""


def described(text):
    form = protobuf_form(WrittenSchema(SchemaKind.PROTOBUF, text), compiled)
    return base64.b64encode(form.serialized).decode()


@pytest.fixture(scope="module")
def visits():
    return message_writer(described(FILE))


def back(writer, sent):
    found = writer._put(sent).FromString(writer.written(sent))
    return json_format.MessageToDict(found, preserving_proto_field_name=True)


FULL = {
    "lead": "ada",
    "n32": -(2**31),
    "u64": str(2**64 - 1),
    "s64": str(-(2**63)),
    "single": 0.1,
    "real": 0.1,
    "yes": True,
    "raw": "AAE=",
    "kind": "PAGE",
    "place": {"zip_code": "1", "floor": 0},
    "places": [{}, {"zip_code": "2"}],
    "by_floor": {"-1": {"zip_code": "3"}},
    "said": {"true": "so"},
    "reals": [1.5],
    "at": "2026-11-30T08:15:00.500000001Z",
    "took": "-1.500s",
    "note": "",
    "name": "ada",
}


def test_an_event_comes_back_as_it_was_sent(visits):
    assert back(visits, FULL) == FULL
    assert back(visits, {}) == {}


def test_a_field_is_known_by_both_of_its_names_and_a_null_is_what_is_left_out(visits):
    sent = {"byFloor": {"1": {"zipCode": "9", "floor": None}}, "note": None, "place": None}
    assert back(visits, sent) == {"by_floor": {"1": {"zip_code": "9"}}}


@pytest.mark.parametrize(
    ("sent", "place", "told"),
    [
        (7, [], "an object"),
        ({"led": 1}, ["led"], "no such field"),
        ({"lead": 5}, ["lead"], "a text is expected"),
        ({"lead": None}, ["lead"], "a text is expected"),
        ({"n32": 2**31}, ["n32"], "to 2147483647"),
        ({"n32": True}, ["n32"], "a whole number"),
        ({"u64": -1}, ["u64"], "from 0"),
        ({"u64": "1.0"}, ["u64"], "a whole number"),
        ({"s64": Decimal(9223372036854775808)}, ["s64"], "a whole number"),
        ({"single": 0.123456789}, ["single"], "as it is written"),
        ({"real": 2**53 + 1}, ["real"], "as it is written"),
        ({"real": "1"}, ["real"], "a number"),
        ({"yes": 1}, ["yes"], "true or false"),
        ({"raw": "AAE"}, ["raw"], "padding"),
        ({"kind": "WHAT"}, ["kind"], "a name of Kind"),
        ({"kind": True}, ["kind"], "a name of Kind"),
        ({"places": [{}, {"zip_code": 5}]}, ["places", 1, "zip_code"], "a text"),
        ({"places": [None]}, ["places", 0], "an object"),
        ({"by_floor": {"x": {}}}, ["by_floor", "x"], "a whole number"),
        ({"by_floor": {"1": {"floor": "a"}}}, ["by_floor", "1", "floor"], "a whole number"),
        ({"said": {"yes": "a"}}, ["said", "yes"], "true or false"),
        ({"at": "2026-11-30"}, ["at"], "a time as"),
        ({"at": "2026-02-30T00:00:00Z"}, ["at"], "a time as"),
        ({"at": "2026-11-30T00:00:00+24:00"}, ["at"], "a time as"),
        ({"at": "2026-11-30T00:00:00-01:60"}, ["at"], "a time as"),
        ({"at": "2026-11-30T00:00:00.0000000001Z"}, ["at"], "a time as"),
        ({"took": "1.5"}, ["took"], "a duration as"),
        ({"note": 5}, ["note"], "a text"),
        ({"name": "a", "number": 1}, ["number"], "name is set"),
        ({"by_floor": {}, "byFloor": {}}, ["byFloor"], "already"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(visits, sent, place, told):
    with pytest.raises(Misfit) as caught:
        visits.written(sent)
    assert [*reversed(caught.value.path)] == place
    assert told in caught.value.reason


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(-(2**63), 2**63 - 1))
def test_whatever_number_is_taken_comes_back(single, whole):
    writer = message_writer(NUMBERS)
    sent = {"single": single, "real": single, "s64": whole}
    try:
        made = writer._put(sent)
    except Misfit:
        return
    assert made.real == single
    assert made.s64 == whole


NUMBERS = described('syntax="proto3"; message N { float single=1; double real=2; sint64 s64=3; }')


def test_a_required_field_has_to_be_there():
    text = 'syntax="proto2"; message A { required string a = 1; optional B b = 2; } '
    writer = message_writer(described(text + "message B { required int32 c = 1; }"))
    for sent, place in (({}, ["a"]), ({"a": None}, ["a"]), ({"a": "x", "b": {}}, ["c", "b"])):
        with pytest.raises(Misfit) as caught:
            writer.written(sent)
        assert caught.value.path == place


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('syntax="proto3"; message A { A a = 1; }', "holds itself"),
        ('syntax="proto3"; enum E { A = 0; }', "no message"),
    ],
)
def test_a_file_that_nothing_is_written_by_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        message_writer(described(text))


def test_what_is_no_descriptor_is_refused():
    for text in (FILE, "????", base64.b64encode(b"\xff").decode()):
        with pytest.raises(ConfigError, match="descriptor"):
            message_writer(text)


def test_messages_that_many_ways_lead_to_are_looked_at_once():
    levels = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }} " for n in range(40))
    writer = message_writer(described(f'syntax="proto3"; {levels} message M40 {{ int32 c = 1; }}'))
    assert back(writer, {"a": {"b": {}}}) == {"a": {"b": {}}}
