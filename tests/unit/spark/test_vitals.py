"""What a handler may take from its worker, tried in processes that are made for it."""

import faulthandler
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import get_context

import pytest

from headrace.model.streams import LaneId, Slice
from headrace.spark.crash_markers import CrashMarkers
from headrace.spark.load_settings import load_apart
from headrace.spark.vitals import vitals_now

PIECES = tuple(
    Slice(LaneId("keep", name, f"{name}.visits[0]"), f"{name}.visits", 0, 10, 1) for name in "ab"
)
NOFILE = resource.RLIMIT_NOFILE
NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may become somebody else")
on_linux = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux's own")


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


def lower_the_size_of_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def lower_the_time():
    resource.setrlimit(resource.RLIMIT_CPU, (1, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def leave_a_profiler():
    signal.setitimer(signal.ITIMER_PROF, 0.1, 0.1)


def leave_a_timer_of_its_own_time():
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.1)


def leave_threads():
    for _ in range(600):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def leave_some_threads():
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def leave_files():
    try:
        while True:
            os.open(os.devnull, os.O_RDONLY)
    except OSError:
        os.close(500)  # there is room for one more, among those that are left


def close_standard_error():
    os.close(2)


def close_all_three():
    sys.stderr.close()
    os.closerange(0, 3)


def let_others_have_them():
    os.closerange(0, 3)
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)


def speak_with_somebody_as_standard_error():
    os.close(2)
    os.pipe()


def be_kind():
    os.nice(5)


def be_kind_for_good():
    os.nice(5)
    os.setpriority = refuse_priority  # as the kernel does to all but root


def be_idle():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def be_a_batch():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def be_idle_for_good():
    be_idle()
    os.sched_setscheduler = refuse_priority


def be_nobody_for_now():
    os.setgroups([NOBODY])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)


def be_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def be_of_another_group():
    os.setgid(NOBODY)


def refuse_priority(*_):
    raise PermissionError(13, "Permission denied")


def leave_a_watchdog():
    faulthandler.dump_traceback_later(0.1, exit=True)


def writes_and_works(path):
    """A neighbour, who is to blame for nothing."""
    path.with_suffix(".data").write_bytes(b"x" * 100)
    end_s = time.process_time() + 0.3
    while time.process_time() < end_s:
        pass


def three():
    return [(found.st_dev, found.st_ino) for found in map(os.fstat, range(3))]


def after_its_module_was_kind(path, act):
    vitals, kind = vitals_now(), os.nice(3)
    markers = CrashMarkers(path, PIECES, vitals)
    os.setpriority = refuse_priority
    markers.during(PIECES[0], act)
    os._exit(0 if os.nice(0) == kind else 1)


def after_its_module_was_idle(path, act):
    vitals = vitals_now()
    be_idle_for_good()
    CrashMarkers(path, PIECES, vitals).during(PIECES[0], act)
    os._exit(0)


def standing():
    idle = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else None
    return os.nice(0), idle, os.getresuid(), os.getresgid(), os.getgroups()


def after_kindness(path, act):
    before = standing()
    CrashMarkers(path, PIECES, vitals_now()).during(PIECES[0], act)
    os._exit(0 if standing() == before else 1)


def after_with_three(path, act):
    """Whether the three files that every process has are as they were."""
    os.dup2(os.open(path.with_suffix(".err"), os.O_CREAT | os.O_WRONLY), 2)
    before = three()
    markers = CrashMarkers(path, PIECES, vitals_now())
    markers.during(PIECES[0], act)
    os._exit(0 if three() == before else 1)


def after_a_failure(path, act):
    before = three()
    markers = CrashMarkers(path, PIECES, vitals_now())
    with suppress(ValueError):
        markers.during(PIECES[0], act)
    os._exit(0 if three() == before else 1)


def after_neighbour(path, act):
    before = resource.getrlimit(resource.RLIMIT_CPU)
    markers = CrashMarkers(path, PIECES, vitals_now())
    markers.during(PIECES[0], act)
    markers.during(PIECES[1], lambda: writes_and_works(path))
    os._exit(0 if resource.getrlimit(resource.RLIMIT_CPU) == before else 1)


def after_an_import(path, act):
    load_apart(act)
    writes_and_works(path)
    os._exit(0)


def after_bins(path, act):
    """The same slice again and again, each time in a bin of its own."""
    for _ in range(10):
        CrashMarkers(path, PIECES, vitals_now()).during(PIECES[1], act)
    os._exit(0)


