"""Rows and positions move together or not at all."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, event, text

from headrace.errors import ConfigError, SinkUnavailable, StoreUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import SqlTable

_COLUMNS = {"lead": "text", "score": "bigint"}
_EMA = {"score": "scores.score - scores.score / 10 + excluded.score"}


class LanesInSqlite:
    """Positions of tenants, each with lanes at offset 0 and epoch 1, and nothing else."""

    def __init__(self, path):
        self.engine = create_engine(f"sqlite:///{path}")
        self.transactions = 0
        self.down = False

        @event.listens_for(self.engine, "connect")
        def settle(connection, _record):
            connection.isolation_level = None

        @event.listens_for(self.engine, "begin")
        def begin(connection):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE lanes (lane TEXT PRIMARY KEY, at INTEGER)"))

    @contextmanager
    def begin(self):
        if self.down:
            raise StoreUnavailable("locked", retry_after_s=2.0)
        self.transactions += 1
        with self.engine.begin() as connection:
            yield connection

    def advance_in(self, connection, moves):
        return [self._move(connection, move) for move in moves]

    def _move(self, connection, move):
        lane = str(move.lane)
        connection.execute(text("INSERT OR IGNORE INTO lanes VALUES (:lane, 0)"), {"lane": lane})
        row = {"lane": lane, "start": move.from_offset, "end": move.to_offset}
        moved = connection.execute(
            text("UPDATE lanes SET at = :end WHERE lane = :lane AND at = :start"), row
        )
        return bool(moved.rowcount) and move.epoch == 1


@pytest.fixture
def positions(tmp_path):
    made = LanesInSqlite(tmp_path / "store.db")
    yield made
    made.engine.dispose()


@pytest.fixture
def scores(positions):
    return Scores(positions, SqlTable("scores", _COLUMNS, key=("lead",), update=_EMA))


class Scores:
    def __init__(self, positions, sink):
        self.positions = positions
        self.site = Site(Connections({}, ""), positions)
        sink.prepare(self.site)
        self.writer = sink.open(self.site)
        self.write = self.writer.write

    def rows(self):
        with self.positions.engine.connect() as connection:
            query = text("SELECT lead, score FROM scores ORDER BY rowid")
            return [tuple(row) for row in connection.execute(query)]


def _effect(rows, *, tenant="acme", lanes=((0, 0, 1),), move=True):
    slices = tuple(
        Slice(LaneId("score", tenant, f"t[{partition}]"), "t", start, end, epoch=1)
        for partition, start, end in lanes
    )
    schema = pa.schema([("lead", pa.string()), ("score", pa.int64())])
    table = pa.Table.from_pylist([{"lead": a, "score": b} for a, b in rows], schema=schema)
    return Effect(slices, tuple(end for *_, end in lanes), table, move_positions=move)


def test_an_update_sees_the_rows_before_it_in_their_order(scores):
    scores.write([_effect([("a", 100), ("a", 10), ("a", 1)])])
    assert scores.rows() == [("a", 91)]  # 100; 100 - 10 + 10 = 100; 100 - 10 + 1 = 91


def test_effects_update_one_row_in_their_order(scores):
    scores.write([_effect([("a", 100)]), _effect([("a", 1)], tenant="bolt")])
    assert scores.rows() == [("a", 91)]


def test_a_group_is_one_transaction(scores):
    before = scores.positions.transactions
    scores.write([_effect([(f"l{n}", n)], tenant=f"t{n}") for n in range(50)])
    assert scores.positions.transactions == before + 1


def test_a_bad_row_among_good_tenants_is_still_one_transaction(scores):
    before = scores.positions.transactions
    effects = [_effect([(f"l{n}", n)], tenant=f"t{n}") for n in range(9)]
    effects[4] = _effect([("good", 1), (None, 1)], tenant="t4")
    outcomes = scores.write(effects)
    assert [n for n, told in enumerate(outcomes) if told.error] == [4]
    assert [n for n, told in enumerate(outcomes) if told.committed] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert outcomes[4].error.code == "SinkRefused"
    assert [lead for lead, _ in scores.rows()] == [f"l{n}" for n in range(9) if n != 4]
    assert scores.positions.transactions == before + 1


def test_a_value_that_no_database_takes_stops_its_own_tenant_only(scores):
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    broken = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff"))
    table = pa.table({"lead": broken, "score": [1]})
    bad = Effect(_effect([], tenant="bolt").slices, (1,), table, move_positions=True)
    outcomes = scores.write([_effect([("a", 1)]), bad])
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [None, "SinkRefused"]
    assert scores.rows() == [("a", 1)]


def test_a_refused_effect_does_not_move_its_position(scores):
    scores.write([_effect([(None, 1)])])
    assert scores.write([_effect([("a", 1)])])[0].committed


def test_an_effect_done_before_is_superseded_and_the_others_are_written(scores):
    scores.write([_effect([("a", 1)])])
    outcomes = scores.write([_effect([("a", 1)]), _effect([("b", 2)], tenant="bolt")])
    assert [outcome.superseded for outcome in outcomes] == [True, False]
    assert [outcome.committed for outcome in outcomes] == [False, True]
    assert scores.rows() == [("a", 1), ("b", 2)]


def test_an_effect_of_several_lanes_is_undone_whole_when_one_lane_did_not_move(scores):
    scores.write([_effect([("a", 1)], lanes=((1, 0, 5),))])
    both = _effect([("b", 2)], lanes=((0, 0, 3), (1, 0, 4)))
    outcomes = scores.write([both, _effect([("c", 3)], tenant="bolt")])
    assert [outcome.superseded for outcome in outcomes] == [True, False]
    assert scores.rows() == [("a", 1), ("c", 3)]
    assert scores.write([_effect([("d", 4)], lanes=((0, 0, 3), (1, 5, 6)))])[0].committed


def test_without_moving_positions_rows_are_written_each_time(scores):
    outcome = scores.write([_effect([("a", 10)], move=False)])[0]
    assert (outcome.committed, outcome.superseded) == (False, False)
    scores.write([_effect([("a", 10)], move=False)])
    assert scores.rows() == [("a", 19)]


def test_a_store_that_is_down_is_temporary_for_all_with_its_wait(scores):
    scores.positions.down = True
    outcomes = scores.write([_effect([("a", 1)]), _effect([("b", 1)], tenant="bolt")])
    found = {
        (outcome.error.temporary, outcome.error.code, outcome.error.retry_after_s)
        for outcome in outcomes
    }
    assert found == {(True, "SinkUnavailable", 2.0)}


def test_a_wrong_table_is_told_even_when_the_store_is_down(scores):
    scores.positions.down = True
    wrong = Effect(_effect([]).slices, (1,), pa.table({"lead": ["a"]}))
    outcomes = scores.write([wrong, _effect([("b", 1)], tenant="bolt")])
    assert [outcome.error.code for outcome in outcomes] == ["WrongSchema", "SinkUnavailable"]


def test_a_table_that_vanished_is_permanent(scores):
    with scores.positions.engine.begin() as connection:
        connection.execute(text("DROP TABLE scores"))
    error = scores.write([_effect([("a", 1)])])[0].error
    assert not error.temporary
    assert "no such table: scores" in error.message


def test_without_a_key_every_row_is_kept(positions):
    scores = Scores(positions, SqlTable("scores", _COLUMNS))
    scores.write([_effect([("a", 1), ("a", 1)])])
    assert scores.rows() == [("a", 1), ("a", 1)]


def test_with_a_key_alone_the_last_write_wins(positions):
    scores = Scores(positions, SqlTable("scores", _COLUMNS, key=("lead",)))
    scores.write([_effect([("a", 1), ("a", 7)])])
    assert scores.rows() == [("a", 7)]


def _site_with(positions, statement):
    with positions.engine.begin() as connection:
        connection.execute(text(statement))
    return Site(Connections({}, ""), positions)


def test_a_table_that_lacks_a_column_is_not_used(positions):
    site = _site_with(positions, "CREATE TABLE scores (lead TEXT PRIMARY KEY)")
    with pytest.raises(ConfigError, match="without column 'score'"):
        SqlTable("scores", _COLUMNS, key=("lead",)).prepare(site)


def test_a_table_that_lacks_the_key_is_not_used(positions):
    site = _site_with(positions, "CREATE TABLE scores (lead TEXT, score BIGINT)")
    with pytest.raises(ConfigError, match=r"without a unique key \(lead\)"):
        SqlTable("scores", _COLUMNS, key=("lead",)).prepare(site)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("lead TEXT COLLATE NOCASE PRIMARY KEY, score BIGINT", "'lead' compares by NOCASE"),
        ("lead TEXT PRIMARY KEY COLLATE RTRIM, score BIGINT", "'lead' compares by RTRIM"),
        ("lead TEXT PRIMARY KEY, score BIGINT UNIQUE ON CONFLICT REPLACE", "ON CONFLICT REPLACE"),
        ("lead TEXT PRIMARY KEY, score BIGINT UNIQUE on conflict\nIGNORE", "gone in silence"),
        ("lead TEXT PRIMARY KEY ON CONFLICT FAIL, score BIGINT", None),
        ("lead TEXT PRIMARY KEY, score BIGINT, more TEXT COLLATE NOCASE UNIQUE", None),
    ],
)
def test_a_table_that_takes_two_keys_for_one_or_drops_rows_is_not_used(positions, columns, told):
    with positions.engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE scores ({columns})"))
    with nullcontext() if told is None else pytest.raises(ConfigError, match=told):
        Scores(positions, SqlTable("scores", _COLUMNS, key=("lead",)))


def test_a_key_without_a_value_is_refused_where_the_database_would_number_it(positions):
    with positions.engine.begin() as connection:
        connection.execute(text("CREATE TABLE scores (score INTEGER PRIMARY KEY, lead TEXT)"))
    scores = Scores(positions, SqlTable("scores", _COLUMNS, key=("score",)))
    rows = [("a", 1)], [("b", None)], [("c", 2)]
    told = scores.write([_effect(r, tenant=t) for r, t in zip(rows, "tuv", strict=True)])
    assert [written.committed for written in told] == [True, False, True]
    assert "null in column 'score'" in told[1].error.message
    assert scores.rows() == [("a", 1), ("c", 2)]


def test_a_unique_constraint_serves_as_the_key(positions):
    site = _site_with(positions, "CREATE TABLE scores (lead TEXT, score BIGINT, UNIQUE (lead))")
    SqlTable("scores", _COLUMNS, key=("lead",)).prepare(site)


def test_a_table_cannot_be_prepared_while_the_store_is_down(positions):
    positions.down = True
    with pytest.raises(SinkUnavailable, match="table scores"):
        SqlTable("scores", _COLUMNS).prepare(Site(Connections({}, ""), positions))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"name": "scores; DROP TABLE x"}, "is no name"),
        ({"columns": {'a"b': "text"}}, "is no name"),
        ({"name": "headrace_positions"}, "the store's own"),
        ({"columns": {"a": "varchar"}}, "'varchar' is none of"),
        ({"columns": {}}, "needs columns"),
        ({"key": ("other",)}, "'other', which is no column"),
        ({"key": ("lead",), "update": {"other": "1"}}, "'other', which is no column"),
        ({"update": {"score": "1"}}, "update needs a key"),
        ({"key": ("lead",), "update": {"lead": "1"}}, "in the key and in update"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_when_it_is_named(arguments, reason):
    with pytest.raises(ConfigError, match=reason):
        SqlTable(**{"name": "scores", "columns": _COLUMNS, **arguments})


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("decimal(2, 3)", "of 2 digits not 3 can be after the point"),
        ("decimal", r"such as decimal\(12, 2\)"),
        ("money", r"none of text, bigint, .*, date, version, decimal\(p, s\)"),
    ],
)
def test_a_kind_of_amount_that_cannot_be_is_refused_where_it_is_declared(kind, told):
    with pytest.raises(ConfigError, match=f"column 'a': .*{told}"):
        SqlTable("sums", {"a": kind})


def test_what_sqlite_would_make_a_null_or_a_float_refuses_its_own_effect(positions):
    update = {"sum": "sums.sum + excluded.sum"}
    sink = SqlTable("sums", {"id": "bigint", "sum": "bigint", "x": "double"}, ("id",), update)
    site = Site(Connections({}, ""), positions)
    sink.prepare(site)
    sink.prepare(site)

    def effect(number, total, x):
        piece = Slice(LaneId("sum", "acme", "t[0]"), "t", 0, 1, epoch=1)
        return Effect((piece,), (1,), pa.table({"id": [number], "sum": [total], "x": [x]}))

    effects = [
        effect(1, 2**62, 0.5),
        effect(1, 2**62, 0.5),
        effect(2, 1, float("nan")),
        effect(3, -(2**63), float("inf")),
        effect(4, 1, None),
    ]
    errors = [outcome.error for outcome in sink.open(site).write(effects)]
    assert [error and error.code for error in errors] == [
        None,
        "SinkRefused",
        "SinkRefused",
        None,
        None,
    ]
    assert "sum_is_a_bigint" in errors[1].message
    assert "column 'x', row 0: it is NaN" in errors[2].message
    with positions.engine.connect() as connection:
        found = connection.execute(text("SELECT * FROM sums ORDER BY id")).all()
    assert found == [(1, 2**62, 0.5), (3, -(2**63), float("inf")), (4, 1, None)]
