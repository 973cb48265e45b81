"""Confluent's wire format: ids in front or in headers, for every format that takes it."""

from uuid import UUID

import pyarrow as pa
import pytest

from headrace.errors import ConfigError
from headrace.formats import Bytes, Json
from headrace.formats.framing import counted_ids, framed, prefix_of
from headrace.testing.format_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.format_contract import as_given, decoded

GUID = UUID("12345678-1234-5678-9abc-123456789abc")
BY_NUMBER, BY_GUID = b"\0\0\0\1\2", b"\1" + GUID.bytes
COLUMNS = pa.schema([("id", pa.int64())])
UNFRAMED = "it does not begin with the id of a schema, as Confluent's wire format does"


@pytest.fixture
def formats():
    return [Json(COLUMNS, framing="confluent")]


@pytest.fixture
def payloads():
    return [BY_NUMBER + b'{"id": 1}', None, b'{"id": 2}', BY_GUID + b'{"id": 3}', BY_NUMBER, b""]


def column(payloads):
    return pa.chunked_array([pa.array(payloads, pa.binary())])


def test_records_are_told_apart_by_the_ids_of_their_schemas():
    payloads = [
        b"\0\xff\xff\xff\xffa",
        BY_GUID + b"b",
        BY_NUMBER + b"c",
        None,
        b"\2",
        BY_NUMBER,
        b"",
    ]
    found = framed(as_given(column(payloads)), "confluent")
    assert {id_: rows.tolist() for id_, rows in found.rows.items()} == {
        2**32 - 1: [0],
        GUID: [1],
        258: [2, 5],
    }
    assert list(found.rows) == [2**32 - 1, GUID, 258], "in the order in which they are met"
    assert [found.values(rows) for rows in found.rows.values()] == [[b"a"], [b"b"], [b"c", b""]]
    assert (found.gone, found.refused) == ([3], {4: UNFRAMED, 6: UNFRAMED})


def test_an_id_in_a_header_counts_and_the_payload_is_bare():
    payloads = [BY_NUMBER, b"bare", b"bare", b"", None, BY_NUMBER + b"x"]
    headers = [
        [("__value_schema_id", BY_GUID)],
        [("other", b""), ("__value_schema_id", b"no"), ("__value_schema_id", BY_NUMBER)],
        [("__value_schema_id", BY_NUMBER + b"more")],
        [("__value_schema_id", None)],
        [("__value_schema_id", BY_NUMBER)],
        [("__key_schema_id", BY_GUID)],
    ]
    found = framed(as_given(column(payloads), headers), "confluent")
    assert {id_: rows.tolist() for id_, rows in found.rows.items()} == {GUID: [0], 258: [1, 5]}
    assert found.values(found.rows[GUID]) == [BY_NUMBER]
    assert found.values(found.rows[258]) == [b"bare", b"x"]
    assert found.refused == dict.fromkeys((2, 3), "its header is no id of a schema")


def test_parts_of_larger_arrays_are_framed_where_they_lie():
    whole = pa.array([BY_NUMBER + str(row).encode() for row in range(10)], pa.binary())
    chunks = pa.chunked_array([whole.slice(2, 3), whole.slice(7, 2)])
    found = framed(as_given(chunks), "confluent")
    assert found.values(found.rows[258]) == [b"2", b"3", b"4", b"7", b"8"]


def test_json_may_stand_behind_the_id_of_a_schema():
    kind = Json(COLUMNS, framing="confluent")
    found = decoded(kind, [BY_NUMBER + b'{"id": 1}', b'{"id": 2}', BY_GUID + b"{", None])
    assert found.columns["id"].to_pylist() == [1]
    assert [row for row, _ in found.undecoded] == [1, 2, 3]
    assert found.undecoded[0].reason == UNFRAMED
    gone = Json(COLUMNS, framing="confluent", tombstones="null")
    assert decoded(gone, [None, BY_NUMBER + b"{}"]).columns["id"].to_pylist() == [None, None]
    with pytest.raises(ConfigError, match="framing is"):
        Json(COLUMNS, framing="kafka")


def test_bytes_are_as_they_are():
    kind = Bytes()
    assert kind.schema("key") == pa.schema([("key", pa.binary())])
    found = decoded(kind, [b"\xff", None, b""])
    assert found.columns.column(0).to_pylist() == [b"\xff", None, b""]
    assert found.undecoded == ()


def test_what_stands_before_a_payload_is_what_a_reader_takes_off():
    for id_ in (7, 2**32 - 1, UUID(int=5)):
        payloads = as_given(pa.chunked_array([pa.array([prefix_of(id_) + b"x"], pa.binary())]))
        found = framed(payloads, "confluent")
        assert list(found.rows) == [id_]
        assert found.values(found.rows[id_]) == [b"x"]


@pytest.mark.parametrize(
    "payloads",
    [
        [b"\0\0\0\0\7a", b"\0\0\0\0\7", None, b"\0\0\0\0\x08b"],
        [BY_NUMBER + b"a", BY_GUID + b"b", BY_GUID, b"\1\2", b"\0\0", b"", b"{}", None],
        [],
    ],
)
def test_ids_are_counted_as_they_are_read(payloads):
    given = as_given(column(payloads))
    rows = framed(given, "confluent", tails=True).rows
    assert counted_ids(given) == {id_: len(its) for id_, its in rows.items()}


def test_an_id_in_a_header_is_counted_in_the_place_of_what_its_payload_begins_with():
    header = [("__value_schema_id", b"\0\0\0\0\5")]
    given = as_given(column([BY_NUMBER + b"a", BY_NUMBER]), headers=[header, []])
    assert counted_ids(given) == {5: 1, 258: 1}
