"""What a handler may take from its worker, tried in processes that are made for it."""

import os
import resource
from multiprocessing import get_context

import pytest

from headrace.model.streams import LaneId, Slice
from headrace.spark.crash_markers import CrashMarkers
from headrace.spark.vitals import vitals_now

PIECES = tuple(Slice(LaneId("keep", name, 0), f"{name}.visits", 0, 10, 1) for name in "ab")
NOFILE = resource.RLIMIT_NOFILE


def close_all():
    os.closerange(3, 4096)


def close_all_and_open_others():
    os.closerange(3, 4096)
    for _ in range(64):
        os.open(os.devnull, os.O_RDONLY)


def lower():
    resource.setrlimit(NOFILE, (3, resource.getrlimit(NOFILE)[1]))


def lower_for_good():
    resource.setrlimit(NOFILE, (3, 3))
    resource.setrlimit = refuse  # as the kernel does to all but root


def refuse(_number, _limits):
    raise ValueError("not allowed to raise maximum limit")


def raise_one():
    resource.setrlimit(NOFILE, (resource.getrlimit(NOFILE)[0] + 1,) * 2)


def after(path, act):
    """The limit and the markers that there are after a call that acts."""
    resource.setrlimit(NOFILE, (1024, resource.getrlimit(NOFILE)[1]))
    markers = CrashMarkers(path, PIECES, vitals_now())
    markers.during(PIECES[0], lambda: None)
    markers.during(PIECES[1], act)
    os._exit(0 if resource.getrlimit(NOFILE)[0] == (1025 if act is raise_one else 1024) else 1)


def status_of(path, act):
    process = get_context("fork").Process(target=after, args=(path, act))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize("act", [close_all, close_all_and_open_others, lower_for_good])
def test_a_worker_that_is_of_no_use_any_more_ends_and_its_marker_names_the_call(tmp_path, act):
    assert status_of(tmp_path / "marker", act) == 71
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == {PIECES[1]}


@pytest.mark.parametrize("act", [lower, raise_one, os.getpid])
def test_a_limit_that_was_lowered_is_raised_again_and_one_that_was_raised_stays(tmp_path, act):
    assert status_of(tmp_path / "marker", act) == 0
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == frozenset()


def test_a_child_does_not_take_its_parents_file_for_its_own():
    mine = vitals_now()
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(vitals_now).behind != mine.behind
    assert mine.are_there()
    assert vitals_now().file == mine.file
