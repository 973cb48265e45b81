"""A file appears whole or not at all, under a name that its effect alone decides."""

from __future__ import annotations

import datetime as dt
import errno
import os
import re
import shutil
import time
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connectors.files import on_disk
from headrace.connectors.files.names import file_name
from headrace.errors import ConfigError, SinkRefused
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site, Written, facts_of
from headrace.sinks import ParquetFiles
from headrace.testing.odd_tables import no_text


def _effect(values, *, tenant="acme", topic="acme.visits", start=0, lanes=1):
    slices = tuple(
        Slice(LaneId("copy", tenant, f"{topic}[{partition}]"), topic, start, start + 9, epoch=1)
        for partition in range(lanes)
    )
    return Effect(slices, (start + 9,) * lanes, pa.table({"value": values}))


def _site(folder):
    return Site(Connections({}, "", warehouse=str(folder)), positions=None)


def _files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def writer(tmp_path):
    sink = ParquetFiles("visits")
    sink.prepare(_site(tmp_path))
    return sink.open(_site(tmp_path))


def test_the_name_says_use_case_topic_partition_and_range():
    name = "tenant=acme/copy@acme.visits-0-00000000000000000007-00000000000000000016.parquet"
    assert str(file_name(_effect(["a"], start=7))) == name


def test_a_list_that_became_longer_has_its_files_under_the_names_that_they_had():
    made = _effect(["a"], start=7)
    texts = ("acme.clicks,acme.visits", "acme.clicks,acme.mails,acme.visits")
    of_lists = [replace(made, slices=(replace(made.slices[0], topic=text),)) for text in texts]
    assert {file_name(one) for one in of_lists} == {file_name(made)}


def test_an_effect_of_several_lanes_has_a_name_that_all_of_them_decide():
    name = file_name(_effect(["a"], lanes=2)).name
    assert name.startswith("copy@acme.visits-0-")
    assert "-and-" in name
    assert name != file_name(_effect(["a"], lanes=3)).name


@pytest.mark.parametrize("bad", ["../../etc", "/etc/passwd", "..", ".hidden", "_hidden", "a/../b"])
def test_no_name_leaves_its_folder_or_hides(bad):
    path = file_name(_effect(["a"], tenant=bad, topic=bad))
    assert len(path.parts) == 2
    assert ".." not in path.parts
    assert not path.name.startswith((".", "_"))


#: the widest place that a store keeps
_WIDE = 10**76 - 1


@pytest.mark.parametrize(
    ("topic", "lane", "start", "lanes"),
    [
        ("acme." + "v" * 244, None, 7, 1),
        ("acme." + "v" * 244, None, 7, 2),
        ("x" * 128, "shardId-000000000000", _WIDE - 9, 1),
        ("x" * 249, "é" * 40, _WIDE - 9, 2),
    ],
)
def test_a_name_that_no_file_system_takes_is_cut_and_stays_one_of_its_own(
    writer, tmp_path, topic, lane, start, lanes
):
    def effect(topic):
        made = _effect(["a"], topic=topic, start=start, lanes=lanes)
        if lane is None:
            return made
        named = [
            replace(piece, lane=piece.lane._replace(name=f"{lane}{n}"))
            for n, piece in enumerate(made.slices)
        ]
        return replace(made, slices=tuple(named))

    first, other = effect(topic), effect(f"{topic[:-1]}z")
    names = [file_name(one).name for one in (first, other)]
    assert writer.write([first, other]) == [Written(), Written()]
    assert len(_files(tmp_path / "visits")) == len(set(names)) == 2
    assert all(name.startswith("copy@") and len(name) == 255 for name in names)
    assert all(f"-{start:020d}-{start + 9:020d}" in name for name in names)


def test_a_name_is_not_cut_within_an_encoded_character():
    names = [file_name(_effect(["a"], topic="x" * n + "é" * 60)).name for n in range(6)]
    assert all(240 < len(name) <= 255 for name in names)
    assert all(re.fullmatch("(?:[^%]|%[0-9A-F]{2})*", name) for name in names)


