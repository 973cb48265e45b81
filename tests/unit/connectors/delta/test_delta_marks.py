"""What is read of a table's log is what its client library says, whichever way it is read."""

from __future__ import annotations

import pytest
from delta_cases import SCHEMA, effect, site, write
from deltalake import DeltaTable as Library

from headrace.connectors.delta import marks
from headrace.connectors.delta.marks import IdLog, LaneMark, mark_ids, wave_number
from headrace.connectors.delta.on_disk import Folder
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId
from headrace.sinks import DeltaTable


@pytest.fixture
def log(tmp_path):
    """The log of a table with thirty commits."""
    sink = DeltaTable("visits", SCHEMA)
    sink.prepare(site(tmp_path))
    for number in range(30):
        tenant = f"t{number % 4}"
        write(tmp_path, [effect([number], tenant=tenant, start=number)], wave=f"w{number}")
    return tmp_path / "visits/_delta_log"


def _home(log):
    return Folder(log.parent, "Delta table visits")


def _told(log, ids):
    table = Library(str(log.parent))
    return {name: table.transaction_version(name) for name in ids}


def test_it_is_what_the_library_says(log):
    ids = IdLog(_home(log)).at(30)
    assert len(ids) == 8
    assert dict(ids) == _told(log, ids)


def test_a_checkpoint_stands_for_the_commits_before_it(log):
    before = dict(IdLog(_home(log)).at(30))
    table = Library(str(log.parent))
    table.create_checkpoint()
    for number in range(31):
        (log / f"{number:020d}.json").unlink()
    assert dict(IdLog(_home(log)).at(30)) == before


def test_who_is_far_behind_begins_at_a_checkpoint(log, monkeypatch):
    behind = IdLog(_home(log))
    behind.at(3)
    Library(str(log.parent)).create_checkpoint()
    for number in range(20):
        (log / f"{number:020d}.json").unlink()
    ids = behind.at(30)
    assert dict(ids) == _told(log, ids)


def test_of_a_long_log_only_what_follows_the_checkpoint_is_read(log, monkeypatch):
    Library(str(log.parent)).create_checkpoint()
    monkeypatch.setattr(marks, "_MOST_COMMITS", 10)
    monkeypatch.setattr(marks, "commit_path", lambda *_: pytest.fail("a commit was read"))
    assert len(IdLog(_home(log)).at(30)) == 8


def test_a_log_with_a_gap_is_no_log(log):
    (log / f"{7:020d}.json").unlink()
    with pytest.raises(SinkUnavailable, match="are not there"):
        IdLog(_home(log)).at(30)


def test_a_log_as_of_an_earlier_commit_knows_nothing_of_later_ones(log):
    ids = mark_ids(site(log).connections.installation, LaneId("copy", "t0", "t0.visits[0]"))
    assert ids.mark(IdLog(_home(log)).at(5), "w4") == LaneMark(13, "w4")
    assert ids.mark(IdLog(_home(log)).at(5), "w8").wave_id == "another"
    assert ids.mark(IdLog(_home(log)).at(9), "w8.3") == LaneMark(17, "w8.3")


def test_what_others_keep_in_the_log_is_no_matter():
    text = b'{"commitInfo":{"a":"txn"}}\n{"txn":{"appId":"spark","version":3}}\n'
    assert list(marks._ids_in(text + b'{ "txn": {"appId": "headrace/a", "version": 4}}\n')) == [
        ("headrace/a", 4)
    ]


def test_the_newest_whole_checkpoint_is_taken():
    one, two = f"{10:020d}.checkpoint", f"{20:020d}.checkpoint"
    parts = [f"{two}.{n:010d}.{2:010d}.parquet" for n in (1, 2)]
    names = [f"{one}.parquet", parts[0], f"{30:020d}.checkpoint.parquet", "_last_checkpoint"]
    assert marks._newest_checkpoint(names, 25) == (10, [f"{one}.parquet"])
    assert marks._newest_checkpoint([*names, parts[1]], 25) == (20, parts)
    assert marks._newest_checkpoint(names, 5) is None


def test_lanes_whose_names_look_alike_have_ids_of_their_own():
    lanes = [LaneId("a/b", "c", "d[0]"), LaneId("a", "b/c", "d[0]"), LaneId("a", "b", "c/d[0]")]
    assert len({mark_ids("i", lane) for lane in lanes}) == 3
    assert len({wave_number(wave) for wave in ("a", "b", "a1", "1a")}) == 4
    assert 0 <= wave_number("w") < 2**63
