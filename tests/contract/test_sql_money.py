"""Amounts and days come out of a table as they went in, on SQLite and on PostgreSQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import SqlTable
from headrace.store import open_store

COLUMNS = {"id": "bigint", "amount": "decimal(20, 4)", "day": "date"}
UNITS = st.integers(-(10**20) + 1, 10**20 - 1)
SEVERAL = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def rows(store_url):
    """Write tables with a sink; read its table back, every value as text."""
    store = open_store(store_url)
    engine = create_engine(store_url)

    class Rows:
        dialect = engine.dialect.name

        def prepare(self, sink):
            sink.prepare(self.site)
            return sink.open(self.site)

        def execute(self, sql):
            with engine.begin() as connection:
                connection.execute(text(sql))

        def read(self, sql):
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(text(sql))]

    made = Rows()
    made.site = Site(Connections({}, store_url), store.positions)
    yield made
    engine.dispose()
    store.close()


def effect(table, tenant="acme"):
    piece = Slice(LaneId("pay", tenant, f"{tenant}.payments[0]"), f"{tenant}.payments", 0, 9, 1)
    return Effect((piece,), (9,), table)


@pytest.fixture
def money(rows):
    writer = rows.prepare(SqlTable("money", COLUMNS, key=("id",)))
    yield writer
    writer.close()


@SEVERAL
@given(pairs=st.lists(st.tuples(st.none() | UNITS, st.none() | st.dates()), min_size=1, max_size=9))
@pytest.mark.parametrize("as_text", [False, True])
def test_every_amount_and_day_comes_back_as_it_went_in(rows, money, pairs, as_text):
    amounts = [None if unit is None else Decimal(f"{unit}e-4") for unit, _ in pairs]
    days = [day for _, day in pairs]
    table = pa.table(
        {
            "id": pa.array(range(len(pairs)), pa.int64()),
            "amount": pa.array(
                [None if amount is None else f"{amount:f}" for amount in amounts], pa.string()
            )
            if as_text
            else pa.array(amounts, pa.decimal128(20, 4)),
            "day": pa.array([day and day.isoformat() for day in days], pa.string())
            if as_text
            else pa.array(days, pa.date32()),
        }
    )
    (written,) = money.write([effect(table)])
    assert written.error is None
    found = rows.read(
        "SELECT CAST(amount AS TEXT), CAST(day AS TEXT) FROM money "
        f"WHERE id < {len(pairs)} ORDER BY id"
    )
    assert [amount and Decimal(amount) for amount, _ in found] == amounts
    assert [day and dt.date.fromisoformat(day) for _, day in found] == days
    for amount, _ in found:
        assert amount is None or len(amount.partition(".")[2]) == 4


def test_one_amount_that_does_not_fit_costs_its_own_tenant_only(rows, money):
    def paid(number, amount):
        return pa.table(
            {
                "id": pa.array([number], pa.int64()),
                "amount": [amount],
                "day": pa.array([None], pa.date32()),
            }
        )

    outcomes = money.write(
        [
            effect(paid(1, "1.5"), "acme"),
            effect(paid(2, "1.00001"), "bolt"),
            effect(paid(3, "2.5"), "corp"),
        ]
    )
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert outcomes[1].error.code == "SinkRefused"
    assert "column 'amount', row 0: it has 5 digits after the point" in outcomes[1].error.message
    assert [number for (number,) in rows.read("SELECT id FROM money ORDER BY id")] == [1, 3]


def test_a_sum_of_amounts_is_exact_or_refused_at_deploy(rows):
    sink = SqlTable(
        "sums",
        {"id": "bigint", "total": "decimal(12, 2)"},
        key=("id",),
        update={"total": "sums.total + excluded.total"},
    )
    if rows.dialect == "sqlite":
        with pytest.raises(ConfigError, match="in floats, which are not exact: use PostgreSQL"):
            rows.prepare(sink)
        return
    writer = rows.prepare(sink)
    for _ in range(30):
        table = pa.table({"id": pa.array([1], pa.int64()), "total": [Decimal("0.10")]})
        (written,) = writer.write([effect(table)])
        assert written.error is None
    assert rows.read("SELECT CAST(total AS TEXT) FROM sums") == [("3.00",)]


def test_the_last_amount_may_win_everywhere(rows):
    update = {"total": "excluded.total"}
    columns = {"id": "bigint", "total": "decimal(12, 2)"}
    writer = rows.prepare(SqlTable("lasts", columns, key=("id",), update=update))
    for amount in ("1.10", "2.20"):
        table = pa.table({"id": pa.array([1], pa.int64()), "total": [amount]})
        (written,) = writer.write([effect(table)])
        assert written.error is None
    assert rows.read("SELECT CAST(total AS TEXT) FROM lasts") == [("2.20",)]


@pytest.mark.parametrize("there", ["NUMERIC(12, 1)", "NUMERIC(5, 2)", "DOUBLE PRECISION", "BIGINT"])
def test_a_table_whose_column_would_round_is_refused_at_deploy(rows, there):
    rows.execute(f"CREATE TABLE narrow (id BIGINT, total {there})")
    with pytest.raises(ConfigError, match=r"does not keep every decimal\(12, 2\): widen it"):
        rows.prepare(SqlTable("narrow", {"id": "bigint", "total": "decimal(12, 2)"}))


@pytest.mark.parametrize("there", ["NUMERIC", "NUMERIC(14, 3)", "TEXT"])
def test_a_table_whose_column_keeps_every_amount_is_taken(rows, there):
    rows.execute(f"CREATE TABLE wide (id BIGINT, total {there})")
    sink = SqlTable("wide", {"id": "bigint", "total": "decimal(12, 2)"})
    if rows.dialect == "sqlite" and there != "TEXT":
        # Its numbers with a point are floats, whatever a column is declared as.
        with pytest.raises(ConfigError, match="does not keep every"):
            rows.prepare(sink)
        return
    (written,) = rows.prepare(sink).write(
        [effect(pa.table({"id": pa.array([1], pa.int64()), "total": ["1234567890.12"]}))]
    )
    assert written.error is None
    ((total,),) = rows.read("SELECT CAST(total AS TEXT) FROM wide")
    assert Decimal(total) == Decimal("1234567890.12")


_CHANGED = {
    "sqlite": [
        ("text", "BIGINT"),
        ("text", "DOUBLE"),
        ("text", "DATE"),
        ("bigint", "REAL"),
    ],
    "postgresql": [
        ("text", "CHAR(3)"),
        ("bigint", "DOUBLE PRECISION"),
        ("double", "BIGINT"),
        ("double", "NUMERIC"),
        ("double", "REAL"),
        ("timestamp", "DATE"),
        ("timestamp", "TIMESTAMP"),
        ("timestamp", "TIMESTAMPTZ(0)"),
    ],
}
_KEPT = {
    "sqlite": [("text", "VARCHAR(9)"), ("double", "REAL"), ("timestamp", "TIMESTAMP")],
    "postgresql": [
        ("text", "VARCHAR(9)"),
        ("bigint", "NUMERIC"),
        ("bigint", "INTEGER"),
        ("double", "DOUBLE PRECISION"),
        ("timestamp", "TIMESTAMPTZ"),
    ],
}


def test_a_column_that_is_there_and_would_change_a_value_in_silence_is_refused(rows):
    for number, (kind, there) in enumerate(_CHANGED[rows.dialect]):
        rows.execute(f"CREATE TABLE changed_{number} (x {there})")
        with pytest.raises(ConfigError, match=f"does not keep every {kind}: widen it"):
            rows.prepare(SqlTable(f"changed_{number}", {"x": kind}))
    for number, (kind, there) in enumerate(_KEPT[rows.dialect]):
        rows.execute(f"CREATE TABLE kept_{number} (x {there})")
        rows.prepare(SqlTable(f"kept_{number}", {"x": kind}))
