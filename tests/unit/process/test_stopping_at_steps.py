"""A process stops at the step that a test asked for, and nowhere else."""

import os
import threading
import time

import pytest

from headrace.process import crash_points
from headrace.process.crash_points import GO_ON, VARIABLE, reached


@pytest.fixture
def asked(monkeypatch, tmp_path):
    mark = tmp_path / "mark"
    monkeypatch.setattr(crash_points, "_counts", {})

    def ask(step, number=1):
        monkeypatch.setenv(VARIABLE, f"{step}:{number}:{mark}")
        return mark

    return ask


def stopped(*step):
    """A thread that has come to a step; it ends when the step is passed."""
    thread = threading.Thread(target=reached, args=step, daemon=True)
    thread.start()
    return thread


def wait_for(mark):
    end = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < end
    return mark.read_text()


def test_nothing_happens_unless_asked(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    reached("mid-slice", "score")


def test_it_stops_says_who_it_is_and_goes_on_when_told(asked):
    mark = asked("mid-slice")
    thread = stopped("mid-slice", "score")
    assert wait_for(mark) == str(os.getpid())
    reached("mid-slice", "score")  # one is enough as long as the file is there
    assert thread.is_alive()
    mark.write_text(GO_ON)
    thread.join(60)
    assert not thread.is_alive()


def test_another_step_or_another_use_case_is_passed(asked):
    mark = asked("mid-slice@score")
    reached("sink-written", "score")
    reached("mid-slice", "other")
    assert not mark.exists()
    thread = stopped("mid-slice", "score")
    wait_for(mark)
    mark.write_text(GO_ON)
    thread.join(60)


def test_the_step_is_passed_until_it_was_reached_often_enough(asked):
    mark = asked("planned", 3)
    reached("planned")
    reached("planned")
    assert not mark.exists()
    thread = stopped("planned")
    wait_for(mark)
    mark.write_text(GO_ON)
    thread.join(60)