def test_the_folder_of_a_tenant_can_be_made_whatever_its_name():
    found = {file_name(_effect(["a"], tenant="t" * 250 + end)).parts[0] for end in "ab"}
    assert len(found) == 2
    assert all(name.startswith("tenant=ttt") and len(name) == 255 for name in found)


def test_names_that_differ_stay_different():
    tenants = ["a/b", "a%2Fb", "a-b", "A-b", "a~b", "a_b"]
    assert len({file_name(_effect(["a"], tenant=tenant)) for tenant in tenants}) == len(tenants)


def test_a_dash_does_not_make_two_use_cases_one():
    names = {
        file_name(
            Effect(
                (Slice(LaneId(use_case, "acme", f"{topic}[0]"), topic, 0, 9, 1),),
                (9,),
                pa.table({}),
            )
        )
        for use_case, topic in (("copy-a", "b"), ("copy", "a-b"))
    }
    assert len(names) == 2


def test_a_replay_leaves_the_same_bytes_in_the_same_file(writer, tmp_path):
    writer.write([_effect(["a", "b"])])
    (name,) = _files(tmp_path)
    before = (tmp_path / name).read_bytes()
    writer.write([_effect(["a", "b"])])
    assert _files(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == before


def test_an_empty_table_leaves_no_file(writer, tmp_path):
    outcomes = writer.write([_effect(pa.array([], pa.string()))])
    assert outcomes[0].error is None
    assert _files(tmp_path) == []


@pytest.mark.parametrize("wave_id", ["recorded", ""])
def test_a_replay_that_comes_to_nothing_takes_the_file_of_an_earlier_attempt_away(
    writer, tmp_path, monkeypatch, wave_id
):
    """Another version may have been deployed between the two; the last one decides."""
    writer.write([_effect(["a"]), _effect(["b"], tenant="bolt")])
    synced = []
    monkeypatch.setattr(on_disk, "sync_folder", synced.append)
    again = ParquetFiles("visits").open(replace(_site(tmp_path), wave_id=wave_id))
    for _ in range(2):
        assert again.write([_effect(pa.array([], pa.string()))])[0].error is None
    there = {path.parts[-2] for path in (tmp_path / "visits").rglob("*.parquet")}
    assert there == ({"tenant=bolt"} if wave_id else {"tenant=bolt", "tenant=acme"})
    assert synced.count(tmp_path / "visits/tenant=acme") == (1 if wave_id else 0)


def test_readers_see_tenants_as_partitions_and_no_unfinished_file(writer, tmp_path):
    writer.write([_effect(["a"]), _effect(["b"], tenant="bolt")])
    (tmp_path / "visits/_unfinished/half.parquet").write_bytes(b"PAR1")
    read = ds.dataset(tmp_path / "visits", partitioning="hive").to_table().to_pylist()
    assert sorted(read, key=str) == [
        {"value": "a", "tenant": "acme"},
        {"value": "b", "tenant": "bolt"},
    ]


def test_each_folder_is_synced_once_for_a_call(writer, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(on_disk, "sync_folder", synced.append)
    writer.write([_effect(["a"], start=n * 9) for n in range(5)] + [_effect(["a"], tenant="bolt")])
    root = tmp_path / "visits"
    assert synced == [root / "tenant=acme", root / "tenant=bolt", root]


@pytest.mark.parametrize(
    ("code", "temporary", "name"),
    [
        (errno.ENOSPC, True, "SinkUnavailable"),
        (errno.EDQUOT, True, "SinkUnavailable"),
        (errno.EIO, True, "SinkUnavailable"),
        (errno.ETIMEDOUT, True, "SinkUnavailable"),
        (errno.EACCES, False, "TargetMissing"),
        (errno.EPERM, False, "TargetMissing"),
        (errno.EROFS, False, "TargetMissing"),
        (errno.ENOTDIR, False, "TargetMissing"),
    ],
)
def test_a_full_disk_is_temporary_and_a_missing_right_is_not(
    writer, tmp_path, monkeypatch, code, temporary, name
):
    def fail(_descriptor):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    error = writer.write([_effect(["a"])])[0].error
    assert (error.temporary, error.code) == (temporary, name)
    assert str(tmp_path / "visits/tenant=acme") in error.message
    assert _files(tmp_path) == []


def test_a_folder_that_is_gone_is_made_again_and_a_file_in_its_place_is_told(writer, tmp_path):
    folder = tmp_path / "visits"
    shutil.rmtree(folder, ignore_errors=True)
    assert writer.write([_effect(["a"])])[0].error is None
    shutil.rmtree(folder)
    folder.write_text("no folder")
    error = writer.write([_effect(["a"])])[0].error
    assert (error.temporary, error.code) == (False, "TargetMissing")


def test_a_folder_that_cannot_be_synced_fails_its_own_effects_only(writer, tmp_path, monkeypatch):
    def sync(folder):
        if folder.name == "tenant=bolt":
            raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(on_disk, "sync_folder", sync)
    outcomes = writer.write([_effect(["a"]), _effect(["a"], tenant="bolt")])
    assert [outcome.error is None for outcome in outcomes] == [True, False]


def test_a_table_that_parquet_cannot_hold_is_a_wrong_schema(writer, tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    error = writer.write([_effect(union)])[0].error
    assert (error.temporary, error.code) == (False, "WrongSchema")
    assert _files(tmp_path) == []


def test_a_column_that_comes_twice_is_refused(writer):
    effect = _effect(["a"])
    twice = effect.output.append_column("value", pa.array(["b"]))
    error = writer.write([Effect(effect.slices, effect.reached, twice)])[0].error
    assert "'value' twice" in error.message


def test_text_that_is_no_utf_8_is_refused_since_nobody_could_read_the_file(writer, tmp_path):
    outcomes = writer.write([_effect(["a"]), _effect(no_text(1), tenant="bolt")])
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [None, "SinkRefused"]
    assert len(_files(tmp_path)) == 1


def test_prepare_removes_what_was_left_unfinished_a_day_ago(tmp_path):
    sink = ParquetFiles("visits")
    sink.prepare(_site(tmp_path))
    old, young = (tmp_path / "visits/_unfinished" / name for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"")
    day_old_s = young.stat().st_mtime - 25 * 3600
    os.utime(old, (day_old_s, day_old_s))
    sink.prepare(_site(tmp_path))
    assert (old.exists(), young.exists()) == (False, True)


def test_what_a_driver_whose_clock_is_ahead_removes_in_the_writing_is_written_again(
    writer, tmp_path, monkeypatch
):
    whole, ahead_s = on_disk._write_synced, time.time() + 48 * 3600

    def meanwhile(table, path):
        whole(table, path)
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: ahead_s)
            ParquetFiles("visits").prepare(_site(tmp_path))

    with monkeypatch.context() as patch:
        patch.setattr(on_disk, "_write_synced", meanwhile)
        error = writer.write([_effect(["a"])])[0].error
    assert (error.temporary, error.code) == (True, "SinkUnavailable")
    assert writer.write([_effect(["a"])])[0].error is None
    assert len(_files(tmp_path)) == 1


@pytest.mark.parametrize(
    "folder",
    ["", "/visits", "../visits", "a/../../b", "s3a://bucket/visits", "file:visits", "hdfs:/visits"],
)
def test_a_folder_outside_the_warehouse_is_refused(folder):
    with pytest.raises(ConfigError, match="below the warehouse"):
        ParquetFiles(folder)


def test_without_a_warehouse_nothing_can_be_opened():
    with pytest.raises(ConfigError, match="set the warehouse"):
        ParquetFiles("visits").open(Site(Connections({}, ""), positions=None))


# --- amounts and days -------------------------------------------------------------------------

_MONEY = pa.schema([("amount", pa.decimal128(20, 4)), ("day", pa.date32())])


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-(10**20) + 1, 10**20 - 1), st.none() | st.dates()),
        min_size=1,
        max_size=9,
    ),
    st.booleans(),
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_amount_and_day_comes_back_as_it_went_in(tmp_path, pairs, as_text):
    amounts = [None if unit is None else Decimal(f"{unit}e-4") for unit, _ in pairs]
    days = [day for _, day in pairs]
    table = pa.table({"amount": pa.array(amounts, pa.decimal128(24, 4)), "day": days})
    if as_text:
        table = pa.table(
            {
                "amount": pa.array(
                    [one if one is None else f"{one:f}" for one in amounts], pa.string()
                ),
                "day": pa.array([day and day.isoformat() for day in days], pa.string()),
            }
        )
    sink = ParquetFiles("money", schema=_MONEY)
    sink.prepare(_site(tmp_path))
    effect = replace(_effect(["a"]), output=table)
    (written,) = sink.open(_site(tmp_path)).write([effect])
    assert written.error is None
    found = ds.dataset(tmp_path / "money" / file_name(effect)).to_table()
    assert found.schema.equals(_MONEY)
    assert found["amount"].to_pylist() == amounts
    assert found["day"].to_pylist() == days


