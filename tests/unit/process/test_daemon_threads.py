"""Threads that wait for jobs: used again, and left behind if they never come back."""

import queue
import subprocess
import sys
import threading
import time

import pytest

from headrace.process.daemon_threads import DaemonThreads
from headrace.testing.engine_contract.begun import eventually

#: a call that comes back does so within this time, also on a machine that has much else to do
PATIENCE_S = 60


def test_a_thread_that_is_free_is_used_again():
    threads = DaemonThreads(10, "wave")
    names = {threads.submit(lambda: threading.current_thread().name).result(PATIENCE_S)}
    for _ in range(50):
        # Its call counts as over a moment after it is done.
        assert eventually(lambda: not threads._pending)
        names.add(threads.submit(lambda: threading.current_thread().name).result(PATIENCE_S))
    assert names == {"headrace-wave-1"}
    assert threads.close(PATIENCE_S)


def test_calls_that_follow_each_other_closely_need_no_more_threads():
    """A driver starts a wave while the thread of the last one is about to be free.

    How many such threads there are at once is the machine's to say: on a busy one many wait for a
    processor. So they are counted, a moment longer than they are busy.
    """
    threads, over, ended = DaemonThreads(1_000, "wave"), queue.SimpleQueue(), queue.SimpleQueue()
    begun = most = 0

    def begin():
        nonlocal begun, most
        begun += 1
        most = max(most, begun - ended.qsize())
        threads.submit(lambda: over.put(time.sleep(0.0001))).add_done_callback(ended.put)
        assert threads._threads <= most

    for _ in range(4):
        begin()
    for _ in range(4_000):
        over.get(timeout=PATIENCE_S)
        begin()
    assert threads.close(PATIENCE_S)


def test_calls_run_at_once_up_to_the_most_and_the_rest_wait():
    threads, gate, both = DaemonThreads(2, "wave"), threading.Event(), threading.Barrier(3)

    def waits():
        both.wait(PATIENCE_S)
        return gate.wait(PATIENCE_S)

    running = [threads.submit(waits) for _ in range(2)]
    both.wait(PATIENCE_S)
    third = threads.submit(lambda: threading.current_thread().name)
    assert not third.done()
    gate.set()
    assert [future.result(PATIENCE_S) for future in running] == [True, True]
    assert third.result(PATIENCE_S) in ("headrace-wave-1", "headrace-wave-2")
    assert threads.close(PATIENCE_S)


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_call_raises_is_told_and_its_thread_goes_on(raised):
    threads = DaemonThreads(1, "wave")

    def raises():
        raise raised("no")

    assert isinstance(threads.submit(raises).exception(PATIENCE_S), raised)
    assert threads.submit(lambda: 1).result(PATIENCE_S) == 1
    assert threads.close(PATIENCE_S)


def no_thread(_thread):
    raise RuntimeError("can't start new thread")


def test_where_no_thread_could_be_started_for_a_moment_the_next_call_is_made(monkeypatch):
    threads, made = DaemonThreads(1, "wave"), []
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.submit(made.append, "refused")
    threads.submit(made.append, "taken").result(PATIENCE_S)
    assert made == ["taken"]
    assert threads.close(PATIENCE_S)


def test_where_one_more_thread_cannot_be_started_those_there_make_the_call(monkeypatch):
    threads, gate = DaemonThreads(2, "wave"), threading.Event()
    first = threads.submit(gate.wait, PATIENCE_S)
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", no_thread)
        second = threads.submit(str, "made")
    gate.set()
    assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (True, "made")
    assert threads.close(PATIENCE_S)


def test_closing_waits_for_what_runs_and_ends_the_threads():
    threads, gate = DaemonThreads(3, "wave"), threading.Event()
    before = threading.active_count()
    done = [threads.submit(lambda: gate.wait(PATIENCE_S)) for _ in range(3)]
    threading.Timer(0.05, gate.set).start()
    assert threads.close(PATIENCE_S)
    assert all(future.done() for future in done)
    for thread in threading.enumerate():
        if thread.name.startswith("headrace-wave-"):
            thread.join(PATIENCE_S)
    assert threading.active_count() <= before


def test_what_never_comes_back_is_left_behind():
    threads, gate = DaemonThreads(3, "wave"), threading.Event()
    threads.submit(lambda: gate.wait(60))
    assert not threads.close(0.05)
    gate.set()


NEVER = """
import threading
from headrace.process.daemon_threads import DaemonThreads

threads = DaemonThreads(2, "wave")
threads.submit(threading.Event().wait)
print("left behind" if not threads.close(0.1) else "came back")
"""


def test_a_process_with_a_thread_that_never_comes_back_ends_all_the_same():
    command = [sys.executable, "-c", NEVER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == "left behind\n"
