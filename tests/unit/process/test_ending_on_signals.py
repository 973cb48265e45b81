"""What a signal does while something comes up, and after."""

import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from headrace.process import watchdog
from headrace.process.signals import ending_on_signals


@pytest.fixture(autouse=True)
def _pytest_goes_on():
    """Who is asked to end is to be gone some time later, and here that is the test's process."""
    yield
    watchdog.stop()


BOTH = (signal.SIGTERM, signal.SIGINT)


def exit_code_of(coming_up):
    with pytest.raises(SystemExit) as ended, ending_on_signals():
        coming_up()
    return ended.value.code


@pytest.mark.parametrize("number", BOTH)
def test_what_comes_up_is_unwound_and_that_is_no_failure(number):
    closed = []

    def coming_up():
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGTERM)  # does not cut it short
            closed.append("the store")

    assert exit_code_of(coming_up) == 0
    assert closed == ["the store"]


def test_what_breaks_because_it_is_cut_short_is_no_failure():
    def coming_up():
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit as error:
            raise ValueError("Spark does not answer") from error

    assert exit_code_of(coming_up) == 0


def test_an_error_that_nobody_asked_for_is_one():
    with pytest.raises(ValueError, match="wrong"), ending_on_signals():
        raise ValueError("wrong")


def test_a_second_ctrl_c_ends_at_once():
    def coming_up():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), ending_on_signals():
        coming_up()


def test_ctrl_c_that_spark_has_taken_for_itself_is_the_same():
    def coming_up():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    assert exit_code_of(coming_up) == 0


@pytest.mark.parametrize("number", BOTH)
def test_what_is_up_is_asked_to_drain(number):
    asked = []
    with ending_on_signals() as coming_up:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        coming_up.came_up(lambda: asked.append("to drain"), 60)
        signal.raise_signal(number)
    assert asked == ["to drain"]


def test_an_end_that_a_library_kept_for_itself_is_asked_for_again():
    asked = []
    with ending_on_signals() as coming_up:
        with suppress(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        coming_up.came_up(lambda: asked.append("to drain"), 60)
    assert asked == ["to drain"]


def test_the_signals_mean_afterwards_what_they_did():
    before = [signal.getsignal(number) for number in BOTH]
    with ending_on_signals():
        pass
    assert [signal.getsignal(number) for number in BOTH] == before


HANGS = """
import signal, threading
from headrace.process.signals import ending_on_signals

def close_what_never_closes():
    threading.Event().wait()

with ending_on_signals() as coming_up:
    coming_up.came_up(lambda: None, within_s=0.5)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    {while_it_closes}
{after}
"""


@pytest.mark.parametrize(
    ("while_it_closes", "after"),
    [
        ("close_what_never_closes()", ""),
        # Python waits for such a thread when it ends
        ("pass", "threading.Thread(target=close_what_never_closes).start()"),
    ],
)
def test_what_hangs_while_it_ends_says_where_and_is_gone(while_it_closes, after):
    program = HANGS.format(while_it_closes=while_it_closes, after=after)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "in close_what_never_closes" in ended.stderr