@pytest.mark.parametrize(
    ("column", "code", "told"),
    [
        ({"amount": ["1.00001"]}, "SinkRefused", "column 'amount', row 0: it has 5 digits after"),
        ({"amount": ["NaN"]}, "SinkRefused", "the text is no number"),
        ({"amount": [1.5]}, "WrongSchema", "a float is not exact: return Decimal"),
        ({"day": ["2026-02-30"]}, "SinkRefused", "column 'day', row 0: the text is no day"),
        ({"day": pa.array([0], pa.timestamp("us", "UTC"))}, "WrongSchema", "return the date"),
    ],
)
def test_what_is_no_exact_amount_or_day_is_refused(tmp_path, column, code, told):
    (name,) = column
    sink = ParquetFiles("money", schema=pa.schema([_MONEY.field(name)]))
    sink.prepare(_site(tmp_path))
    (written,) = sink.open(_site(tmp_path)).write(
        [replace(_effect(["a"]), output=pa.table(column))]
    )
    assert written.error.code == code
    assert told in written.error.message
    assert not list((tmp_path / "money").rglob("*.parquet"))


_STRICT = pa.schema([pa.field("page", pa.string(), nullable=False), ("ms", pa.int64())])


@pytest.mark.parametrize("nullable", [True, False])
def test_what_may_be_null_is_for_the_sinks_schema_to_say(tmp_path, nullable):
    schema = pa.schema([("page", pa.string()), pa.field("ms", pa.int64(), nullable=nullable)])
    table = pa.table({"page": ["/"], "ms": [1]}, schema=schema)
    sink = ParquetFiles("visits", schema=_STRICT)
    sink.check(table)
    outcome = sink.open(_site(tmp_path)).write([replace(_effect([]), output=table)])[0]
    assert outcome.error is None
    (path,) = tmp_path.rglob("*.parquet")
    assert pq.read_schema(path).equals(_STRICT)


