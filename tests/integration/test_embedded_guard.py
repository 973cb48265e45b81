"""A server never outlives the process that asked for it."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from headrace.embedded import guard
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.errors import ServerError


def eventually(condition, deadline_s=60):
    """Whether ``condition`` comes true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def gone(pid):
    """Whether a process has ended, be it only a zombie whose parent has not looked yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def start(tmp_path):
    started = []

    def make(*command, grace_s=5):
        process = GuardedProcess(command, tmp_path / "log", [], Ending(grace_s))
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()


def guard_of(process):
    return psutil.Process(process.pid).parent()


def test_a_stopped_server_has_ended_on_return(start):
    server = start("sleep", "600")
    assert server.running
    server.stop()
    assert gone(server.pid)
    assert not server.running


def test_a_server_deaf_to_sigterm_is_killed_after_the_grace(start):
    deaf = "trap '' TERM; echo deaf; while true; do sleep 1; done"
    server = start("sh", "-c", deaf, grace_s=0.2)
    assert eventually(lambda: server.tail() == "deaf")
    began_s = time.monotonic()
    server.stop()
    assert gone(server.pid)
    assert time.monotonic() - began_s > 0.2


def test_a_killed_server_is_seen(start):
    server = start("sleep", "600")
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.running)


def test_a_server_dies_with_its_guard(start):
    server = start("sleep", "600")
    guard_of(server).kill()
    assert eventually(lambda: gone(server.pid))


def test_a_terminated_guard_ends_its_server(start):
    server = start("sleep", "600")
    guard_of(server).terminate()
    assert eventually(lambda: gone(server.pid))


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(start):
    server = start("sleep", "600")
    assert os.getpgid(server.pid) != os.getpgid(0)
    guard_of(server).send_signal(signal.SIGINT)
    assert guard_of(server).is_running()
    assert server.running


@pytest.mark.parametrize("keep_pipe", [False, True], ids=["pipe closes", "pipe stays open"])
def test_a_server_ends_when_its_parent_is_killed(keep_pipe):
    # a pipe can stay open after its owner: a child forked from the owner has it too
    pipe, ours = os.pipe()
    script = (
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, {guard.__file__!r}, str(os.getpid()), '5', '15',"
        f" '-', 'sleep', '600'], stdin={pipe})\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        pass_fds=[pipe] if keep_pipe else [pipe, ours],
    )
    os.close(pipe)
    if not keep_pipe:
        os.close(ours)
    with parent:
        server = int(parent.stdout.readline())
        parent.kill()
    assert eventually(lambda: gone(server))
    if keep_pipe:
        os.close(ours)


def test_the_end_of_the_log_is_shown(start, tmp_path):
    server = start("sh", "-c", "seq 1 100000; echo gone >&2; printf '\\tat a.Frame\\n'; exit 3")
    assert eventually(lambda: not server.running)
    assert server.tail().splitlines()[-3:] == ["99999", "100000", "gone"]


def test_a_command_that_is_not_there_is_an_error(start):
    with pytest.raises(ServerError, match="no-such-command cannot be started"):
        start("/no-such-command")
