"""Protobuf out of columns: exact or refused, by one's own file or the newest of a registry."""

import base64
import math

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from test_protobuf import DESCRIPTORS, FULL, Letter, Visit

from headrace.errors import ConfigError, WrongSchema
from headrace.formats import Protobuf, ProtobufOutput
from headrace.ports import SchemaKind, WrittenSchema
from headrace.testing.encoding_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.encoding_contract import WrittenAndRead
from headrace.testing.format_contract import decoded

OUTPUT = ProtobufOutput(Visit)


def read(message, *payloads):
    return decoded(Protobuf(message, framing="none"), list(payloads)).columns


@pytest.fixture
def encodings():
    sent = {
        Visit: [FULL, Visit(), Visit(other={"name": "x"}, id=5)],
        Letter: [Letter(id=1), Letter(id=2, to="", size=2)],
    }
    return [
        WrittenAndRead(
            ProtobufOutput(kind),
            Protobuf(kind, framing="none"),
            read(kind, *(one.SerializeToString() for one in messages)),
        )
        for kind, messages in sent.items()
    ]


def rows(**columns):
    """Two rows as they are read, with other columns."""
    table = read(Visit, FULL.SerializeToString(), b"")
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def test_what_was_read_is_written_as_it_was():
    made = OUTPUT.encode(rows(), None)
    assert made.unencoded == ()
    assert made.payloads[0] == FULL.SerializeToString(deterministic=True)
    assert Visit.FromString(made.payloads[1]) == Visit()


@pytest.mark.parametrize("value", [0.1, 3e38, 1e-45, math.inf, -math.inf, math.nan])
def test_what_was_read_as_a_float_is_written_as_that_again(value):
    payload = Visit(share=value).SerializeToString()
    columns = read(Visit, payload)
    assert columns.schema.field("share").type == pa.float64()
    made = OUTPUT.encode(columns, None)
    assert (list(made.payloads), made.unencoded) == ([payload], ())


LEAD = pa.struct([("name", pa.string()), ("age", pa.int32())])


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"small": pa.array([2**31, 0])}, "column small: it has more bits"),
        ({"hash": pa.array([-1, 0])}, "column hash: it has more bits"),
        ({"share": pa.array([0.1, 0.5])}, "column share: a float has not its digits"),
        ({"share": pa.array([1e300, 0.5])}, "column share: a float has not its digits"),
        ({"ms": pa.array([2**53 + 1, 1])}, "column ms: a double has not its digits"),
        ({"id": pa.array([None, 1])}, "column id: it must not be null"),
        ({"kind": pa.array(["LOUD", "QUICK"])}, "column kind: it is no name of Kind"),
        ({"kind": pa.array(["1", "QUICK"])}, "column kind: it is no name of Kind"),
        ({"kind": pa.array(["07", "QUICK"])}, "column kind: it is no name of Kind"),
        ({"numbers": pa.array([[1, None], []])}, "column numbers: within it is a null"),
        (
            {"leads": pa.array([[{"name": None}], []], pa.list_(LEAD))},
            "column leads: name: it must",
        ),
        ({"other": pa.array([{"name": "x"}, None], LEAD)}, "column other: user is set, and only"),
        (
            {"by_number": pa.array([[(1, "a"), (1, "b")], []], pa.map_(pa.int32(), pa.string()))},
            "column by_number: its value is none of Python's",
        ),
        ({"took": pa.array([2**55, 0], pa.duration("ms"))}, "column took: "),
    ],
)
def test_a_row_that_a_message_does_not_take_is_told_with_its_column_alone(columns, told):
    made = OUTPUT.encode(rows(**columns), None)
    assert [row for row, _ in made.unencoded] == [0]
    assert made.unencoded[0].reason.startswith(told)
    assert len(made.payloads) == 1


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": pa.array([0.5, 1])}, "column 'id' is double: it cannot be that field"),
        ({"page": pa.array([b"a", b"b"])}, "column 'page' is binary"),
        ({"at": pa.array([1, 2], pa.timestamp("us"))}, r"column 'at' is .* timestamp\('us', 'UTC'"),
        ({"at": pa.array([1, 2], pa.timestamp("ns", "UTC"))}, "column 'at' is .*cast it"),
        ({"leads": pa.array([1, 2])}, "column 'leads' is int64: it has to be a list"),
        ({"lead": pa.array([{"age": 1}, None])}, "column 'lead' .*its field name: .*never null"),
        ({"lead": pa.array([{"x": 1}, None])}, "column 'lead' .*its field x: the message has no"),
        ({"by_name": pa.array([1, 2])}, "column 'by_name' is int64: it cannot be a map"),
    ],
)
def test_columns_that_lose_something_are_refused_by_their_type(columns, told):
    with pytest.raises(WrongSchema, match=told):
        OUTPUT.check(rows(**columns).schema)