def test_a_null_that_may_not_be_is_named_by_column_and_row(tmp_path):
    table = pa.table({"page": ["/", None], "ms": [1, None]})
    sink = ParquetFiles("visits", schema=_STRICT)
    with pytest.raises(SinkRefused, match="column 'page', row 1: it may not be null"):
        sink.check(table)
    own = pa.Table.from_arrays(table.columns, schema=_STRICT)
    for writer in (sink.open(_site(tmp_path)), ParquetFiles("all").open(_site(tmp_path))):
        error = writer.write([replace(_effect([]), output=own)])[0].error
        assert (error.temporary, error.code) == (False, "SinkRefused")
        assert "column 'page', row 1: it may not be null" in error.message


def test_files_of_lanes_of_two_topics_of_a_stream_do_not_replace_each_other():
    names = [
        file_name(
            Effect(
                (Slice(LaneId("copy", "acme", lane), "acme.visits", 0, 9, 1),), (9,), pa.table({})
            )
        ).name
        for lane in ("acme.visits[0]", "acme.orders[0]", "shard-a")
    ]
    assert names[0].startswith("copy@acme.visits-0-0000")
    assert len(set(names)) == len(names)


# --- rows divided by columns -------------------------------------------------------------------

_BY_DAY = pa.schema([("page", pa.string()), ("day", pa.date32()), ("kind", pa.string())])


