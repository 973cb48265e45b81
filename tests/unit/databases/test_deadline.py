"""What is connected to by a second of the clock."""

import math
import threading
import time

import pytest

from headrace.databases.deadline import Deadline


def test_who_is_late_finds_that_nobody_waits_and_closes_what_it_made():
    deadline, closed, may = Deadline(), threading.Event(), threading.Event()

    class Late:
        def close(self):
            closed.set()

    def connect():
        may.wait(10)
        return Late()

    with deadline.until(time.monotonic() + 0.1), pytest.raises(TimeoutError):
        deadline.connected(connect)
    may.set()
    assert closed.wait(10)


@pytest.mark.parametrize("until_s", [math.inf, 0.0], ids=["no end", "an end"])
def test_where_memory_is_too_short_for_a_thread_it_is_connected_to_all_the_same(
    monkeypatch, until_s
):
    def none_more(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_more)
    deadline = Deadline()
    with deadline.until(until_s):
        assert deadline.connected(lambda: "connected") == "connected"
