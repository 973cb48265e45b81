"""A worker that does not see the driver's own file does nothing of what writes below it."""

import os
import shutil
import threading
import time

import pytest
from task_bench import ListSink, with_tenant

from headrace.errors import FolderNotShared
from headrace.ports import needs_shared_folder
from headrace.sinks import KafkaTopic, ParquetFiles
from headrace.spark import shared_folder
from headrace.spark.shared_folder import Sentinel


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    monkeypatch.setattr(shared_folder, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(shared_folder, "_LOOK_EVERY_S", 0.01)


@pytest.fixture
def sentinel(tmp_path):
    made = Sentinel(str(tmp_path / "files"), "token-of-this-start")
    made.keep()
    return made


def elsewhere(sentinel, tmp_path):
    """The same sentinel, as an executor with another disk at that place looks for it."""
    (tmp_path / "other").mkdir(exist_ok=True)
    return Sentinel(str(tmp_path / "other"), sentinel.token)


def test_who_sees_the_file_goes_on(sentinel):
    sentinel.check()


def test_who_has_another_disk_is_told_the_machine_the_folder_and_what_to_do(sentinel, tmp_path):
    with pytest.raises(FolderNotShared) as caught:
        elsewhere(sentinel, tmp_path).check()
    told = str(caught.value)
    assert f"executor on {os.uname().nodename}" in told
    assert f"{tmp_path / 'other'} is not the folder that the driver has there" in told
    assert "mount the driver's file system there" in told


def test_a_folder_that_is_not_there_at_all_is_not_shared(sentinel, tmp_path):
    with pytest.raises(FolderNotShared):
        Sentinel(str(tmp_path / "nowhere"), sentinel.token).check()
    assert not (tmp_path / "nowhere").exists()


def test_the_file_of_an_earlier_driver_proves_nothing(sentinel, tmp_path):
    """As on a machine where an earlier driver ran, before the folder was to be shared."""
    other = elsewhere(sentinel, tmp_path)
    Sentinel(other.warehouse, "token-of-an-earlier-start").keep()
    with pytest.raises(FolderNotShared):
        other.check()
    other.path.write_text("token-of-an-earlier-start")
    with pytest.raises(FolderNotShared):
        other.check()


def test_who_sees_the_file_late_is_waited_for(sentinel, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_folder, "_PATIENCE_S", 30.0)
    other = elsewhere(sentinel, tmp_path)
    late = threading.Timer(0.05, other.keep)
    late.start()
    other.check()
    late.join()


def test_readers_of_the_warehouse_pass_it_over(sentinel):
    assert sentinel.path.parent.name.startswith("_")


def test_what_somebody_deleted_or_overwrote_is_there_again_for_the_next_wave(sentinel):
    shutil.rmtree(sentinel.path.parent)
    sentinel.keep()
    sentinel.check()
    sentinel.path.write_text("")
    sentinel.keep()
    sentinel.check()
    assert os.listdir(sentinel.path.parent) == [sentinel.path.name]


def test_what_a_driver_left_a_day_ago_is_removed_and_that_of_a_living_one_never(sentinel):
    dead, alive = (Sentinel(sentinel.warehouse, name) for name in ("dead", "alive"))
    day_old_s = sentinel.path.stat().st_mtime - 25 * 3600
    for driver in (dead, alive):
        driver.keep()
        os.utime(driver.path, (day_old_s, day_old_s))
    alive.keep()
    Sentinel(sentinel.warehouse, "next").keep()
    assert not dead.path.exists()
    alive.check()
    sentinel.check()


def test_a_driver_whose_clock_is_days_ahead_of_the_disk_removes_nobodys(sentinel, monkeypatch):
    ahead_s = time.time() + 48 * 3600
    monkeypatch.setattr(time, "time", lambda: ahead_s)
    ahead = Sentinel(sentinel.warehouse, "ahead")
    ahead.keep()
    ahead.check()
    sentinel.check()


def test_a_driver_that_cannot_write_it_says_so(tmp_path):
    (tmp_path / "files").write_text("a file")
    with pytest.raises(FolderNotShared, match=r"files/_headrace/shared-x cannot be written"):
        Sentinel(str(tmp_path / "files"), "x").keep()


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_task_that_does_not_see_it_reads_claims_and_handles_nothing(
    bench, sentinel, tmp_path, guarantee
):
    handled = []

    def handler(table, context):
        handled.append(context.tenant)
        return with_tenant(table, context)

    bench.limits = {"sentinel": elsewhere(sentinel, tmp_path)}
    sink = ListSink()
    receipts = bench.run(sink, handler=handler, guarantee=guarantee)
    assert (handled, sink.written) == ([], [])
    for receipt in receipts:
        assert (receipt.error.code, receipt.error.temporary) == ("FolderNotShared", True)
        assert (receipt.reached, receipt.committed) == (0, False)
    assert [bench.position(name) for name in ("acme", "bolt")] == [0, 0]
    bench.limits = {"sentinel": sentinel}
    assert {told.error for told in bench.run(sink, handler=handler, guarantee=guarantee)} == {None}
    assert sorted(handled) == ["acme", "bolt"]


def test_a_file_sink_asks_for_it_and_no_other(tmp_path):
    assert needs_shared_folder(ParquetFiles("visits"))
    assert not needs_shared_folder(KafkaTopic("{tenant}.out"))
    assert not needs_shared_folder(ListSink())
    assert not needs_shared_folder(None)
