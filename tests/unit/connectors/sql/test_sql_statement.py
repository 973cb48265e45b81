"""One statement, and rows as the drivers take them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateTable

from headrace.connectors.sql.kinds import table_of
from headrace.connectors.sql.statement import (
    _compiled,
    kept_upsert_sql,
    rows_of,
    upsert_sql,
)
from headrace.errors import ConfigError

_COLUMNS = {"lead": "text", "score": "bigint"}
_TABLE = table_of("scores", _COLUMNS, ("lead",))
_NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 1000, tzinfo=dt.UTC)


def test_without_a_key_every_row_is_new():
    sql = upsert_sql(_TABLE, (), None, "sqlite")
    assert sql == "INSERT INTO scores (lead, score) VALUES (?, ?)"


def test_without_an_update_the_last_write_wins():
    sql = upsert_sql(_TABLE, ("lead",), None, "sqlite")
    assert sql.endswith("ON CONFLICT (lead) DO UPDATE SET score = excluded.score")


def test_a_table_of_keys_only_keeps_the_first_row():
    table = table_of("seen", {"lead": "text"}, ("lead",))
    sql = upsert_sql(table, ("lead",), None, "sqlite")
    assert sql.endswith("ON CONFLICT (lead) DO NOTHING")


def test_an_expression_goes_in_as_it_is():
    update = {"score": "scores.score % 10 + excluded.score"}
    sql = upsert_sql(_TABLE, ("lead",), update, "sqlite")
    assert sql.endswith("SET score = scores.score % 10 + excluded.score")


def test_postgresql_is_given_types_and_doubled_percent_signs():
    update = {"score": "scores.score % 10"}
    sql = upsert_sql(_TABLE, ("lead",), update, "postgresql")
    assert "VALUES (%s::VARCHAR, %s::BIGINT)" in sql
    assert sql.endswith("scores.score %% 10")


def test_another_database_is_refused_by_name():
    with pytest.raises(ConfigError, match="oracle"):
        upsert_sql(_TABLE, (), None, "oracle")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("update", [None, {"score": "scores.score + 1"}])
def test_a_statement_that_is_kept_is_the_one_that_would_be_compiled(dialect, update):
    kept = kept_upsert_sql("scores", _COLUMNS, ("lead",), update, dialect)
    assert kept == upsert_sql(_TABLE, ("lead",), update, dialect)


def test_a_statement_is_compiled_once_for_whoever_describes_it_alike():
    _compiled.cache_clear()
    for _ in range(10):
        kept_upsert_sql("scores", dict(_COLUMNS), ("lead",), {"score": "1"}, "sqlite")
    assert _compiled.cache_info().misses == 1
    turned = dict(reversed(_COLUMNS.items()))
    assert kept_upsert_sql("scores", turned, (), None, "sqlite").startswith(
        "INSERT INTO scores (score, lead)"
    )


def test_rows_keep_the_order_of_tables_and_rows_whatever_their_schemas():
    tables = [
        pa.table({"score": [3, 1], "lead": ["c", "a"]}),
        pa.table({"lead": pa.array(["b"], pa.large_string()), "score": pa.array([2], pa.int8())}),
        pa.table({"score": [9], "lead": ["z"]}),
    ]
    assert rows_of(tables, _COLUMNS, "sqlite") == [("c", 3), ("a", 1), ("b", 2), ("z", 9)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", pa.array(["a", None])),
        ("bytes", pa.array([b"a", None])),
        ("bigint", pa.array([2**53 + 1, None])),
        ("double", pa.array([0.5, None])),
        ("boolean", pa.array([True, None])),
        ("bigint", pa.nulls(2)),
        ("timestamp", pa.nulls(2)),
    ],
)
def test_a_null_stays_a_null_and_its_neighbour_exact(kind, values):
    rows = rows_of([pa.table({"a": values})], {"a": kind}, "postgresql")
    assert [row[0] for row in rows] == values.to_pylist()


def test_values_are_plain_python():
    table = pa.table({"a": [True], "b": [1], "c": [0.5]})
    (row,) = rows_of([table], {"a": "boolean", "b": "bigint", "c": "double"}, "sqlite")
    assert [type(value) for value in row] == [bool, int, float]


def test_a_timestamp_is_a_moment_in_postgresql_and_its_utc_text_in_sqlite():
    table = pa.table({"at": pa.array([_NOON], pa.timestamp("ms", "Europe/Oslo"))})
    assert rows_of([table], {"at": "timestamp"}, "postgresql") == [(_NOON,)]
    assert rows_of([table], {"at": "timestamp"}, "sqlite") == [("2026-01-02 12:00:00.001000",)]


def test_nanoseconds_are_cut_since_no_database_keeps_them():
    table = pa.table({"at": pa.array([1_999], pa.timestamp("ns", "UTC"))})
    assert rows_of([table], {"at": "timestamp"}, "sqlite") == [("1970-01-01 00:00:00.000001",)]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("far_ms", [-62135596800001, 253402300800000, 1763900000000000])
def test_a_moment_that_has_no_date_is_an_error_and_not_a_text_about_it(far_ms, dialect):
    stamps = pa.array([None, 0, far_ms], pa.timestamp("ms", "UTC"))
    with pytest.raises(ValueError, match="not in the years 1 to 9999"):
        rows_of([pa.table({"at": stamps})], {"at": "timestamp"}, dialect)


def test_the_first_and_the_last_moment_that_have_a_date_are_kept():
    stamps = pa.array([-62135596800000, 253402300799999, None], pa.timestamp("ms", "UTC"))
    assert rows_of([pa.table({"at": stamps})], {"at": "timestamp"}, "sqlite") == [
        ("0001-01-01 00:00:00.000000",),
        ("9999-12-31 23:59:59.999000",),
        (None,),
    ]


def test_a_moment_that_does_not_fit_is_an_error_and_not_another_moment():
    table = pa.table({"at": pa.array([2**62], pa.timestamp("s", "UTC"))})
    with pytest.raises(ValueError, match="out of bounds"):
        rows_of([table], {"at": "timestamp"}, "sqlite")


def test_amounts_are_numbers_in_postgresql_and_text_of_all_digits_in_sqlite():
    table = pa.table({"a": [Decimal("1E-9"), None, Decimal(12)]})
    columns = {"a": "decimal(20, 9)"}
    (first, _, last) = rows_of([table], columns, "postgresql")
    assert (first, last) == ((Decimal("1E-9"),), (Decimal(12),))
    assert rows_of([table], columns, "sqlite") == [
        ("0.000000001",),
        (None,),
        ("12.000000000",),
    ]


def test_amounts_have_their_digits_in_the_table_and_are_text_in_sqlite():
    table = table_of("sums", {"a": "decimal(20, 9)"}, ())
    assert "a NUMERIC(20, 9)" in str(CreateTable(table).compile(dialect=postgresql.dialect()))
    assert "a TEXT" in str(CreateTable(table).compile(dialect=sqlite.dialect()))


def test_days_are_dates_in_postgresql_and_their_text_in_sqlite():
    table = pa.table({"a": ["2026-01-02", None]})
    assert rows_of([table], {"a": "date"}, "postgresql") == [(dt.date(2026, 1, 2),), (None,)]
    assert rows_of([table], {"a": "date"}, "sqlite") == [("2026-01-02",), (None,)]
    assert rows_of([pa.table({"a": pa.nulls(1)})], {"a": "date"}, "sqlite") == [(None,)]
