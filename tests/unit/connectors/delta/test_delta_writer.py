"""One commit has rows and marks; who comes again, or too late, finds them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from delta_cases import SCHEMA, Places, effect, found, rows_of, site, write
from deltalake import DeltaTable as Library
from deltalake.exceptions import DeltaError

from headrace.connectors.delta import client, on_disk, writer
from headrace.connectors.delta.marks import mark_ids, wave_number
from headrace.connectors.delta.upkeep import kept_in
from headrace.errors import ConfigError, StoreUnavailable
from headrace.ports import Written
from headrace.sinks import DeltaTable


def _codes(outcomes):
    return [outcome.error and outcome.error.code for outcome in outcomes]


def test_all_effects_of_a_call_are_one_commit(tmp_path):
    outcomes = write(tmp_path, [effect([1, 2]), effect([3], tenant="bolt")], wave="w")
    assert _codes(outcomes) == [None, None]
    assert Library(str(tmp_path / "visits")).version() == 1
    assert found(tmp_path) == [1, 2, 3]


def test_a_wave_that_is_run_again_finds_what_is_there_and_writes_the_rest(tmp_path):
    write(tmp_path, [effect([1, 2], reached=7)], wave="w")
    outcomes = write(tmp_path, [effect([1, 2, 3]), effect([4], tenant="bolt")], wave="w")
    assert [outcome.reached for outcome in outcomes] == [(7,), None]
    assert found(tmp_path) == [1, 2, 4]


def test_under_a_higher_epoch_and_as_a_part_it_is_the_same_wave(tmp_path):
    write(tmp_path, [effect([1])], wave="w.1")
    assert write(tmp_path, [effect([1], epoch=5)], wave="w.2.1")[0].reached == (9,)
    assert found(tmp_path) == [1]


def test_what_an_earlier_attempt_wrote_counts_whatever_is_made_of_the_records_now(tmp_path):
    write(tmp_path, [effect([1])], wave="w")
    refused = replace(effect([1]), output=pa.table({"value": ["no number"]}))
    assert write(tmp_path, [refused], wave="w")[0].reached == (9,)


def test_after_a_seek_another_wave_writes_its_rows_again(tmp_path):
    for wave in ("w", "after the seek"):
        write(tmp_path, [effect([1])], wave=wave)
    assert found(tmp_path) == [1, 1]


def test_a_wave_goes_on_in_a_lane_that_it_has_written_to(tmp_path):
    write(tmp_path, [effect([1])], wave="w")
    assert write(tmp_path, [effect([2], start=9)], wave="w")[0].reached is None
    assert found(tmp_path) == [1, 2]


def test_merged_lanes_without_rows_leave_marks_too(tmp_path):
    write(tmp_path, [effect([], lanes=2, reached=4)], wave="w")
    assert write(tmp_path, [effect([1], lanes=2)], wave="w")[0].reached == (4, 4)
    assert found(tmp_path) == []


def test_two_installations_do_not_take_each_others_lanes_for_theirs(tmp_path):
    sink = DeltaTable("visits", SCHEMA)
    sink.prepare(site(tmp_path))
    for key in (b"store", b"another"):
        there = site(tmp_path, wave="w")
        there = replace(there, connections=replace(there.connections, seal_key=key))
        assert sink.open(there).write([effect([1])])[0].reached is None
    assert found(tmp_path) == [1, 1]


def test_a_lane_that_was_sent_elsewhere_keeps_nothing_and_the_others_are_written(tmp_path):
    effects = [effect([1]), effect([2], tenant="bolt")]
    outcomes = write(tmp_path, effects, wave="w", places=Places(gone={"acme"}))
    assert [outcome.superseded for outcome in outcomes] == [True, False]
    assert found(tmp_path) == [2]
    assert len(list((tmp_path / "visits").glob("*.parquet"))) == 1


def test_without_a_recorded_wave_nobody_is_asked_and_nothing_is_noted(tmp_path):
    places = Places(gone={"acme"})
    write(tmp_path, [effect([1])], places=places)
    assert not places.asked
    commit = (tmp_path / "visits/_delta_log" / f"{1:020d}.json").read_text()
    assert '"txn"' not in commit


@pytest.fixture
def meanwhile(monkeypatch):
    """Does something once, when the next writer is about to commit."""

    def begin(what):
        def once(*_):
            monkeypatch.setattr(writer, "reached", lambda *_: None)
            what()

        monkeypatch.setattr(writer, "reached", once)

    return begin


def test_of_two_attempts_that_both_found_nothing_one_writes(tmp_path, meanwhile):
    effects = [effect([1]), effect([2], tenant="bolt")]
    told = []
    meanwhile(lambda: told.extend(write(tmp_path, effects, wave="w")))
    late = write(tmp_path, effects, wave="w")
    assert [outcome.reached for outcome in told] == [None, None]
    assert [outcome.reached for outcome in late] == [(9,), (9,)]
    assert found(tmp_path) == [1, 2]
    assert len(list((tmp_path / "visits").glob("*.parquet"))) == 1


def test_who_is_late_with_some_writes_the_others(tmp_path, meanwhile):
    meanwhile(lambda: write(tmp_path, [effect([1])], wave="w"))
    late = write(tmp_path, [effect([1]), effect([2], tenant="bolt")], wave="w")
    assert [outcome.reached for outcome in late] == [(9,), None]
    assert found(tmp_path) == [1, 2]


def test_a_late_attempt_finds_its_stream_sought_when_it_is_beaten(tmp_path, meanwhile):
    places = Places()

    def sought():
        places.gone.add("acme")
        write(tmp_path, [effect([1], epoch=2)], wave="after the seek")

    meanwhile(sought)
    assert write(tmp_path, [effect([1])], wave="w", places=places)[0].superseded
    assert found(tmp_path) == [1]


@pytest.mark.parametrize("wave", ["", "w"])
def test_who_is_beaten_by_others_commits_the_same_files_again(tmp_path, meanwhile, wave):
    meanwhile(lambda: write(tmp_path, [effect([7], tenant="bolt")], wave=wave and "other"))
    assert _codes(write(tmp_path, [effect([1])], wave=wave)) == [None]
    assert found(tmp_path) == [1, 7]
    assert len(list((tmp_path / "visits").glob("*.parquet"))) == 2


@pytest.mark.parametrize("wave", ["", "w"])
def test_files_that_were_vacuumed_while_their_writer_slept_are_written_again(
    tmp_path, monkeypatch, wave
):
    write(tmp_path, [effect([1])], wave="before")
    slept = []

    def asleep(step, _use_case):
        if step == "mid-write" and not slept:
            for path in (tmp_path / "visits").rglob("*.parquet"):
                os.utime(path, (time.time() - 7200,) * 2)
            slept.append(kept_in(tmp_path, "visits").vacuum(1, dry_run=False))

    monkeypatch.setattr(writer, "reached", asleep)
    assert _codes(write(tmp_path, [effect([2, 3], start=9)], wave=wave)) == [None]
    assert len(slept[0]) == 1
    assert found(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("words", ["Invalid table version: 2", "commit files, but found gap: 1"])
@pytest.mark.parametrize("step", ["refresh", "_append"])
def test_a_list_of_commits_with_a_hole_is_read_again(tmp_path, monkeypatch, words, step):
    what, holes = getattr(client.TableClient, step), [1, 1]

    def seen(table, *given):
        if holes:
            holes.pop()
            with table._home.told():
                raise DeltaError(words)
        return what(table, *given)

    monkeypatch.setattr(client.TableClient, step, seen)
    assert _codes(write(tmp_path, [effect([1])], wave="w")) == [None]
    assert found(tmp_path) == [1]
    assert holes == []


def test_who_is_always_beaten_is_told_to_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(
        writer, "reached", lambda *_: Library(str(tmp_path / "visits")).alter.set_table_name("x")
    )
    monkeypatch.setattr(writer, "_TRIES", 3)
    assert _codes(write(tmp_path, [effect([1])])) == ["SinkUnavailable"]
    assert found(tmp_path) == []


@pytest.mark.parametrize("may_repeat", [True, False])
@pytest.mark.parametrize("wave", ["", "w"])
def test_a_commit_that_is_told_as_an_error_is_found(tmp_path, monkeypatch, wave, may_repeat):
    commit = client.TableClient._append

    def lying(*given):
        commit(*given)
        raise OSError("the checkpoint after it cannot be written")

    monkeypatch.setattr(client.TableClient, "_append", lying)
    assert _codes(write(tmp_path, [effect([1], may_repeat=may_repeat)], wave=wave)) == [None]
    assert found(tmp_path) == [1]


def test_a_commit_of_which_nobody_knows_is_not_made_again_at_most_once(tmp_path, monkeypatch):
    commit, lying = client.TableClient._append, []

    def lost(*given):
        commit(*given)
        lying.append(1)
        raise OSError(5, "the disk went away")

    def unreadable(*_):
        raise OSError(5, "the disk is away")

    monkeypatch.setattr(client.TableClient, "_append", lost)
    monkeypatch.setattr(client, "_is_of", unreadable)
    assert _codes(write(tmp_path, [effect([1], may_repeat=False)])) == ["SinkUnavailable"]
    assert len(lying) == 1
    assert found(tmp_path) == [1]


@pytest.mark.parametrize(
    ("number", "code"), [(28, "SinkUnavailable"), (5, "SinkUnavailable"), (30, "TargetMissing")]
)
@pytest.mark.parametrize("where", ["files", "commit"])
def test_a_full_disk_waits_and_a_read_only_one_stops_the_lanes(
    tmp_path, monkeypatch, number, code, where
):
    def refused(*_):
        if where == "files":
            raise OSError(number, os.strerror(number))
        words = f"Generic LocalFileSystem error: {os.strerror(number)} (os error {number})"
        raise DeltaError(words)

    if where == "files":
        monkeypatch.setattr(on_disk.Folder, "settle", refused)
    else:
        monkeypatch.setattr(client.TableClient, "_append", refused)
    outcomes = write(tmp_path, [effect([1]), effect([2], tenant="bolt")])
    assert _codes(outcomes) == [code, code]
    assert os.strerror(number) in outcomes[0].error.message
    assert list((tmp_path / "visits").glob("*.parquet")) == []
    monkeypatch.undo()
    assert _codes(write(tmp_path, [effect([1])])) == [None]


def test_a_store_that_is_away_leaves_no_files(tmp_path):
    class Away:
        def advance(self, moves):
            raise StoreUnavailable("it is away")

    assert _codes(write(tmp_path, [effect([1])], wave="w", places=Away())) == ["StoreUnavailable"]
    assert list((tmp_path / "visits").glob("*.parquet")) == []


def test_where_the_library_is_missing_the_deploy_says_so_and_a_worker_waits(tmp_path, monkeypatch):
    opened = DeltaTable("visits", SCHEMA)
    opened.prepare(site(tmp_path))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[delta\]'"):
        opened.prepare(site(tmp_path))
    error = opened.open(site(tmp_path)).write([effect([1])])[0].error
    assert (error.code, error.temporary) == ("CodeNotLoaded", True)


def test_a_table_that_is_gone_stops_the_lanes_until_a_deploy(tmp_path):
    write(tmp_path, [effect([1])])
    sink = DeltaTable("visits", SCHEMA)
    opened = sink.open(site(tmp_path))
    shutil.rmtree(tmp_path / "visits")
    outcome = opened.write([effect([2])])[0]
    assert outcome.error.code == "TargetMissing"
    assert "headrace use-cases deploy" in outcome.error.message
    assert not (tmp_path / "visits").exists()
    assert _codes(write(tmp_path, [effect([2])])) == [None]
    assert found(tmp_path) == [2]


def test_a_table_that_was_made_again_is_looked_at_anew(tmp_path):
    for value in (1, 2, 3):
        write(tmp_path, [effect([value])])
    (tmp_path / "visits").rename(tmp_path / "old")
    write(tmp_path, [effect([4])])
    assert found(tmp_path) == [4]
    assert found(tmp_path, "old") == [1, 2, 3]


def test_a_column_that_somebody_took_away_stops_the_lanes_by_its_name(tmp_path):
    write(tmp_path, [effect([1])])
    opened = DeltaTable("visits", SCHEMA.append(pa.field("more", pa.string()))).open(site(tmp_path))
    given = replace(effect([1]), output=rows_of([1]).append_column("more", pa.array(["m"])))
    error = opened.write([given])[0].error
    assert (error.code, "'more'" in error.message) == ("TargetMissing", True)


def test_a_newer_version_adds_columns_and_the_older_one_goes_on(tmp_path):
    wider = SCHEMA.append(pa.field("more", pa.date32()))
    write(tmp_path, [effect([1])])
    output = rows_of([2]).append_column("more", pa.array(["2026-01-31"]))
    sink = DeltaTable("visits", wider)
    assert _codes(write(tmp_path, [replace(effect([2]), output=output)], sink=sink)) == [None]
    assert _codes(write(tmp_path, [effect([3])])) == [None]
    rows = Library(str(tmp_path / "visits")).to_pyarrow_table().sort_by("value")
    assert [str(day) for day in rows["more"].to_pylist()] == ["None", "2026-01-31", "None"]


@pytest.mark.parametrize(
    ("schema", "by", "message"),
    [
        (pa.schema([("tenant", pa.string()), ("value", pa.string())]), (), "'value' is long there"),
        (SCHEMA.append(pa.field("more", pa.string(), nullable=False)), (), "'more' is new"),
        (SCHEMA, ("tenant",), "divided by nothing"),
    ],
)
def test_a_table_that_would_be_another_one_is_refused_at_deploy(tmp_path, schema, by, message):
    write(tmp_path, [effect([1])])
    with pytest.raises(ConfigError, match=message):
        DeltaTable("visits", schema, by).prepare(site(tmp_path))


def test_a_table_that_asks_more_of_a_writer_is_refused(tmp_path):
    write(tmp_path, [effect([1])])
    Library(str(tmp_path / "visits")).alter.add_constraint({"positive": "value > 0"})
    with pytest.raises(ConfigError, match="wants of a writer what is not had"):
        DeltaTable("visits", SCHEMA).prepare(site(tmp_path))


def test_text_that_is_no_place_below_the_warehouse_is_refused(tmp_path):
    for folder in ("s3://bucket/visits", "/visits", "../visits", ""):
        with pytest.raises(ConfigError, match="below the warehouse"):
            DeltaTable(folder, SCHEMA)


def test_old_commits_are_cleaned_away_and_marks_are_not(tmp_path):
    write(tmp_path, [effect([1])], wave="w")
    log = tmp_path / "visits/_delta_log"
    for number in range(2, 100):
        write(tmp_path, [effect([number], tenant="bolt", start=number)])
    for path in log.glob("*.json"):
        os.utime(path, times=(time.time() - 25 * 3600,) * 2)
    write(tmp_path, [effect([100, 101], tenant="bolt")])
    write(tmp_path, [effect([102], tenant="bolt")])
    assert not (log / f"{1:020d}.json").exists(), "the log keeps a day"
    writer._kept.clear()
    assert write(tmp_path, [effect([1])], wave="w")[0].reached == (9,)
    assert found(tmp_path) == list(range(1, 103))


def test_a_commit_lists_the_log_to_clean_it_only_where_there_is_a_checkpoint(tmp_path):
    write(tmp_path, [effect([1])])
    Library(str(tmp_path / "visits")).create_checkpoint()
    old = tmp_path / "visits/_delta_log" / f"{0:020d}.json"
    os.utime(old, times=(time.time() - 25 * 3600,) * 2)
    write(tmp_path, [effect([2], start=9)])
    assert old.exists()


WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


@pytest.mark.parametrize("start", [10**18 - 9, 2**63 - 10, 2**63 - 9, 10**36, 10**75, WIDE])
def test_a_mark_holds_any_place(tmp_path, start):
    given = effect([1], start=start)
    assert write(tmp_path, [given], wave="w") == [Written()]
    assert write(tmp_path, [given], wave="w") == [Written(reached=(start + 9,))]
    assert found(tmp_path) == [1]


def test_a_lane_that_is_another_logs_by_now_has_nothing_of_its_wide_mark(tmp_path):
    write(tmp_path, [effect([1], start=WIDE)], wave="w-1")
    narrow = effect([2])
    assert write(tmp_path, [narrow], wave="w-2") == [Written()]
    assert write(tmp_path, [narrow], wave="w-2") == [Written(reached=(9,))]


def test_marks_of_narrow_places_are_what_they_were(tmp_path):
    """Else what an earlier version has written would be written again after an upgrade."""
    write(tmp_path, [effect([1], start=2**63 - 10)], wave="w")
    told = Library(str(tmp_path / "visits"))
    ids = mark_ids(site(tmp_path).connections.installation, effect([]).slices[0].lane)
    assert told.transaction_version(ids.reached) == 2**63 - 1
    assert told.transaction_version(ids.wave) == wave_number("w")
    assert told.transaction_version(ids.more[0]) is None
