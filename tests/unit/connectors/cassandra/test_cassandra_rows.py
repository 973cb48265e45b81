"""What a cluster is told of rows: timestamps, nulls, buckets, keys that come twice."""

import datetime as dt

import pyarrow as pa
import pytest

from headrace.connectors.cassandra import rows as module
from headrace.connectors.cassandra.library import library
from headrace.errors import ConfigError, SinkRefused, TargetMissing, WrongSchema
from headrace.sinks import CassandraTable

CUSTOMERS = {"id": "text", "city": "text", "gone": "boolean", "changed": "version"}
VISITS = {"tenant": "text", "at": "timestamp", "number": "bigint", "page": "text"}
SUNDAY = dt.datetime(2026, 2, 1, 23, 59, 59, tzinfo=dt.UTC)


def customers(**more):
    said = {"key": ("id",), "newest_by": "changed", "key_in_one_lane": True, "delete_by": "gone"}
    return CassandraTable("customers", CUSTOMERS, at="history", **{**said, **more})


def visits(columns=VISITS, **more):
    said = {"key": ("tenant", "at", "number"), "newest_by": "at", "by_time": "at"}
    return CassandraTable("visits", columns, at="history", **{**said, **more})


def of_customers(*rows):
    ids, cities, gone = zip(*rows, strict=True)
    return pa.table({"id": ids, "city": pa.array(cities, pa.string()), "gone": gone})


def of_visits(*moments, pages=None):
    return pa.table(
        {
            "tenant": ["acme"] * len(moments),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "number": list(range(len(moments))),
            "page": pa.array(pages or ["/"] * len(moments), pa.string()),
        }
    )


def made(sink, table, version=7):
    return sink._rows("shop").changes(table, version)


def test_a_row_has_the_version_of_its_record_or_else_of_the_effect_as_its_timestamp():
    own = of_customers(("a", "Rome", False)).append_column("changed", pa.array([5], pa.int64()))
    assert [change.values for change in made(customers(), own)] == [("a", "Rome", 5, 5)]
    [change] = made(customers(), of_customers(("a", "Rome", False)))
    assert change.values == ("a", "Rome", 7, 7)
    with pytest.raises(TargetMissing, match="no version for column 'changed'"):
        made(customers(), of_customers(("a", "Rome", False)), None)


@pytest.mark.parametrize(
    ("kind", "value", "stamp"),
    [
        ("bigint", 12, 12),
        ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 1_000_000),
        ("date", dt.date(1970, 1, 3), 2 * 86_400_000_000),
        ("date", "1970-01-02", 86_400_000_000),
    ],
)
def test_a_column_of_the_data_is_a_timestamp_on_the_scale_of_real_time(kind, value, stamp):
    sink = CassandraTable(
        "t", {"id": "text", "newness": kind}, key=("id",), newest_by="newness", at="history"
    )
    [change] = made(sink, pa.table({"id": ["a"], "newness": [value]}))
    assert change.values[-1] == stamp


def test_of_a_key_that_comes_twice_the_newest_is_told_and_of_equal_ones_the_last():
    table = of_customers(("a", "Rome", False), ("b", "Oslo", False), ("a", "Bonn", True))
    table = table.append_column("changed", pa.array([5, 5, 5], pa.int64()))
    of_a, of_b = made(customers(), table)
    assert [(change.row, change.gone) for change in of_a.all_of_its_key] == [(2, True), (0, False)]
    assert [change.row for change in of_b.all_of_its_key] == [1]
    older = table.set_column(3, "changed", pa.array([9, 5, 8], pa.int64()))
    assert [change.row for change in made(customers(), older)[0].all_of_its_key] == [0, 2]


def test_of_doubles_in_a_key_the_two_zeros_are_two_and_no_number_is_one():
    columns = {"id": "text", "at": "double", "newness": "bigint"}
    sink = CassandraTable("t", columns, key=("id", "at"), newest_by="newness", at="history")
    moments = [-0.0, 0.0, float("nan"), float("nan"), 1.0, 1.0]
    table = pa.table({"id": ["a"] * 6, "at": moments, "newness": [2, 1, 2, 1, 2, 1]})
    found = [[one.row for one in change.all_of_its_key] for change in made(sink, table)]
    assert found == [[0], [1], [2, 3], [4, 5]]


