"""Knowing at which slice a worker died."""

import os
import signal
import tempfile
import time

import pytest

from headrace.errors import TaskLost
from headrace.model.streams import LaneId, Slice
from headrace.spark import crash_markers
from headrace.spark.crash_markers import (
    CrashMarkers,
    crash_markers_of,
    ended_at_loading,
    processes_of,
)

SLICES = tuple(
    Slice(LaneId("keep", name, f"{name}.visits[0]"), f"{name}.visits", 0, 9, 1) for name in "abc"
)


def die_at(path, piece):
    """A process that ends without a word in the middle of a call."""
    child = os.fork()
    if child == 0:
        CrashMarkers(path, SLICES).during(piece, lambda: os._exit(9))
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:This process")
def test_the_next_attempt_knows_where_the_last_one_died(tmp_path):
    path = tmp_path / "marker"
    die_at(path, SLICES[1])
    again = CrashMarkers(path, SLICES)
    assert again.killers == {SLICES[1]}
    again.close()
    assert not path.exists()


@pytest.mark.filterwarnings("ignore:This process")
def test_every_attempt_adds_to_what_is_known(tmp_path):
    path = tmp_path / "marker"
    die_at(path, SLICES[2])
    die_at(path, SLICES[0])
    assert CrashMarkers(path, SLICES).killers == {SLICES[0], SLICES[2]}


def test_a_call_that_comes_back_leaves_nothing_even_if_it_raises(tmp_path):
    path = tmp_path / "marker"
    made = CrashMarkers(path, SLICES)
    assert made.during(SLICES[0], lambda: 7) == 7
    with pytest.raises(KeyError):
        made.during(SLICES[1], lambda: {}["x"])
    assert CrashMarkers(path, SLICES).killers == frozenset()


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.usefixtures("folder")
def test_who_ended_while_it_loaded_code_was_at_no_slice():
    assert ended_at_loading("w1") == []
    child = os.fork()
    if child == 0:
        crash_markers_of("w1", "0", SLICES).loading(lambda: os._exit(9))
    os.waitpid(child, 0)
    loaded, done = crash_markers_of("w1", "1", SLICES), crash_markers_of("w1", "2", SLICES)
    assert loaded.loading(lambda: 7) == 7
    done.close()
    assert sorted(ended_at_loading("w1")) == [False, True]
    assert crash_markers_of("w1", "0", SLICES).killers == frozenset()
    assert ended_at_loading("w1") == [False, False]
    assert ended_at_loading("w2") == []


