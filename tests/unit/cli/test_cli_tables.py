"""Delta tables are kept fit by command: the same rows in fewer files, and nothing young goes."""

import json
import os
import time

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Library

from headrace.connectors.delta import upkeep
from headrace.connectors.delta.library import BeatenError
from headrace.connectors.delta.upkeep import Crowd, File, Upkeep, crowds, kept_in
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import DeltaTable

SCHEMA = pa.schema([("tenant", pa.string()), ("value", pa.int64())])
TENANTS = ["acme", "o'brien", None]


def write(warehouse, values, tenants):
    sink = DeltaTable("visits", SCHEMA, ("tenant",))
    connections = Connections({}, "", warehouse=str(warehouse))
    site = Site(connections, positions=None)
    sink.prepare(site)
    for value in values:
        rows = pa.table({"tenant": tenants, "value": [value] * len(tenants)}, schema=SCHEMA)
        piece = Slice(LaneId("copy", "acme", "v[0]"), "v", value, value + 1, 1)
        assert sink.open(site).write([Effect((piece,), (value + 1,), rows)])[0].error is None


@pytest.fixture
def warehouse(tmp_path, config):
    write(tmp_path / "warehouse", range(4), TENANTS)
    return tmp_path / "warehouse"


def rows(warehouse):
    table = Library(str(warehouse / "visits")).to_pyarrow_table(columns=["tenant", "value"])
    return sorted(map(repr, table.to_pylist()))


def files(warehouse):
    return list((warehouse / "visits").rglob("*.parquet"))


def age(warehouse, hours):
    for path in files(warehouse):
        os.utime(path, times=(time.time() - hours * 3600,) * 2)


def test_small_files_are_merged_and_the_rows_stay(headrace, warehouse):
    before = rows(warehouse)
    result = headrace("tables", "optimize", "visits")
    assert "3 partitions, 12 files merged into 3" in result.output
    assert rows(warehouse) == before
    assert len(Library(str(warehouse / "visits")).file_uris()) == 3
    again = headrace("tables", "optimize", "visits", "--json")
    assert json.loads(again.stdout)["partitions"] == []


def test_a_dry_run_tells_and_changes_nothing(headrace, warehouse):
    result = headrace("tables", "optimize", "visits", "--dry-run")
    assert "tenant=o'brien" in result.output
    assert len(Library(str(warehouse / "visits")).file_uris()) == 12


def test_who_writes_meanwhile_is_not_hurt_and_hurts_nobody(warehouse):
    table = kept_in(warehouse, "visits")
    for number, crowd in enumerate(table.crowds(), 4):
        write(warehouse, [number], TENANTS)
        table.merge(crowd)
    assert len(rows(warehouse)) == 7 * len(TENANTS)


def test_marks_of_lanes_outlive_a_merge(warehouse):
    table = Library(str(warehouse / "visits"))
    commit = upkeep.library().CommitProperties
    transaction = upkeep.library().Transaction
    table.alter.set_table_name(
        "visits", commit_properties=commit(app_transactions=[transaction("headrace/a", 7)])
    )
    upkept = kept_in(warehouse, "visits")
    for crowd in upkept.crowds():
        upkept.merge(crowd)
    again = Library(str(warehouse / "visits"))
    again.create_checkpoint()
    assert Library(str(warehouse / "visits")).transaction_version("headrace/a") == 7


def test_a_partition_that_somebody_else_merges_is_left_to_them(headrace, warehouse, monkeypatch):
    def beaten(_, crowd):
        raise BeatenError

    monkeypatch.setattr(Upkeep, "merge", beaten)
    result = headrace("tables", "optimize", "visits")
    assert result.output.count("left alone") == 3


def test_merged_files_go_when_they_are_old_and_young_ones_stay(headrace, warehouse, monkeypatch):
    headrace("tables", "optimize", "visits")
    assert "0 files removed" in headrace("tables", "vacuum", "visits").output
    told = headrace("tables", "vacuum", "visits", "--retention-hours", "1", "--json")
    assert json.loads(told.stdout) == {"files": [], "removed": True}
    assert len(files(warehouse)) == 15
    monkeypatch.setattr(upkeep, "LEAST_HOURS", 0)
    told = headrace("tables", "vacuum", "visits", "--retention-hours", "0")
    assert "12 files removed" in told.output
    assert len(rows(warehouse)) == 12


def test_what_a_killed_writer_left_goes_and_what_one_writes_stays(headrace, warehouse):
    left, fresh = (warehouse / "visits/tenant=acme" / f"part-{n}.parquet" for n in ("old", "new"))
    for path in (left, fresh):
        path.write_bytes(b"")
    os.utime(left, times=(time.time() - 200 * 3600,) * 2)
    dry = headrace("tables", "vacuum", "visits", "--dry-run")
    assert "part-old" in dry.output
    assert left.exists()
    assert "1 file removed" in headrace("tables", "vacuum", "visits").output
    assert (left.exists(), fresh.exists()) == (False, True)
    assert len(rows(warehouse)) == 12


def test_files_of_the_table_stay_however_old_they_are(headrace, warehouse):
    age(warehouse, 1000)
    headrace("tables", "vacuum", "visits")
    assert len(rows(warehouse)) == 12


def test_what_is_being_written_cannot_be_asked_for(headrace, warehouse):
    result = headrace("tables", "vacuum", "visits", "--retention-hours", "0")
    assert result.exit_code != 0
    assert "1 at least" in result.output


def test_a_name_that_is_no_table_is_told_which_there_are(headrace, warehouse):
    result = headrace("tables", "optimize", "visit")
    assert "there is visits" in " ".join(result.output.split())


def test_only_files_that_fit_into_one_are_a_crowd():
    def of(*sizes, tenant="a"):
        return [File({"tenant": tenant}, size) for size in sizes]

    assert crowds(of(60, 60), 100) == []
    assert crowds([*of(10), *of(10, tenant="b")], 100) == []
    assert crowds([*of(1, 2, 150), *of(1, 2, 3, tenant="b")], 100) == [
        Crowd({"tenant": "b"}, 3, 6),
        Crowd({"tenant": "a"}, 2, 3),
    ]
