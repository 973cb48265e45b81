"""Protobuf: what bytes become, what is refused, and where a message stands in its schema."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from headrace import formats as all_formats
from headrace.errors import ConfigError
from headrace.formats import Protobuf
from headrace.testing.format_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.format_contract import as_given, decoded

DESCRIPTORS = Path(__file__).with_name("visits_descriptors.bin")
POOL = DescriptorPool()
for file in FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file:
    POOL.AddSerializedFile(file.SerializeToString())


def message(name):
    return GetMessageClass(POOL.FindMessageTypeByName(name))


Visit, Lead, Letter = message("shop.Visit"), message("shop.Visit.Lead"), message("old.Letter")
FULL = Visit(
    id=-(2**63),
    page="",
    hash=2**64 - 1,
    small=-(2**31),
    plain=2**32 - 1,
    share=0.5,
    ms=0.1,
    seen=True,
    raw=b"\0\xff",
    kind=1,
    lead=Lead(name="Ada", age=0),
    leads=[Lead(name="Bob"), Lead(age=5)],
    numbers=[1, -(2**63)],
    by_name={"b": Lead(name="B"), "a": Lead()},
    by_number={-1: "x", 5: ""},
    user="me",
    times=[{"seconds": 1}],
    kinds=[0, 1, 7],
)
FULL.at.FromDatetime(datetime(2026, 11, 24, 8, 0, 0, 123456))
FULL.took.FromTimedelta(timedelta(seconds=-1, microseconds=-5))
FULL.count.value = 0
MADE = {
    "id": -(2**63),
    "page": "",
    "hash": 2**64 - 1,
    "small": -(2**31),
    "plain": 2**32 - 1,
    "share": 0.5,
    "ms": 0.1,
    "seen": True,
    "raw": b"\0\xff",
    "kind": "QUICK",
    "lead": {"name": "Ada", "age": 0},
    "leads": [{"name": "Bob", "age": None}, {"name": "", "age": 5}],
    "numbers": [1, -(2**63)],
    "by_name": [("a", {"name": "", "age": None}), ("b", {"name": "B", "age": None})],
    "by_number": [(-1, "x"), (5, "")],
    "user": "me",
    "other": None,
    "at": datetime(2026, 11, 24, 8, 0, 0, 123456, tzinfo=UTC),
    "took": timedelta(seconds=-1, microseconds=-5),
    "count": 0,
    "note": None,
    "times": [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
    "kinds": ["UNKNOWN", "QUICK", "7"],
}
NOTHING = {name: [] if isinstance(value, list) else None for name, value in MADE.items()} | {
    "id": 0,
    "hash": 0,
    "small": 0,
    "plain": 0,
    "share": 0.0,
    "ms": 0.0,
    "seen": False,
    "raw": b"",
    "kind": "UNKNOWN",
}
BARE = {"framing": "none"}
TIME, DURATION = b"\x92\x01", b"\x9a\x01"
#: what does not fit, and what is told
REFUSED = [
    (None, "no value, and Protobuf was expected"),
    (b"x", "no shop.Visit"),
    (b"\x08", "no shop.Visit"),
    (b"\x08" + b"\xff" * 10 + b"\x01", "no shop.Visit"),
    (b"\x12\x01\xff", "no shop.Visit"),
    (b"\x12\x05a", "no shop.Visit"),
    (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "no shop.Visit"),
    (b"\x08\x01\0", "no shop.Visit"),
    (b"\x0b" * 500, "no shop.Visit"),
    (Visit(at={"seconds": 2**60}).SerializeToString(), "a time that no calendar has - at `$.at`"),
    (Visit(at={"nanos": -1}).SerializeToString(), "a time that no calendar has - at `$.at`"),
    (Visit(at={"nanos": 10**9}).SerializeToString(), "a time that no calendar has"),
    (Visit(times=[{}, {"seconds": -(2**60)}]).SerializeToString(), "at `$.times`"),
    (Visit(took={"seconds": 2**60}).SerializeToString(), "a duration that is none - at `$.took`"),
    (Visit(took={"seconds": 1, "nanos": -1}).SerializeToString(), "a duration that is none"),
]


@pytest.fixture
def formats():
    return [Protobuf(Visit, **BARE), Protobuf(Visit, fields=["leads", "id"], **BARE)]


@pytest.fixture
def payloads():
    return [FULL.SerializeToString(), b"", *(payload for payload, _ in REFUSED), b"\x08\x05"]


def test_each_field_has_its_column():
    found = decoded(Protobuf(Visit, **BARE), [FULL.SerializeToString(), b""])
    assert found.undecoded == ()
    assert found.columns.to_pylist() == [MADE, NOTHING]
    found.columns.validate(full=True)


@pytest.mark.parametrize(("payload", "told"), REFUSED)
def test_what_does_not_fit_is_told_with_its_place_and_harms_nobody(payload, told):
    found = decoded(Protobuf(Visit, **BARE), [b"\x08\x01", payload, b"\x08\x02"])
    assert found.columns["id"].to_pylist() == [1, 2]
    ((row, reason),) = found.undecoded
    assert (row, told in reason) == (1, True), reason


def test_fields_that_nobody_knows_are_skipped():
    newer = b"\xfa\x07\x03abc" + b"\x08\x05"
    assert decoded(Protobuf(Visit, **BARE), [newer]).columns["id"].to_pylist() == [5]


def test_of_an_older_protobuf_what_is_required_has_to_be_there():
    kind = Protobuf(Letter, **BARE)
    found = decoded(kind, [b"\x08\x05\x18\x02", b"", b"\x08\x01\x18\x09"])
    assert found.columns.to_pylist() == [
        {"id": 5, "to": None, "size": "LARGE"},
        {"id": 1, "to": None, "size": None},
    ]
    assert [row for row, _ in found.undecoded] == [1]
    assert kind.schema("value").field("id").nullable is False


def test_of_an_older_protobuf_a_text_may_be_any_bytes_and_is_a_bad_record(tmp_path):
    texts = FileDescriptorProto(name="texts.proto", package="old", syntax="proto2")
    made = texts.message_type.add(name="Texts")
    entry = made.nested_type.add(name="ByNameEntry", options={"map_entry": True})
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    entry.field.add(name="value", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    for number, (name, label) in enumerate((("one", "OPTIONAL"), ("many", "REPEATED")), 1):
        made.field.add(name=name, number=number, type="TYPE_STRING", label=f"LABEL_{label}")
    made.field.add(name="by_name", number=3, type=11, label=3, type_name=".old.Texts.ByNameEntry")
    path = tmp_path / "texts.bin"
    path.write_bytes(FileDescriptorSet(file=[texts]).SerializeToString())
    kind = Protobuf("old.Texts", descriptors=path, **BARE)
    bad = [b"\x0a\1\xff", b"\x12\1a\x12\1\xff", b"\x1a\5\x0a\1\xff\x10\1"]
    found = decoded(kind, [b"\x0a\1a", *bad, b"\x0a\1b"])
    assert found.columns["one"].to_pylist() == ["a", "b"]
    places = enumerate(("one", "many", "by_name"), 1)
    assert [tuple(one) for one in found.undecoded] == [
        (row, f"a text that is no UTF-8 - at `$.{name}`") for row, name in places
    ]


def test_a_class_and_its_descriptors_are_the_same_format():
    by_name = Protobuf("shop.Visit", descriptors=DESCRIPTORS)
    assert by_name.schema("value") == Protobuf(Visit).schema("value")


ID = b"\0\0\0\0\7"
SECOND = "shop.Second"
INNER = "shop.Visit.Lead.Inner"


@pytest.mark.parametrize(
    ("name", "place", "fits"),
    [
        ("shop.Visit", b"\0", True),
        ("shop.Visit", b"\2\0", True),
        ("shop.Visit", b"\2\2", False),
        ("shop.Visit", b"", False),
        (SECOND, b"\2\2", True),
        (SECOND, b"\0", False),
        (INNER, b"\6\0\0\0", True),
        (INNER, b"\6\0\0\2", False),
    ],
)
@pytest.mark.parametrize("id_", [ID, b"\1" + UUID(int=5).bytes])
def test_a_record_says_which_message_of_its_schema_it_is(name, place, fits, id_):
    kind, bare = Protobuf(name, descriptors=DESCRIPTORS), b""
    in_front = decoded(kind, [id_ + place + bare])
    column = pa.chunked_array([pa.array([bare], pa.binary())])
    in_header = kind.decode(as_given(column, [[("__value_schema_id", id_ + place)]]))
    for found in (in_front, in_header):
        assert found.columns.num_rows == fits
        assert all("another message of its schema" in reason for _, reason in found.undecoded)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Protobuf("shop.Visit"), "where is shop.Visit?"),
        (lambda: Protobuf("shop.Nope", descriptors=DESCRIPTORS), "there is no message shop.Nope"),
        (lambda: Protobuf("shop.Visit", descriptors="gone.bin"), "cannot be read"),
        (lambda: Protobuf("shop.Visit", descriptors=__file__), "cannot be read"),
        (lambda: Protobuf(5), "Protobuf takes a generated class"),
        (lambda: Protobuf(message("shop.Tree")), "shop.Tree holds itself, and no column can"),
        (lambda: Protobuf(message("shop.Holds")), "google.protobuf.Struct holds itself"),
        (lambda: Protobuf(message("shop.Empty")), "shop.Empty has no field, and so no column"),
        (lambda: Protobuf(Visit, fields=["nope"]), "fields: shop.Visit has no field nope"),
        (lambda: Protobuf(Visit, fields=[]), "fields: there is none"),
        (lambda: Protobuf(Visit, framing="x"), "framing is 'confluent' or 'none'"),
        (lambda: Protobuf(Visit, tombstones="null"), "needs columns that may be null: id"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_written(make, told):
    with pytest.raises(ConfigError, match=r".") as caught:
        make()
    assert told in str(caught.value)


def test_without_the_library_it_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    monkeypatch.delitem(sys.modules, "headrace.formats.protobuf_records", raising=False)
    with pytest.raises(ConfigError, match=r"headrace\[protobuf\]"):
        _ = all_formats.Protobuf