def test_a_torn_file_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "marker"
    path.write_bytes(b"\x01\x00\x00\x00\x07\x00\x00\x00\x02\x00\x00\x00")
    assert CrashMarkers(path, SLICES).killers == {SLICES[1]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where markers are, of this test alone."""
    monkeypatch.setattr(crash_markers, "_TEMPORARY", tmp_path)


@pytest.mark.usefixtures("folder")
def test_a_job_knows_the_processes_that_began_a_task_of_it_and_did_not_come_to_its_end():
    done, running = crash_markers_of("w1", "0", SLICES), crash_markers_of("w1", "1", SLICES)
    crash_markers_of("w2", "0", SLICES)
    done.close()
    assert processes_of("w1") == {os.getpid()}
    running.close()
    assert processes_of("w1") == set()


@pytest.mark.usefixtures("folder")
def test_a_handler_that_has_another_temporary_directory_takes_no_marker_there(
    tmp_path, monkeypatch
):
    (tmp_path / "its own").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "its own"))
    crash_markers_of("w1", "0", SLICES)
    assert not list((tmp_path / "its own").iterdir())
    assert processes_of("w1") == {os.getpid()}


@pytest.mark.usefixtures("folder")
def test_no_task_begins_of_a_job_that_is_over():
    assert processes_of("w1") == set()
    with pytest.raises(TaskLost, match="w1 is over"):
        crash_markers_of("w1", "0", SLICES)
    assert processes_of("w1") == set()
    crash_markers_of("w2", "0", SLICES).close()


def test_markers_of_tasks_that_never_came_back_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(crash_markers, "_TEMPORARY", tmp_path)
    monkeypatch.setattr(crash_markers, "_swept_at_s", float("-inf"))
    crash_markers_of("w1", "0", SLICES)
    (left,) = tmp_path.glob("*/*")
    assert left.parent.stat().st_mode & 0o777 == 0o700
    old_s = time.time() - 7200
    os.utime(left, (old_s, old_s))
    monkeypatch.setattr(crash_markers, "_swept_at_s", float("-inf"))
    crash_markers_of("w2", "0", SLICES)
    assert not left.exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.filterwarnings("ignore:This process")
def test_markers_of_a_task_that_still_runs_are_kept_however_old_they_are(tmp_path, monkeypatch):
    begun = os.pipe()
    child = os.fork()
    if child == 0:
        made = crash_markers_of("w1", "0", SLICES)
        made.during(SLICES[1], lambda: (os.write(begun[1], b"."), time.sleep(60)))
        os._exit(0)
    try:
        os.read(begun[0], 1)
        (marker,) = tmp_path.glob("*/*")
        os.utime(marker, (1.0, 1.0))
        monkeypatch.setattr(crash_markers, "_swept_at_s", float("-inf"))
        crash_markers_of("w2", "0", SLICES)
        assert processes_of("w1") == {child}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.utime(marker, (1.0, 1.0))
    monkeypatch.setattr(crash_markers, "_swept_at_s", float("-inf"))
    crash_markers_of("w2", "1", SLICES)
    assert not marker.exists()


def as_it_is_named(tmp_path):
    return tmp_path / f"headrace-markers-{os.getuid()}"


@pytest.mark.usefixtures("folder")
def test_a_link_at_the_place_of_the_folder_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    as_it_is_named(tmp_path).symlink_to(elsewhere)
    with pytest.raises(TaskLost, match="no folder of ours"):
        crash_markers_of("w1", "0", SLICES)
    with pytest.raises(PermissionError, match="no folder of ours"):
        processes_of("w1")
    assert not [*elsewhere.iterdir()]


@pytest.mark.usefixtures("folder")
def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    as_it_is_named(tmp_path).mkdir(mode=0o777)
    us = os.getuid()
    as_it_is_named(tmp_path).rename(tmp_path / f"headrace-markers-{us + 1}")
    monkeypatch.setattr(crash_markers.os, "getuid", lambda: us + 1)
    with pytest.raises(TaskLost, match="no folder of ours"):
        crash_markers_of("w1", "0", SLICES)


@pytest.mark.usefixtures("folder")
def test_a_file_at_the_place_of_the_folder_is_told(tmp_path):
    as_it_is_named(tmp_path).write_text("")
    with pytest.raises(TaskLost, match="no folder of ours"):
        crash_markers_of("w1", "0", SLICES)


@pytest.mark.usefixtures("folder")
def test_a_folder_of_ours_that_others_may_enter_is_closed(tmp_path):
    as_it_is_named(tmp_path).mkdir()
    as_it_is_named(tmp_path).chmod(0o777)
    crash_markers_of("w1", "0", SLICES)
    assert as_it_is_named(tmp_path).stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("folder")
def test_only_what_we_made_is_swept(tmp_path, monkeypatch):
    crash_markers_of("w1", "0", SLICES)
    (marker,) = tmp_path.glob("*/*")
    target = tmp_path / "target"
    target.write_text("somebody's")
    link, note = marker.with_name(f"{'b' * 32}-over"), marker.with_name("notes.txt")
    link.symlink_to(target)
    note.write_text("somebody's")
    for path in (marker, target, note):
        os.utime(path, (1.0, 1.0))
    os.utime(link, (1.0, 1.0), follow_symlinks=False)
    monkeypatch.setattr(crash_markers, "_swept_at_s", float("-inf"))
    crash_markers_of("w2", "0", SLICES)
    assert not marker.exists()
    assert all(os.path.lexists(path) for path in (target, link, note))
