"""A thread beside the turns is left behind when its time is over, and keeps no process alive."""

import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError

import pytest

from headrace.cycle.beside import ended, one_thread


def test_calls_are_made_one_after_the_other_and_told():
    thread = one_thread("test")
    first, second = thread.submit(lambda: threading.current_thread().name), thread.submit(int, "x")
    assert first.result(60) == "headrace-test"
    with pytest.raises(ValueError, match="invalid literal"):
        second.result(60)
    thread.shutdown()
    with pytest.raises(RuntimeError, match="headrace-test takes no calls any more"):
        thread.submit(int)


def test_a_call_that_hangs_is_waited_for_no_longer_than_told():
    thread, free = one_thread("test"), threading.Event()
    running, waiting = thread.submit(free.wait), thread.submit(int)
    began_s = time.monotonic()
    assert not ended(thread, [running, waiting, None], time.monotonic() + 0.05)
    assert time.monotonic() - began_s < 60.0
    with pytest.raises(CancelledError):
        waiting.result(60)
    free.set()
    assert running.result(60)


def test_what_is_over_is_not_waited_for():
    thread = one_thread("test")
    call = thread.submit(int)
    assert ended(thread, [call], time.monotonic() + 60)


def test_a_process_ends_beside_a_call_that_hangs():
    code = """
import time
from headrace.cycle.beside import one_thread
one_thread("test").submit(time.sleep, 600)
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
