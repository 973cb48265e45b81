"""What a worker shares with nobody, tried in processes that are made for it."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import get_context

import pytest

from headrace.spark.own_process import end_behind_task, keep_to_itself, take_group

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel is to end workers")
SOON_S = 10


class Worker:
    """A worker with a connection, as Spark makes them; ended by what it does."""

    def __init__(self, act):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            with suppress(BaseException):
                main(theirs.makefile("rb"), theirs.makefile("wb"), act)
            os._exit(9)
        theirs.close()
        ours.settimeout(SOON_S)
        self.connection = ours

    def said(self):
        """All that it said, until nobody has the connection."""
        with self.connection:
            found = b"".join(iter(lambda: self.connection.recv(1_000), b""))
        os.waitpid(self.pid, 0)
        return found


def main(infile, outfile, act):
    """As Spark's own is named, and what it is given."""
    keep_to_itself()
    act(outfile)


def test_a_child_does_not_keep_the_connection_of_its_worker_open():
    def act(outfile):
        outfile.write(b"begun")
        outfile.flush()
        if os.fork() == 0:
            time.sleep(2 * SOON_S)
        os._exit(3)

    assert Worker(act).said() == b"begun"


def test_what_a_child_writes_at_its_end_is_not_said_to_spark():
    def act(outfile):
        outfile.write(b"half of a ")
        child = os.fork()
        if child == 0:
            outfile.flush()
            os._exit(0)
        os.waitpid(child, 0)
        outfile.write(b"receipt")
        outfile.flush()

    assert Worker(act).said() == b"half of a receipt"


def test_pools_and_programs_work_as_ever_and_the_worker_keeps_its_connection():
    def act(outfile):
        with get_context("fork").Pool(2) as pool:
            outfile.write(b"%d " % sum(pool.map(abs, [-1, -2])))
        command = [sys.executable, "-c", "print(3)"]
        outfile.write(subprocess.check_output(command, close_fds=False))
        outfile.write(subprocess.check_output(command, preexec_fn=os.getpid))
        outfile.flush()

    assert Worker(act).said() == b"3 3\n3\n"


def test_a_child_has_files_of_its_own_where_its_worker_had_the_connection():
    """The file object of the worker is there in the child, and closes its number some day."""

    def act(outfile):
        child = os.fork()
        if child == 0:
            mine = os.pipe()
            outfile.close()
            os._exit(0 if os.write(mine[1], b"x") == 1 else 1)
        outfile.write(b"%d" % os.waitpid(child, 0)[1])
        outfile.flush()

    assert Worker(act).said() == b"0"


def daemon(then):
    """The pid of a process, and of its child that took a group of its own and works on."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        worker = os.fork()
        if worker == 0:
            take_group()
            os.write(tells, b"%d %d" % (os.getpid(), os.getpgrp()))
            then()
            time.sleep(2 * SOON_S)
            os._exit(0)
        signal.pause()
        os._exit(0)
    worker, group = map(int, os.read(told, 100).split())
    os.close(told)
    os.close(tells)
    return pid, worker, group


def is_over(pid):
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
    return True


def ends(pid):
    end_s = time.monotonic() + SOON_S
    while not is_over(pid) and time.monotonic() < end_s:
        time.sleep(0.01)
    return is_over(pid)


def test_who_signals_its_group_reaches_no_daemon():
    pid, worker, group = daemon(lambda: os.killpg(0, signal.SIGKILL))
    assert group == worker
    assert ends(worker)
    assert not is_over(pid)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_with_a_group_of_its_own_ends_with_its_daemon(number):
    pid, worker, _ = daemon(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    os.kill(pid, number)
    os.waitpid(pid, 0)
    assert ends(worker)


def test_where_there_is_no_daemon_the_group_stays():
    before = os.getpgrp()
    keep_to_itself()
    assert os.getpgrp() == before


def test_a_worker_that_is_to_end_does_so_between_two_tasks_only():
    """Spark's daemon collects garbage there; so may the task itself, before it has said all."""
    between = "def manager():\n    import gc\n    gc.collect()\n"

    def act(outfile):
        end_behind_task()
        gc.collect()
        outfile.write(b"said")
        outfile.flush()
        called = {"__name__": "__main__"}
        exec(between, called)
        called["manager"]()
        outfile.write(b"and went on")

    assert Worker(act).said() == b"said"
