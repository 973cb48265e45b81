"""Which of two rows of one key stays."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace import SliceContext, use_case
from headrace.errors import ConfigError, SinkRefused, WrongSchema
from headrace.model.lane_names import named
from headrace.model.record_versions import version_of
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable
from headrace.testing.records import records

_COLUMNS = {"id": "text", "city": "text", "gone": "boolean", "at": "version"}
_CITIES = SqlTable(
    "cities",
    _COLUMNS,
    ("id",),
    None,
    "there",
    newest_by="at",
    key_in_one_lane=True,
    delete_by="gone",
)
_LANE = LaneId("cities", "acme", "acme.moves[0]")


@pytest.fixture
def there(tmp_path):
    return Database(f"sqlite:///{tmp_path}/there.db")


class Database:
    """A file of SQLite that is not the store's."""

    def __init__(self, url):
        self.url = url
        self.site = Site(Connections({}, "", servers={"there": Server(url)}), None)

    def run(self, statement):
        engine = create_engine(self.url)
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            rows = [tuple(row) for row in found] if found.returns_rows else []
        engine.dispose()
        return rows

    def write(self, *effects, sink=_CITIES):
        sink.prepare(self.site)
        return list(sink.open(self.site).write(effects))

    def cities(self):
        return self.run("SELECT id, city, gone, at FROM cities ORDER BY id")


def _effect(*rows, version=0, **more):
    made = {
        "id": pa.array([row[0] for row in rows], pa.string()),
        "city": pa.array([row[1] for row in rows], pa.string()),
        "gone": pa.array([row[1] is None for row in rows], pa.bool_()),
    }
    piece = Slice(_LANE, "acme.moves", 0, 9, epoch=1)
    return Effect((piece,), (9,), pa.table(made | more), version=version)


def test_a_row_that_comes_late_leaves_a_newer_one_as_it_is(there):
    there.write(_effect(("a", "Rome"), version=5))
    there.write(_effect(("a", "Bern"), ("b", "Bonn"), version=4))
    assert there.cities() == [("a", "Rome", 0, 5), ("b", "Bonn", 0, 4)]


def test_of_one_key_in_an_effect_the_last_stays(there):
    there.write(_effect(("a", "Rome"), ("a", "Bern"), version=5))
    assert there.cities() == [("a", "Bern", 0, 5)]


def test_of_one_key_in_an_effect_the_newest_stays_where_rows_say_how_new_they_are(there):
    there.write(_effect(("a", "Rome"), ("a", "Bern"), at=pa.array([7, 6], pa.int64())))
    assert there.cities() == [("a", "Rome", 0, 7)]


def test_a_row_without_a_version_of_its_own_has_that_of_the_last_record(there):
    there.write(_effect(("a", "Rome"), ("b", "Bern"), version=9, at=pa.array([7, None])))
    assert there.cities() == [("a", "Rome", 0, 7), ("b", "Bern", 0, 9)]


def test_a_row_that_is_gone_keeps_its_key_and_nothing_of_its_data(there):
    there.write(_effect(("a", "Rome"), version=5))
    gone = _effect(("a", None), version=6)
    city = gone.output.set_column(1, "city", pa.array(["Rome"]))
    there.write(replace(gone, output=city))
    there.write(_effect(("a", "Rome"), version=5))
    assert there.cities() == [("a", None, 1, 6)]
    there.write(_effect(("a", "Bern"), version=7))
    assert there.cities() == [("a", "Bern", 0, 7)]


def test_rows_that_were_there_without_a_mark_give_way(there):
    there.run("CREATE TABLE cities (id TEXT PRIMARY KEY, city TEXT, gone BOOLEAN, at BIGINT)")
    there.run("INSERT INTO cities VALUES ('a', 'Rome', false, NULL)")
    there.write(_effect(("a", "Bern"), version=0))
    assert there.cities() == [("a", "Bern", 0, 0)]


def test_a_moment_tells_what_is_newer(there):
    sink = SqlTable("cities", {"id": "text", "at": "timestamp"}, ("id",), None, "there", "at")
    for stamp in (9, 10, 1, 1_000_000, 999_999):
        table = pa.table({"id": ["a"], "at": pa.array([stamp], pa.timestamp("us", "UTC"))})
        there.write(replace(_effect(), output=table), sink=sink)
    assert there.run("SELECT at FROM cities") == [("1970-01-01 00:00:01.000000",)]


