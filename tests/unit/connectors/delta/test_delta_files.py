"""Every row lies in its partition, what is told of a file is right, and readers see the same."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import threading
from dataclasses import replace
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from delta_cases import effect, site
from deltalake import DeltaTable as Library
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connectors.delta import data_files, on_disk
from headrace.connectors.local_files import sync_all
from headrace.errors import ConfigError
from headrace.sinks import DeltaTable

DAY = dt.date(2026, 1, 31)
AT = dt.datetime(2026, 1, 31, 23, 59, 59, 999_999, dt.UTC)
SCHEMA = pa.schema(
    [
        ("tenant", pa.string()),
        ("date", pa.date32()),
        ("number", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        pa.field("path", pa.string(), nullable=False),
    ]
)


def _row(**given):
    row = {"tenant": "acme", "date": DAY, "number": 1, "at": AT, "amount": None, "tags": ["a"]}
    return row | {"path": "/"} | given


def _written(folder, rows, by=("tenant", "date")):
    sink = DeltaTable("visits", SCHEMA, by)
    sink.prepare(site(folder))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return sink.open(site(folder)).write([replace(effect([]), output=table)])[0]


def _read(folder):
    rows = Library(str(folder / "visits")).to_pyarrow_table().to_pylist()
    return sorted(rows, key=repr)


_VALUES = {
    "tenant": st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
    "date": st.one_of(st.none(), st.dates()),
    "number": st.integers(-(2**31), 2**31 - 1),
    "at": st.one_of(st.none(), st.datetimes(timezones=st.just(dt.UTC))),
    "path": st.text(st.characters(exclude_categories=["Cs"])),
}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.fixed_dictionaries(_VALUES), min_size=1, max_size=6))
def test_what_is_written_is_read_whatever_divides_it(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("warehouse")
    rows = [_row(**value) for value in values]
    assert _written(folder, rows).error is None
    read = _read(folder)
    names = list(SCHEMA.names)
    plain = [{name: row[name] for name in names} for row in read]
    assert sorted(plain, key=repr) == sorted(rows, key=repr)


def test_a_file_is_of_one_partition_and_its_folder_shows_it(tmp_path):
    _written(tmp_path, [_row(), _row(tenant="b/ö"), _row(), _row(date=None)])
    folders = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("part-*.parquet")}
    assert {str(folder) for folder in folders} == {
        "visits/tenant=acme/date=2026-01-31",
        "visits/tenant=b__/date=2026-01-31",
        "visits/tenant=acme/date=__HIVE_DEFAULT_PARTITION__",
    }


def test_readers_are_told_ends_that_hold_all_values(tmp_path):
    _written(tmp_path, [_row(number=n, path="p" * n) for n in (3, 200, 7)])
    statistics = json.loads(_adds(tmp_path)[0]["stats"])
    assert statistics["numRecords"] == 3
    assert (statistics["minValues"]["number"], statistics["maxValues"]["number"]) == (3, 200)
    assert statistics["minValues"]["at"] == "2026-01-31T23:59:59.999Z"
    assert statistics["maxValues"]["at"] == "2026-02-01T00:00:00.000Z"
    assert "path" not in statistics["maxValues"], "a long text is left out, not cut"


def test_who_looks_for_nulls_finds_the_files_that_have_some(tmp_path):
    _written(tmp_path, [_row(number=None), _row(number=5)])
    _written(tmp_path, [_row(number=None)])
    visits = Library(str(tmp_path / "visits")).to_pyarrow_dataset()
    assert visits.count_rows(filter=pc.field("number").is_null()) == 2
    assert visits.count_rows(filter=pc.field("number") == 5) == 1
    assert json.loads(_adds(tmp_path)[0]["stats"])["nullCount"]["number"] == 1


def _adds(folder):
    commit = (folder / "visits/_delta_log" / f"{1:020d}.json").read_text()
    return [json.loads(line)["add"] for line in commit.splitlines() if line.startswith('{"add"')]


def test_duckdb_reads_what_is_there(tmp_path):
    _written(tmp_path, [_row(number=n, amount=Decimal("12.50")) for n in range(5)])
    visits = Library(str(tmp_path / "visits")).to_pyarrow_dataset()
    found = duckdb.sql(
        'SELECT tenant, date, sum(number), sum(amount), max("at") FROM visits '
        "WHERE date = DATE '2026-01-31' GROUP BY ALL"
    ).fetchall()
    assert visits.count_rows() == 5
    assert [(row[0], row[1], row[2], str(row[3])) for row in found] == [("acme", DAY, 10, "62.50")]
    assert found[0][4].astimezone(dt.UTC) == AT


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tenant": ""}, "'tenant': empty text"),
        ({"path": None}, "'path', row 0: it may not be null"),
    ],
)
def test_a_row_that_the_table_cannot_have_is_refused_by_its_column(tmp_path, row, message):
    error = _written(tmp_path, [_row(**row)]).error
    assert error.code == "SinkRefused"
    assert message in error.message


def test_a_day_of_no_calendar_cannot_divide(tmp_path):
    sink = DeltaTable("visits", SCHEMA, ("date",))
    sink.prepare(site(tmp_path))
    table = pa.Table.from_pylist([_row()], schema=SCHEMA)
    days = pa.array([5_000_000], pa.int32()).cast(pa.date32())
    odd = replace(effect([]), output=table.set_column(1, "date", days))
    assert "years 1 to 9999" in sink.open(site(tmp_path)).write([odd])[0].error.message


def test_files_and_all_folders_on_the_way_are_synced_before_they_are_committed(
    tmp_path, monkeypatch
):
    synced, sync = [], os.fsync

    def noted(descriptor):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    _written(tmp_path, [_row()])
    file = next(tmp_path.rglob("part-*.parquet"))
    commit = f"visits/_delta_log/{1:020d}.json"
    folders = {"visits/tenant=acme/date=2026-01-31", "visits/tenant=acme", "visits"}
    assert set(synced[:4]) == {str(file.relative_to(tmp_path)), *folders}
    before = f"visits/_delta_log/{0:020d}.json"
    assert sorted(synced[4:]) == sorted([before, commit, "visits/_delta_log"])


def test_a_disk_is_asked_at_once_for_all_that_a_commit_waits_for(tmp_path, monkeypatch):
    # One after the other they would wait for each other here until the barrier breaks.
    together, sync = threading.Barrier(4), os.fsync

    def noted(descriptor):
        if "_delta_log" not in os.readlink(f"/proc/self/fd/{descriptor}"):
            together.wait(timeout=60)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert _written(tmp_path, [_row()]).error is None


def _synced_folders(tmp_path, monkeypatch, rows):
    """Of the data, those that a write of rows asks the disk for."""
    synced, sync = [], os.fsync

    def noted(descriptor):
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", noted)
        assert _written(tmp_path, rows).error is None
    found = {str(path.relative_to(tmp_path)) for path in synced if path.is_dir()}
    return found - {"visits/_delta_log"}


def test_a_folder_whose_name_is_durable_is_synced_for_its_files_alone(tmp_path, monkeypatch):
    rows = [_row(), _row(tenant="bolt")]
    _written(tmp_path, rows)
    days = {f"visits/tenant={tenant}/date=2026-01-31" for tenant in ("acme", "bolt")}
    assert _synced_folders(tmp_path, monkeypatch, rows) == days
    next_day = [_row(date=dt.date(2026, 2, 1))]
    assert _synced_folders(tmp_path, monkeypatch, next_day) == {
        "visits/tenant=acme",
        "visits/tenant=acme/date=2026-02-01",
    }


def test_a_folder_that_was_made_again_is_synced_with_its_name(tmp_path, monkeypatch):
    _written(tmp_path, [_row()])
    # What is there under another name keeps its number, so the next folder has another one.
    (tmp_path / "visits/tenant=acme").rename(tmp_path / "visits/tenant=kept")
    assert _synced_folders(tmp_path, monkeypatch, [_row()]) == {
        "visits",
        "visits/tenant=acme",
        "visits/tenant=acme/date=2026-01-31",
    }


def test_a_disk_that_did_not_sync_a_name_is_asked_for_it_again(tmp_path, monkeypatch):
    sync = os.fsync

    def failing(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/visits"):
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        assert _written(tmp_path, [_row()]).error.temporary
    assert "visits" in _synced_folders(tmp_path, monkeypatch, [_row()])


def test_a_child_that_was_forked_syncs_by_threads_of_its_own(tmp_path):
    _written(tmp_path, [_row()])  # its parent has threads by now, and the child has none of them
    file = next(tmp_path.rglob("part-*.parquet"))
    child = get_context("fork").Process(target=sync_all, args=([file], tmp_path))
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0


def test_small_files_are_written_without_threads(tmp_path, monkeypatch):
    who, write = set(), data_files.pq.write_table

    def noted(*args, **options):
        who.add(threading.current_thread())
        write(*args, **options)

    monkeypatch.setattr(data_files.pq, "write_table", noted)
    assert _written(tmp_path, [_row(), _row(tenant="bolt")]).error is None
    assert who == {threading.current_thread()}


def test_large_files_of_one_commit_are_written_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "_WORTH_A_THREAD", 1)
    together, write = threading.Barrier(3), data_files.pq.write_table

    def noted(*args, **options):
        together.wait(timeout=60)
        write(*args, **options)

    monkeypatch.setattr(data_files.pq, "write_table", noted)
    rows = [_row(tenant=name, number=n) for n in range(4) for name in ("acme", "bolt", "coil")]
    assert _written(tmp_path, rows).error is None
    assert sorted(_read(tmp_path), key=repr) == sorted(rows, key=repr)


def test_one_file_that_cannot_be_written_takes_the_others_with_it(tmp_path, monkeypatch):
    write, number = data_files.pq.write_table, itertools.count()

    def full(*args, **options):
        write(*args, **options)
        if next(number) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(data_files.pq, "write_table", full)
    rows = [_row(tenant=name) for name in ("acme", "bolt", "coil")]
    error = _written(tmp_path, rows).error
    assert error.temporary
    assert "No space left on device" in error.message
    assert list(tmp_path.rglob("part-*.parquet")) == []


def test_what_could_not_be_written_whole_leaves_no_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(on_disk, "sync_all", full)
    assert _written(tmp_path, [_row(), _row(tenant="bolt")]).error.temporary
    assert list(tmp_path.rglob("part-*.parquet")) == []


@pytest.mark.parametrize(
    ("field", "by", "message"),
    [
        (pa.field("a", pa.uint8()), (), "'a' cannot be uint8"),
        (pa.field("a", pa.timestamp("us")), (), "'a' cannot be timestamp"),
        (pa.field("a", pa.timestamp("ns", "UTC")), (), "'a' cannot be timestamp"),
        (pa.field("a", pa.list_(pa.uint8())), (), "'a' cannot be list"),
        (pa.field("a", pa.large_string()), (), "'a' cannot be large_string"),
        (pa.field("a b", pa.string()), (), "'a b': Delta takes no such name"),
        (pa.field("PATH", pa.string()), (), "'path' is there twice"),
        (pa.field("a", pa.float64()), ("a",), "'a': take text"),
        (pa.field("a", pa.string()), ("b",), "'b', which is no column"),
        (pa.field("a", pa.string()), ("a", "path"), "a column that does not divide it"),
    ],
)
def test_columns_that_delta_has_not_are_refused_by_name(field, by, message):
    with pytest.raises(ConfigError, match=message):
        DeltaTable("visits", pa.schema([("path", pa.string()), field]), by)