def test_a_field_that_knows_whether_it_was_set_may_be_left_out():
    takes = OUTPUT.takes("value")
    assert (takes["id"], takes["page"], takes["leads"]) == (True, False, True)
    assert ProtobufOutput(Letter).takes("value") == {"id": True, "to": False, "size": False}
    with pytest.raises(WrongSchema, match="column 'id' is not there"):
        OUTPUT.check(rows().drop_columns(["id"]).schema)


def test_a_closed_enum_takes_no_number_without_a_name():
    table = pa.table({"id": [1], "to": ["x"], "size": ["7"]})
    (refused,) = ProtobufOutput(Letter).encode(table, None).unencoded
    assert refused.reason == "column size: it is no name of Size"


def test_behind_the_id_stands_which_message_of_its_file_it_is():
    empty = pa.table({"word": ["a"]})
    second = ProtobufOutput("shop.Second", descriptors=DESCRIPTORS)
    assert second.encode(empty, None).place == b"\x02\x02"
    assert OUTPUT.encode(rows(), None).place == b"\0"


def changed(change):
    """The file of a use case as somebody else registered it, with a change."""
    file = FileDescriptorProto.FromString(base64.b64decode(OUTPUT.registers.schema.text))
    change(file)
    text = base64.b64encode(file.SerializeToString()).decode()
    return WrittenSchema(SchemaKind.PROTOBUF, text)


def test_in_the_newest_file_the_message_may_stand_elsewhere_and_have_more_fields():
    def more(file):
        file.message_type.insert(0, file.message_type.pop(1))
        file.message_type[1].field.add(name="new", number=99, type=9, label=1)

    made = OUTPUT.encode(rows(), changed(more))
    assert made.place == b"\x02\x02"
    assert made.payloads == OUTPUT.encode(rows(), None).payloads


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda file: file.message_type.pop(0), "it has no message shop.Visit"),
        (lambda file: file.message_type[0].field.pop(3), "another field 4 than small"),
        (
            lambda file: setattr(file.message_type[0].field[3], "type", 5),
            "another field 4 than small",
        ),
        (
            lambda file: file.message_type[0].nested_type[0].field.pop(0),
            r"shop\.Visit\.Lead has another field 1 than name",
        ),
        (
            lambda file: setattr(file.message_type[0].enum_type[0].value[1], "number", 2),
            r"shop\.Visit\.Kind has another number than 1 for QUICK",
        ),
    ],
)
def test_a_newest_file_in_which_it_would_mean_something_else_is_refused(change, told):
    with pytest.raises(ConfigError, match=told):
        OUTPUT.check(rows().schema, changed(change))


def test_a_file_that_imports_one_of_its_own_is_refused_when_the_use_case_is_written(tmp_path):
    files = FileDescriptorSet.FromString(DESCRIPTORS.read_bytes())
    file = files.file.add(name="a.proto", package="a", syntax="proto3", dependency=["visits.proto"])
    file.message_type.add(name="A").field.add(name="x", number=1, type=5, label=1)
    (tmp_path / "all.bin").write_bytes(files.SerializeToString())
    with pytest.raises(ConfigError, match=r"its file imports visits\.proto; put both into one"):
        ProtobufOutput("a.A", descriptors=tmp_path / "all.bin")