@pytest.mark.parametrize("column", ["gone", "changed"])
def test_a_row_that_does_not_say_is_refused_by_its_column(there, column):
    columns = {"id": "text", "gone": "boolean", "changed": "bigint"}
    sink = SqlTable("cities", columns, ("id",), None, "there", "changed", "gone")
    good = {"id": ["a", "b"], "gone": [False, True], "changed": [1, 2]}
    bad = pa.table(good | {column: [good[column][0], None]})
    told = there.write(
        replace(_effect(), output=bad), replace(_effect(), output=pa.table(good)), sink=sink
    )
    assert [one.error and one.error.code for one in told] == ["SinkRefused", None]
    assert f"'{column}', row 1: it may not be null" in told[0].error.message
    with pytest.raises(SinkRefused, match=column):
        sink.check(bad)


def test_without_any_version_no_record_is_to_blame(there):
    told = there.write(_effect(("a", "Rome"), version=None))
    assert told[0].error.code == "TargetMissing"
    assert there.cities() == []


def test_a_table_is_held_against_the_columns_that_a_handler_has_to_give():
    good = _effect(("a", "Rome")).output
    _CITIES.check(good)
    _CITIES.check(good.append_column("at", pa.array([1])))
    with pytest.raises(WrongSchema, match="'at' must be bigint"):
        _CITIES.check(good.append_column("at", pa.array(["1"])))


@pytest.mark.parametrize(
    ("problem", "more"),
    [
        ("newest_by needs a key", {"key": ()}),
        ("do not go together", {"update": {"city": "'Rome'"}}),
        ("'id' is in the key", {"newest_by": "id"}),
        ("'when', which is no column of bigint", {"newest_by": "when"}),
        ("'city', which is no column of bigint", {"newest_by": "city", "delete_by": None}),
        ("'at' is of kind version, which is for newest_by alone", {"newest_by": None}),
        ("'city', which is no column of kind boolean", {"delete_by": "city"}),
        ("along one lane alone: say key_in_one_lane=True", {"key_in_one_lane": False}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(problem, more):
    with pytest.raises(ConfigError, match=problem):
        replace(_CITIES, **more)


def test_what_is_gone_needs_to_be_told_from_what_is_newer():
    with pytest.raises(ConfigError, match="delete_by needs newest_by"):
        SqlTable("cities", {"id": "text", "gone": "boolean"}, ("id",), delete_by="gone")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("city TEXT, gone BOOLEAN, at TEXT", "does not compare as whole numbers"),
        ("city TEXT NOT NULL, gone BOOLEAN, at BIGINT", "'city' as NOT NULL"),
    ],
)
def test_a_table_that_cannot_have_the_newest_rows_is_refused(there, columns, problem):
    there.run(f"CREATE TABLE cities (id TEXT PRIMARY KEY, {columns})")
    with pytest.raises(ConfigError, match=problem):
        _CITIES.prepare(there.site)


def test_lanes_that_are_merged_do_not_compare():
    with pytest.raises(ConfigError, match="order stream merges do not compare"):
        use_case(topic="{tenant}.moves", sink=_CITIES, order="stream", name="cities")(
            lambda _: None
        )


def test_where_effects_go_does_not_say_how_they_look():
    plain = SqlTable("cities", _COLUMNS | {"at": "bigint"}, ("id",), None, "there")
    assert repr(_CITIES) == repr(replace(_CITIES, delete_by=None))
    assert "newest_by" not in repr(plain)


def test_one_record_has_the_version_that_it_has_among_all():
    given = records([b"x", b"y"], topic="acme.moves")
    piece = Slice(LaneId("cities", "acme", named("acme.moves", 0)), "acme.moves", 0, 2, 1, depth=3)
    context = SliceContext("cities", "acme", (piece,))
    assert context.versions(given).to_pylist() == [
        context.version_of(record) for record in given.to_pylist()
    ]
    assert context.version_of(given.to_pylist()[1]) == version_of(3, 1)
