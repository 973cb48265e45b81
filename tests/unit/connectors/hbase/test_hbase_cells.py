"""What a table is told of rows: keys, timestamps, cells, and what it does not take."""

import datetime as dt

import pyarrow as pa
import pytest

from headrace.connectors.hbase import cells as module
from headrace.errors import SinkRefused, TargetMissing, WrongSchema
from headrace.sinks import HBaseTable

COLUMNS = {"id": "text", "city": "text", "raw": "bytes", "gone": "boolean", "changed": "version"}
LAST = 2**63 - 2


def customers(**more):
    said = {"key": ("id",), "newest_by": "changed", "key_in_one_lane": True, "delete_by": "gone"}
    return HBaseTable("customers", COLUMNS, at="entities", **{**said, **more})


def table(*rows, versions=None):
    ids, cities, gone = zip(*rows, strict=True)
    made = {
        "id": ids,
        "city": pa.array(cities, pa.string()),
        "raw": pa.array([b"\x00\xff"] * len(rows), pa.binary()),
        "gone": gone,
    }
    return pa.table(made if versions is None else {**made, "changed": versions})


def changes(sink, of, version=7, tenant="acme"):
    return sink._cells.changes(of, version, tenant)


def test_a_row_has_the_tenants_key_and_its_cells_as_text_in_the_order_of_columns():
    sink = customers()
    [change] = changes(sink, table(("a", "Köln", False)))
    assert change.values == (b"acme:a", b"a", "Köln".encode(), b"\x00\xff", b"7")
    assert sink._cells.names == ["id", "city", "raw", "changed"]
    assert (change.gone, change.newness) == (False, 7)


def test_a_null_is_told_as_none_and_a_row_that_is_gone_as_that():
    [change, other] = changes(customers(), table(("a", None, False), ("b", None, True)))
    assert change.values[2] is None
    assert (other.values[0], other.gone) == (b"acme:b", True)


def test_columns_of_a_key_are_told_apart_and_behind_a_prefix_of_ones_own():
    columns = {"day": "date", "id": "text", "size": "bigint"}
    sink = HBaseTable(
        "t", columns, key=("day", "id", "size"), newest_by="size", at="e", prefix="v1-{tenant}/"
    )
    day = dt.date(2026, 1, 31)
    rows = pa.table({"day": [day] * 2, "id": ["x:y", "x%3Ay"], "size": [1, 1]})
    assert [change.values[0] for change in changes(sink, rows)] == [
        b"v1-acme/2026-01-31:x%3Ay:1",
        b"v1-acme/2026-01-31:x%253Ay:1",
    ]


def test_each_row_has_its_own_version_or_else_that_of_the_effect_and_none_is_an_error():
    both = table(("a", "x", False), ("b", "x", False), versions=[5, LAST])
    assert [change.newness for change in changes(customers(), both)] == [5, LAST]
    with pytest.raises(TargetMissing, match="no version for column 'changed'"):
        changes(customers(), table(("a", "x", False)), None)


@pytest.mark.parametrize(
    ("kind", "value", "timestamp"),
    [
        ("bigint", 12, 12),
        ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 1_000_000),
        ("date", dt.date(1970, 1, 3), 2 * 86_400_000_000),
    ],
)
def test_a_column_of_the_data_is_a_timestamp_in_microseconds(kind, value, timestamp):
    sink = HBaseTable("t", {"id": "text", "at": kind}, key=("id",), newest_by="at", at="e")
    [change] = changes(sink, pa.table({"id": ["a"], "at": [value]}))
    assert change.newness == timestamp


def test_of_a_key_that_comes_twice_the_newest_is_told_and_of_equal_ones_the_later():
    rows = table(("a", "x", False), ("b", "x", False), ("a", "y", True), versions=[9, 5, 8])
    of_a, of_b = changes(customers(), rows)
    assert [change.row for change in of_a.all_of_its_key] == [0, 2]
    assert [change.row for change in of_b.all_of_its_key] == [1]
    of_a, _ = changes(customers(), rows.set_column(4, "changed", pa.array([5, 5, 5])))
    assert [change.row for change in of_a.all_of_its_key] == [2, 0]


@pytest.mark.parametrize(
    ("lead", "version", "said"),
    [
        ("a", -1, "column 'changed', row 1: it is no timestamp"),
        ("a", LAST + 1, "column 'changed', row 1: it is no timestamp"),
        ("k" * 2**15, 1, "row 1: its key has 32768 bytes"),
        ("ü" * 2**14, 1, "row 1: its key has 32768 bytes"),
        ("", 1, "row 1: its key has 0 bytes"),
    ],
)
def test_what_no_row_can_have_is_refused_by_name(lead, version, said):
    sink = customers(prefix="")
    rows = table(("k" * (2**15 - 1), "x", False), (lead, "x", False), versions=[0, version])
    with pytest.raises(SinkRefused, match=said):
        sink.check(rows)
    sink.check(rows.slice(0, 1))


def test_a_row_that_is_too_large_is_named(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 2_000)
    customers().check(table(*((key, "x" * 900, False) for key in "abc")))
    with pytest.raises(SinkRefused, match="row 1 is larger than"):
        customers().check(table(("a", "x", False), ("b", "x" * 1_990, False)))


def test_a_wrong_column_is_told_by_its_name():
    with pytest.raises(WrongSchema, match="'city'"):
        customers().check(table(("a", "x", False)).drop_columns(["city"]))
