"""Ending calls that take too long."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from headrace.spark.timeouts import CallOverdue, bounded


def test_a_quick_call_returns_its_value():
    assert bounded(lambda: 7, 5.0) == 7


def test_a_call_that_waits_is_ended():
    began = time.monotonic()
    with pytest.raises(CallOverdue):
        bounded(lambda: time.sleep(60), 0.02)
    assert time.monotonic() - began < 5


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
        assert bounded(lambda: 7, 5.0) == 7, "the ring of the call before is over"
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        began = time.monotonic()
        with pytest.raises(CallOverdue):
            bounded(lambda: time.sleep(3), 0.02)
        assert time.monotonic() - began < 2
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
