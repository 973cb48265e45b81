"""Ending calls that take too long."""

import gc
import importlib
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import pytest

from headrace.spark.timeouts import CallOverdue, bounded, guarded


def test_a_quick_call_returns_its_value():
    assert bounded(lambda: 7, 60.0) == 7


def test_a_call_that_waits_is_ended():
    began = time.monotonic()
    with pytest.raises(CallOverdue):
        bounded(lambda: time.sleep(60), 0.02)
    assert time.monotonic() - began < 50


def test_a_call_that_spins_is_ended():
    def spin() -> None:
        while True:
            pass

    with pytest.raises(CallOverdue):
        bounded(spin, 0.02)


def test_a_call_that_swallows_exceptions_is_ended():
    def stubborn() -> None:
        for _ in range(1):
            try:
                time.sleep(60)
            except BaseException:
                time.sleep(60)

    with pytest.raises(CallOverdue):
        bounded(stubborn, 0.02)


def test_one_that_rings_before_the_call_has_begun_ends_it_and_rings_no_more(monkeypatch):
    """As in a process that the machine leaves aside just then."""
    monotonic = time.monotonic

    def late():
        monkeypatch.setattr(time, "monotonic", monotonic)
        until_s = monotonic() + 0.05
        while monotonic() < until_s:
            pass
        return monotonic()

    before, began = signal.getsignal(signal.SIGALRM), []
    monkeypatch.setattr(time, "monotonic", late)
    with pytest.raises(CallOverdue):
        bounded(lambda: (began.append(True), time.sleep(60)), 0.01)
    assert began == [True]
    assert signal.getsignal(signal.SIGALRM) is before


def test_while_an_error_is_told_nothing_is_collected_that_would_swallow_the_end_of_it():
    collected = []

    def note(_phase, _info):
        collected.append(True)

    def makes_much():
        return len([[] for _ in range(20_000)])

    gc.callbacks.append(note)
    try:
        assert guarded(makes_much, lambda: 0) == 20_000
        assert (collected, gc.isenabled()) == ([], True)
        assert guarded(raises_exit, lambda: "said otherwise") == "said otherwise"
        assert gc.isenabled()
    finally:
        gc.callbacks.remove(note)


def raises_exit():
    raise SystemExit


def test_an_import_comes_to_its_end_before_its_call_is_ended(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "half_imported"
    package.mkdir()
    parts = "import time\ntime.sleep(0.3)\nfrom half_imported import inner\nWHOLE = True\n"
    (package / "__init__.py").write_text(parts)
    (package / "inner.py").write_text("import half_imported\n")
    reached = []

    def imports_and_waits():
        importlib.import_module("half_imported")
        reached.append(True)
        time.sleep(60)

    try:
        with pytest.raises(CallOverdue):
            bounded(imports_and_waits, 0.02)
        assert reached, "the import was ended halfway"
        assert sys.modules["half_imported"].WHOLE
    finally:
        for name in ("half_imported", "half_imported.inner"):
            sys.modules.pop(name, None)


def test_a_call_that_a_module_makes_when_it_is_imported_is_ended_all_the_same(
    tmp_path, monkeypatch
):
    """Code that is imported while a call runs it is another thing than the call's own import."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "calls_bounded.py").write_text(
        "import time\nfrom headrace.spark.timeouts import bounded\n"
        "bounded(lambda: time.sleep(60), 0.02)\n"
    )
    with pytest.raises(CallOverdue):
        importlib.import_module("calls_bounded")


def test_an_own_error_passes_through_and_nothing_rings_afterwards():
    with pytest.raises(KeyError):
        bounded(lambda: {}["x"], 0.05)
    assert signal.getsignal(signal.SIGALRM) is not None
    deadline = time.monotonic() + 0.1
    while time.monotonic() < deadline:
        pass


def test_a_call_that_blocks_the_signal_keeps_none_after_it_from_being_ended():
    def deaf() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(0.1)  # it rings, and is not heard, but where another thread hears it

    with suppress(CallOverdue):
        bounded(deaf, 0.02)
    try:
        assert bounded(lambda: 7, 60.0) == 7, "the ring of the call before is over"
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        began = time.monotonic()
        with pytest.raises(CallOverdue):
            bounded(lambda: time.sleep(60), 0.02)
        assert time.monotonic() - began < 50
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})


def test_a_timer_that_was_running_runs_on():
    before = signal.setitimer(signal.ITIMER_REAL, 500.0)
    try:
        bounded(lambda: None, 5.0)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 400 < left <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_the_time_of_calls_within_a_call_is_the_time_of_that_call():
    def many():
        for _ in range(50):
            bounded(lambda: time.sleep(0.1), 1.0)

    began = time.monotonic()
    with pytest.raises(CallOverdue):
        bounded(many, 0.3)
    assert time.monotonic() - began < 2


def test_outside_the_main_thread_the_call_just_runs():
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(bounded(lambda: 3, 0.001)))
    thread.start()
    thread.join()
    assert found == [3]


@pytest.mark.filterwarnings("ignore:This process")
def test_the_child_of_a_call_that_forks_does_not_come_back():
    child = bounded(os.fork, 5.0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
