"""The watchdog of a process: who has set it last, and that it watches again."""

import faulthandler
import subprocess
import sys

import pytest

from headrace.process import watchdog


@pytest.fixture(autouse=True)
def _pytest_goes_on():
    yield
    watchdog.stop()


def stop():
    faulthandler.cancel_dump_traceback_later()


def watch_for_itself():
    faulthandler.dump_traceback_later(1_000, exit=True)


@pytest.mark.parametrize("act", [stop, watch_for_itself])
def test_it_is_known_who_has_taken_it(act):
    watchdog.end_after(1_000, 2)
    assert not watchdog.is_taken()
    act()
    assert watchdog.is_taken()
    watchdog.put_back()
    assert not watchdog.is_taken()


def test_where_nobody_has_asked_for_one_nobody_can_take_it():
    watch_for_itself()
    assert not watchdog.is_taken()


TAKEN = """
import faulthandler, time
from headrace.process import watchdog
{first}
faulthandler.dump_traceback_later({s}, exit=True)
watchdog.put_back()
time.sleep({sleep_s})
print("goes on")
"""


def end_of(**given):
    program = [sys.executable, "-c", TAKEN.format(**given)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, "Timeout (" in done.stderr


def test_the_one_that_was_taken_ends_a_process_that_hangs():
    first = "watchdog.end_after(0.2, 2)"
    assert end_of(first=first, s=1_000, sleep_s=1_000) == (1, "", True)


def test_that_of_somebody_else_ends_nobody():
    assert end_of(first="", s=0.2, sleep_s=1.0) == (0, "goes on\n", False)
