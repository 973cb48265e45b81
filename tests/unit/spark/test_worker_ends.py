"""A failed job is over when the processes that ran it are dead, which takes a moment."""

import os
import subprocess
import sys
import threading

import pytest

from headrace.spark import worker_ends
from headrace.spark.worker_ends import still_alive


@pytest.fixture
def worker(monkeypatch):
    """A process that ran a task of the job, and lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as made:
        monkeypatch.setattr(worker_ends, "processes_of", lambda _job: {made.pid})
        yield made
        made.kill()


def test_nobody_is_waited_for_where_nobody_ran(monkeypatch):
    monkeypatch.setattr(worker_ends, "processes_of", lambda _job: set())
    assert still_alive("w1") == set()


def test_it_comes_back_when_the_worker_is_dead(worker):
    killer = threading.Timer(0.1, worker.kill)
    killer.start()
    assert still_alive("w1") == set()
    # Nobody has asked yet how it ended, and it is dead all the same.
    assert worker.returncode is None
    killer.join()


def test_who_lives_on_for_ever_is_named(worker):
    assert still_alive("w1", 0.05) == {worker.pid}


def test_a_process_that_never_was_is_dead(monkeypatch):
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ)
    os.waitpid(child, 0)
    monkeypatch.setattr(worker_ends, "processes_of", lambda _job: {child})
    assert still_alive("w1") == set()


def test_a_wave_comes_back_where_nobody_can_be_found(monkeypatch):
    def full(_job):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker_ends, "processes_of", full)
    assert still_alive("w1") == set()


def test_a_wave_comes_back_where_a_marker_names_no_process(monkeypatch):
    monkeypatch.setattr(worker_ends, "processes_of", lambda _job: {-5})
    assert still_alive("w1") == set()
