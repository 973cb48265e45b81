"""What only a real S3 server can show: names in it, races for one, bad credentials, faults."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pf
import pytest

from headrace.connectors.object_stores import stores
from headrace.connectors.object_stores.stores import BeatenError, Mark, store_of
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site, Written
from headrace.sinks import ParquetFiles
from s3_relay import HALF, LOST, SILENT, Relay, said
from s3_server import KEY, SECRET
from still_there import StillThere
from zombies import Zombies


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(stores._stores, "held", {})
    monkeypatch.setattr(stores, "_proofs", {})


@pytest.fixture
def bucket(s3):
    return s3.make_bucket()


@pytest.fixture
def relay(s3):
    with Relay(s3.port) as made:
        yield made


def _site(server, wave_id="wave"):
    return Site(Connections({}, "", servers={"lake": server}), StillThere(), wave_id, "0")


def _effect(values, *, tenant="acme", start=0, epoch=1, topic="acme.visits"):
    piece = Slice(LaneId("copy", tenant, f"{topic}[0]"), topic, start, start + 9, epoch=epoch)
    return Effect((piece,), (start + 9,), pa.table({"value": values}))


def _write(server, *effects, wave_id="wave", **said):
    sink = ParquetFiles("visits", at="lake", **said)
    sink.prepare(_site(server, wave_id))
    return sink.open(_site(server, wave_id)).write(effects)


def _files(s3, bucket):
    root = s3.folder_of(bucket) / "lake" / "visits"
    return {
        str(path.relative_to(root)): ds.dataset(path).to_table()["value"].to_pylist()
        for path in sorted(root.rglob("*.parquet"))
    }


def test_names_in_the_store_are_those_of_a_disk_whatever_stands_in_them(s3, bucket, tmp_path):
    effects = [
        _effect(["a"], tenant="a b/ü%", topic="x~y=z"),
        _effect(["b"], tenant="..", topic="_hidden"),
    ]
    assert _write(s3.at(bucket), *effects) == [Written()] * 2
    disk = Site(Connections({}, "", warehouse=str(tmp_path)), StillThere(), "wave", "0")
    ParquetFiles("visits").open(disk).write(effects)
    on_disk = {str(path.relative_to(tmp_path / "visits")) for path in tmp_path.rglob("*.parquet")}
    assert set(_files(s3, bucket)) == on_disk


def test_others_read_it_as_hive_has_it(s3, bucket):
    table = pa.table({"value": ["a", "b"], "day": ["2026-11-26", "2026-11-27"]})
    effect = replace(_effect([]), output=table)
    assert _write(s3.at(bucket), effect, partition_by=("day",)) == [Written()]
    there = pf.S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=s3.endpoint, region="us-east-1"
    )
    place = f"{bucket}/lake/visits"
    kinds = pa.schema([("tenant", pa.string()), ("day", pa.string())])
    by = ds.partitioning(kinds, flavor="hive")
    read = ds.dataset(place, filesystem=there, partitioning=by).to_table()
    assert sorted(read.to_pylist(), key=str) == [
        {"value": "a", "tenant": "acme", "day": "2026-11-26"},
        {"value": "b", "tenant": "acme", "day": "2026-11-27"},
    ]
    files = f"{s3.folder_of(bucket)}/lake/visits/*/*/*.parquet"
    counted = duckdb.sql(f"SELECT tenant, day, value FROM read_parquet('{files}') ORDER BY ALL")
    assert [row[2] for row in counted.fetchall()] == ["a", "b"]


def test_of_many_that_want_a_free_name_one_has_it(s3, bucket):
    store = store_of(_site(s3.at(bucket)).connections, "lake")
    for number in range(20):
        begin = threading.Barrier(8)

        def put(who, number=number, begin=begin):
            begin.wait()
            try:
                store.create(f"visits/{number}", f"{who}".encode() * 10_000, Mark(f"w{who}", 1))
            except BeatenError:
                return None
            return who

        with ThreadPoolExecutor(8) as threads:
            had = [who for who in threads.map(put, range(8)) if who is not None]
        assert len(had) == 1
        assert store.found(f"visits/{number}").mark == Mark(f"w{had[0]}", 1)


def test_a_mark_comes_back_whatever_the_name_of_the_wave(s3, bucket):
    store = store_of(_site(s3.at(bucket)).connections, "lake")
    mark = Mark("a wave/ü%: 1", 22)
    store.create("visits/x", b"x", mark)
    assert store.found("visits/x").mark == mark
    assert store.found("visits/y") is None


def test_a_file_is_replaced_only_while_it_is_the_one_that_was_looked_at(s3, bucket):
    store = store_of(_site(s3.at(bucket)).connections, "lake")
    store.create("visits/x", b"a", Mark("w", 1))
    seen = store.found("visits/x")
    store.replace("visits/x", b"b", Mark("v", 2), seen.version)
    with pytest.raises(BeatenError):
        store.replace("visits/x", b"c", Mark("w", 1), seen.version)
    assert (s3.folder_of(bucket) / "lake/visits/x").read_bytes() == b"b"
    (s3.folder_of(bucket) / "lake/visits/x").unlink()
    with pytest.raises(BeatenError):
        store.replace("visits/x", b"c", Mark("w", 1), seen.version)


def test_a_file_of_another_wave_is_another_one_though_its_rows_are_the_same(s3, bucket):
    server, seen = s3.at(bucket), []
    store = store_of(_site(server).connections, "lake")
    for wave_id in ("before", "after", "after"):
        assert _write(server, _effect(["a"]), wave_id=wave_id) == [Written()]
        (name,) = _files(s3, bucket)
        seen.append(store.found(f"visits/{name}"))
    assert seen[0].version != seen[1].version
    assert seen[1] == seen[2]


@pytest.mark.parametrize("fate", [LOST, HALF])
def test_a_file_whose_answer_is_lost_is_found_by_the_next_attempt(s3, bucket, relay, fate):
    server = s3.at(bucket, relay.port)
    assert _write(server, _effect(["a"])) == [Written()]
    relay.fates.append(fate)
    sink = ParquetFiles("visits", at="lake")
    error = sink.open(_site(server)).write([_effect(["b"], start=9)])[0].error
    assert (error.temporary, error.code) == (True, "SinkUnavailable")
    assert [*_files(s3, bucket).values()] == [["a"], ["b"]]
    again = _effect(["of another version"], start=9)
    assert sink.open(_site(server)).write([again]) == [Written()]
    assert [*_files(s3, bucket).values()] == [["a"], ["b"]]


def test_a_store_that_falls_silent_costs_each_call_one_wait(s3, bucket, relay, monkeypatch):
    monkeypatch.setattr(stores, "_ALONE", (1, 1))
    server = s3.at(bucket, relay.port)
    _write(server, _effect(["a"]))
    relay.always, relay.silence_s = SILENT, 3.0
    effects = [_effect(["b"], start=n * 9) for n in range(1, 101)]
    before = len(relay.methods)
    told = ParquetFiles("visits", at="lake").open(_site(server)).write(effects)
    assert {one.error.code for one in told} == {"SinkUnavailable"}
    # As many as are put at a time; the others are not asked for.
    assert len(relay.methods) - before <= 16


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ({"user": "AKIANOBODY"}, "InvalidAccessKeyId"),
        ({"password": "wrong"}, "SignatureDoesNotMatch"),
    ],
)
def test_wrong_credentials_are_told_and_tried_again(s3, bucket, who, words):
    with pytest.raises(SinkUnavailable, match=words) as caught:
        _write(s3.at(bucket, **who), _effect(["a"]))
    assert not any(text in str(caught.value) for text in ("AKIANOBODY", "wrong"))


def test_credentials_that_expire_in_the_middle_leave_what_was_written(s3, bucket, relay):
    server = s3.at(bucket, relay.port)
    _write(server, _effect(["a"]))
    relay.fates += [None, said(400, "ExpiredToken")]
    sink, effects = ParquetFiles("visits", at="lake"), [_effect([v], start=9) for v in "b"]
    effects += [_effect(["c"], start=18)]
    told = sink.open(_site(server)).write(effects)
    assert sorted(bool(one.error) for one in told) == [False, True]
    assert sink.open(_site(server)).write(effects) == [Written()] * 2
    assert [*_files(s3, bucket).values()] == [["a"], ["b"], ["c"]]


def test_a_bucket_that_is_not_there_stops_the_lanes(s3, bucket):
    server = s3.at(bucket)
    _write(server, _effect(["a"]))
    store = store_of(_site(server).connections, "lake")
    for path in sorted(s3.folder_of(bucket).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    s3.folder_of(bucket).rmdir()
    assert store.is_proved("visits", "")
    error = ParquetFiles("visits", at="lake").open(_site(server)).write([_effect(["b"], start=9)])
    assert (error[0].error.code, error[0].error.temporary) == ("TargetMissing", False)
    assert "the bucket is not there" in error[0].error.message


@pytest.mark.parametrize("seed", [1, 2])
def test_each_record_has_its_row_once_whoever_wakes_up_when(s3, bucket, seed):
    server = s3.at(bucket)
    _write(server)

    def write(wave_id, pieces, positions):
        site = replace(_site(server, wave_id), positions=positions)
        effects = []
        for piece in pieces:
            rows = pa.table({"value": range(piece.from_offset, piece.until_offset)})
            effects.append(Effect((piece,), (piece.until_offset,), rows))
        return ParquetFiles("visits", at="lake").open(site).write(effects)

    run = Zombies(write, seed, lanes=5)
    run.until_over(15)
    found = Counter(
        (name.split("/")[0].removeprefix("tenant="), value)
        for name, values in _files(s3, bucket).items()
        for value in values
    )
    assert run.wrong(found, least=50) == []
    assert run.refused > 10, run.outcomes


def test_the_file_that_workers_look_for_bears_no_mark(s3, bucket, relay):
    # A value that begins with a blank is signed by the client as it is, and by Azure without it.
    _write(s3.at(bucket, relay.port))
    assert [headers.get("x-amz-meta-headrace") for headers in relay.headers] == [None, None]


def test_the_client_asks_for_no_more_than_it_has_to(s3, bucket, relay):
    server = s3.at(bucket, relay.port)
    _write(server, _effect(["a"]))
    assert relay.methods == ["PUT", "PUT", "PUT"]  # the driver's file twice
    _write(server, _effect(["a"]))
    assert relay.methods[3:] == ["PUT", "PUT", "GET"]