def test_a_delete_says_its_version_and_the_whole_key():
    [change] = made(customers(), of_customers(("a", None, True)))
    assert change.values == (7, "a")
    says = customers()._described("shop")
    assert says.delete == 'DELETE FROM "shop"."customers" USING TIMESTAMP ? WHERE "id" = ?'
    assert "gone" not in says.create


def test_a_null_is_written_where_it_has_to_hide_an_older_value_and_else_left_out():
    [change] = made(customers(), of_customers(("a", None, False)))
    assert change.values[1] is None
    [change] = made(visits(), of_visits(SUNDAY, pages=[None]))
    assert change.values[4] is library().query.UNSET_VALUE


@pytest.mark.parametrize(
    ("bucket", "days"),
    [("day", ["2026-02-01", "2026-02-02"]), ("week", ["2026-01-26", "2026-02-02"])],
)
def test_the_bucket_is_the_day_or_the_monday_in_utc(bucket, days):
    moments = [SUNDAY, SUNDAY + dt.timedelta(seconds=1)]
    found = [change.values[0] for change in made(visits(bucket=bucket), of_visits(*moments))]
    zero = dt.date(1970, 1, 1)
    assert [str(zero + dt.timedelta(days=day - 2**31)) for day in found] == days


def test_a_moment_before_1970_is_in_its_own_day():
    moment = dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC)
    [change] = made(visits(), of_visits(moment))
    assert change.values[0] == 2**31 - 1


def test_rows_stay_for_sixty_days_unless_it_is_said_otherwise():
    assert visits()._described("shop").put.endswith("USING TIMESTAMP ? AND TTL 5184000")
    assert visits(ttl=None)._described("shop").put.endswith("USING TIMESTAMP ?")
    assert visits(ttl=dt.timedelta(hours=1))._described("shop").put.endswith("AND TTL 3600")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (of_visits(SUNDAY).set_column(0, "tenant", pa.nulls(1, pa.string())), "'tenant', row 0"),
        (of_visits(SUNDAY.replace(microsecond=1)), "finer than a millisecond"),
        (of_visits(SUNDAY).set_column(0, "tenant", [["x" * 70_000]]), "longer than 65535 bytes"),
    ],
)
def test_what_no_cluster_takes_is_refused_before_it_is_asked(table, said):
    with pytest.raises(SinkRefused, match=said):
        visits().check(table)


def test_an_empty_text_is_no_partition_of_its_own():
    with pytest.raises(SinkRefused, match="empty"):
        customers().check(of_customers(("", "Rome", False)))
    visits().check(of_visits(SUNDAY).set_column(0, "tenant", [[""]]))


def test_a_row_that_is_too_large_is_named(monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 2_000)
    small, large = "x" * 900, "x" * 1_990
    visits().check(of_visits(SUNDAY, SUNDAY, SUNDAY, pages=[small] * 3))
    with pytest.raises(SinkRefused, match="row 1 is larger"):
        visits().check(of_visits(SUNDAY, SUNDAY, pages=[small, large]))


def test_a_wrong_column_is_told_by_its_name():
    with pytest.raises(WrongSchema, match="'page'"):
        visits().check(of_visits(SUNDAY).drop_columns(["page"]))


@pytest.mark.parametrize(
    ("sink", "more", "said"),
    [
        (customers, {"key": ()}, "needs a key"),
        (customers, {"key": ("id", "changed")}, "'changed'"),
        (customers, {"key": ("id", "gone")}, "'gone'"),
        (customers, {"key_in_one_lane": False}, "key_in_one_lane=True"),
        (customers, {"newest_by": "city"}, "newest_by names 'city'"),
        (customers, {"delete_by": "city"}, "delete_by names 'city'"),
        (customers, {"partition_by": ("city",)}, "first columns of key"),
        (customers, {"ttl": dt.timedelta(days=8000)}, "20 years"),
        (customers, {"by_time": "changed"}, "by_time names 'changed'"),
        (visits, {"by_time": "number"}, "needs a timestamp"),
        (visits, {"partition_by": ("tenant", "at")}, "by_time names 'at'"),
        (visits, {"bucket": "month"}, "'day' or 'week'"),
        (visits, {"columns": {**VISITS, "bucket": "text"}}, "no other column is called 'bucket'"),
        (visits, {"columns": {**VISITS, "page": "jpeg"}}, "kind 'jpeg'"),
        (visits, {"columns": {**VISITS, 'a"b': "text"}}, "no name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_written_down(sink, more, said):
    with pytest.raises(ConfigError, match=said):
        sink(**more)