def after(path, act):
    """The limit and the markers that there are after a call that acts."""
    resource.setrlimit(NOFILE, (4096, resource.getrlimit(NOFILE)[1]))
    markers = CrashMarkers(path, PIECES, vitals_now())
    markers.during(PIECES[0], lambda: None)
    markers.during(PIECES[1], act)
    os._exit(0 if resource.getrlimit(NOFILE)[0] == (4097 if act is raise_one else 4096) else 1)


def status_of(path, act, then=after):
    process = get_context("fork").Process(target=then, args=(path, act))
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.parametrize(
    "act",
    [
        close_all,
        close_all_and_open_others,
        lower_for_good,
        leave_threads,
        leave_files,
        speak_with_somebody_as_standard_error,
        be_kind_for_good,
        pytest.param(be_idle_for_good, marks=on_linux),
        pytest.param(be_nobody, marks=as_root),
    ],
)
def test_a_worker_that_is_of_no_use_any_more_ends_and_its_marker_names_the_call(tmp_path, act):
    assert status_of(tmp_path / "marker", act) == 71
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == {PIECES[1]}


def test_threads_that_are_left_in_one_bin_after_the_other_end_the_worker_as_well(tmp_path):
    assert status_of(tmp_path / "marker", leave_some_threads, after_bins) == 71
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == {PIECES[1]}


@pytest.mark.parametrize(
    "act", [close_standard_error, close_all_three, let_others_have_them, os.getpid]
)
def test_standard_files_that_were_closed_are_there_again(tmp_path, act):
    """Or the next connection would get their number, and a neighbour's words."""
    assert status_of(tmp_path / "marker", act, after_with_three) == 0
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == frozenset()


@pytest.mark.parametrize("act", [lower, raise_one, os.getpid])
def test_a_limit_that_was_lowered_is_raised_again_and_one_that_was_raised_stays(tmp_path, act):
    assert status_of(tmp_path / "marker", act) == 0
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == frozenset()


@pytest.mark.parametrize(
    "act",
    [
        lower_the_size_of_files,
        lower_the_time,
        leave_a_profiler,
        leave_a_timer_of_its_own_time,
        leave_a_watchdog,
    ],
)
def test_what_a_call_leaves_behind_ends_no_worker_in_the_call_of_a_neighbour(tmp_path, act):
    assert status_of(tmp_path / "marker", act, after_neighbour) == 0
    assert CrashMarkers(tmp_path / "marker", PIECES).killers == frozenset()


@pytest.mark.parametrize("act", [leave_a_profiler, leave_a_timer_of_its_own_time, leave_a_watchdog])
def test_what_an_import_leaves_behind_ends_its_process_no_more_than_a_call_does(tmp_path, act):
    assert status_of(tmp_path / "marker", act, after_an_import) == 0


def test_a_call_that_raises_is_looked_after_as_well(tmp_path):
    def act():
        os.close(2)
        raise ValueError

    assert status_of(tmp_path / "marker", act, after_a_failure) == 0


def test_a_profiler_that_ran_before_a_call_runs_on():
    signal.setitimer(signal.ITIMER_PROF, 500.0)
    try:
        assert vitals_now().are_there()
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 400
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def test_a_child_does_not_take_its_parents_file_for_its_own():
    mine = vitals_now()
    with get_context("fork").Pool(1) as pool:
        assert pool.apply(vitals_now).behind != mine.behind
    assert mine.are_there()
    assert vitals_now().file == mine.file


@as_root
@pytest.mark.parametrize("act", [be_kind, be_nobody_for_now, be_of_another_group])
def test_a_worker_that_a_call_made_less_for_all_to_come_is_as_before(tmp_path, act):
    assert status_of(tmp_path / "marker", act, after_kindness) == 0


@on_linux
@pytest.mark.parametrize("act", [be_idle, be_a_batch])
def test_a_worker_that_a_call_had_served_after_all_others_is_served_as_before(tmp_path, act):
    assert status_of(tmp_path / "marker", act, after_kindness) == 0


@pytest.mark.parametrize(
    "module",
    [after_its_module_was_kind, pytest.param(after_its_module_was_idle, marks=on_linux)],
)
def test_nobody_is_to_blame_for_a_module_that_makes_its_worker_slow(tmp_path, module):
    """It does so once, when it is imported; then any call would be named."""
    assert status_of(tmp_path / "marker", os.getpid, module) == 0