def _by_day(folder, rows, by=("day", "kind")):
    sink = ParquetFiles("visits", schema=_BY_DAY, partition_by=by)
    sink.prepare(_site(folder))
    table = pa.table([*zip(*rows, strict=True)], schema=_BY_DAY)
    return sink.open(_site(folder)).write([replace(_effect([]), output=table)])[0]


def test_columns_that_divide_are_folders_as_hive_has_them_and_rows_keep_their_order(tmp_path):
    day, other = dt.date(2026, 11, 26), dt.date(2026, 11, 27)
    rows = [("/b", day, "a b"), ("/c", other, "ü/="), ("/a", day, "a b"), ("/d", day, None)]
    assert _by_day(tmp_path, rows) == Written()
    name = file_name(_effect([])).name
    folders = sorted(str(path.parent) for path in (tmp_path / "visits").rglob(name))
    root = f"{tmp_path}/visits/tenant=acme"
    assert folders == [
        f"{root}/day=2026-11-26/kind=__HIVE_DEFAULT_PARTITION__",
        f"{root}/day=2026-11-26/kind=a%20b",
        f"{root}/day=2026-11-27/kind=%C3%BC%2F%3D",
    ]
    assert pq.read_table(f"{folders[1]}/{name}", partitioning=None).to_pydict() == {
        "page": ["/b", "/a"]
    }
    read = ds.dataset(tmp_path / "visits", partitioning="hive").to_table()
    assert sorted(read.select(["page", "kind"]).to_pylist(), key=str) == [
        {"page": page, "kind": kind} for page, _, kind in sorted(rows)
    ]


def test_every_folder_on_the_way_to_a_file_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(on_disk, "sync_folder", synced.append)
    _by_day(tmp_path, [("/a", dt.date(2026, 11, 26), "x")])
    root = tmp_path / "visits"
    below = root / "tenant=acme" / "day=2026-11-26"
    assert synced[1:] == [below / "kind=x", below, root / "tenant=acme", root]


@pytest.mark.parametrize("value", ["", "__HIVE_DEFAULT_PARTITION__", "x" * 251, "ü" * 50])
def test_a_value_that_no_folder_can_have_is_refused(tmp_path, value):
    error = _by_day(tmp_path, [("/a", None, value)]).error
    assert (error.temporary, error.code) == (False, "SinkRefused")
    assert "column 'kind'" in error.message
    assert not [*(tmp_path / "visits").rglob("*.parquet")]


@pytest.mark.parametrize(
    ("schema", "by", "told"),
    [
        (_BY_DAY, ("hour",), "'hour' of partition_by is missing"),
        (_BY_DAY, ("tenant",), "'tenant' twice"),
        (_BY_DAY, ("day", "day"), "'day' twice"),
        (_BY_DAY, "day", "write it as"),
        (pa.schema([("page", pa.string()), ("ms", pa.float64())]), ("ms",), "is double"),
        (_BY_DAY.remove(0), ("day", "kind"), "a column that does not divide it"),
    ],
)
def test_columns_that_cannot_divide_are_refused_at_once(schema, by, told):
    with pytest.raises(ConfigError, match=told):
        ParquetFiles("visits", schema=schema, partition_by=by)


def test_without_a_schema_a_column_that_is_missing_refuses_the_effect(tmp_path):
    sink = ParquetFiles("visits", partition_by=("day",))
    sink.prepare(_site(tmp_path))
    error = sink.open(_site(tmp_path)).write([_effect(["a"])])[0].error
    assert (error.code, "'day' of partition_by is missing" in error.message) == (
        "WrongSchema",
        True,
    )


def test_a_recorded_wave_knows_how_its_rows_are_divided():
    def where(*by):
        return facts_of(ParquetFiles("visits", partition_by=by)).where

    # As waves know it that were written down before rows were divided.
    assert where() == "ParquetFiles(folder='visits')"
    assert where("day", "a/b") == "ParquetFiles(folder='visits', divided_by='day/a%2Fb')"
    assert len({where("day", "kind"), where("kind", "day"), where("day/kind")}) == 3
