"""A real supervisor with processes that stand for drivers: what a user sees when they die."""

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from headrace.embedded.addresses import free_ports
from headrace.fleet import state_file
from headrace.fleet.health import ask
from headrace.model.statistics import Missing

HERE = Path(__file__).parent


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Fleet:
    """A folder, and the supervisor that works in it."""

    def __init__(self, folder):
        self.folder, self.started = folder, []

    def start(self, drivers=2, *words, environment=None, before=(), output=None):
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *before,
                    sys.executable,
                    str(HERE / "fleet_app.py"),
                    str(self.folder),
                    str(drivers),
                    *words,
                ],
                stdout=output or log,
                stderr=output or log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def mode(self, name, what):
        (self.folder / f"{name}.mode").write_text(what)

    def journal(self):
        path = self.folder / "journal"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def states(self):
        view = state_file.read(self.folder / "state")
        return [] if view is None else [driver.state for driver in view.drivers]

    def view(self):
        return state_file.read(self.folder / "state")

    def pid(self, number):
        return self.view().drivers[number].pid

    def until(self, condition, deadline_s=60):
        end = time.monotonic() + deadline_s
        while not condition():
            text = (self.folder / "log").read_text()
            assert time.monotonic() < end, f"{self.states()}\n{self.journal()}\n{text}"
            time.sleep(0.05)

    def until_ready(self, drivers=2):
        self.until(lambda: self.states() == ["ready"] * drivers)


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.wait()
    for _, _, pid in made.journal():
        if not gone(int(pid)):
            os.kill(int(pid), signal.SIGKILL)
    for path in made.folder.glob("*.worker"):
        if not gone(int(path.read_text())):
            os.kill(int(path.read_text()), signal.SIGKILL)


def test_one_that_is_killed_comes_back_and_nothing_of_it_is_left(fleet):
    fleet.start()
    fleet.until_ready()
    first, worker = fleet.pid(0), int((fleet.folder / "fake-0.worker").read_text())
    os.kill(first, signal.SIGKILL)
    fleet.until(lambda: fleet.states() == ["ready", "ready"] and fleet.pid(0) != first)
    assert gone(worker)
    driver = fleet.view().drivers[0]
    assert driver.restarts == 1
    assert "SIGKILL" in driver.error


def test_a_stop_drains_all_and_ends_well(fleet):
    process = fleet.start()
    fleet.until_ready()
    pids = [fleet.pid(0), fleet.pid(1)]
    process.terminate()
    assert process.wait(60) == 0
    assert sorted(line[1] for line in fleet.journal() if line[0] == "drained") == [
        "fake-0",
        "fake-1",
    ]
    assert all(gone(pid) for pid in pids)
    assert not state_file.lives(fleet.folder / "state")


def test_one_deaf_to_sigterm_is_killed_after_the_drains_time(fleet):
    process = fleet.start()
    fleet.mode("fake-1", "deaf")
    fleet.until_ready()
    deaf = fleet.pid(1)
    began_s = time.monotonic()
    process.terminate()
    assert process.wait(60) == 1
    assert time.monotonic() - began_s >= 2
    assert gone(deaf)
    # and whoever asks why it hung finds where
    told = (fleet.folder / "state" / "logs" / "1.log").read_text()
    assert "serve_forever" in told


def test_a_second_signal_ends_at_once(fleet):
    process = fleet.start(1, environment={"DRAIN_S": "120"})
    fleet.mode("fake-0", "deaf")
    fleet.until_ready(1)
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    fleet.until(lambda: fleet.states() == ["draining"])
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert time.monotonic() - began_s < 60


def test_one_that_always_dies_is_given_up_with_its_last_words(fleet):
    fleet.mode("fake-1", "die")
    process = fleet.start()
    fleet.until(lambda: fleet.states() == ["ready", "given up"])
    assert "fake-1 has no wheels" in fleet.view().drivers[1].error
    assert sum(line[:2] == ["started", "fake-1"] for line in fleet.journal()) == 4
    assert process.poll() is None


def test_a_supervisor_whose_drivers_were_all_given_up_ends_and_fails(fleet):
    fleet.mode("fake-0", "config")
    process = fleet.start(1)
    assert process.wait(60) == 1
    assert "given up" in (fleet.folder / "log").read_text()
    # a wrong configuration is not tried twice
    assert len(fleet.journal()) == 1


def test_one_whose_loop_hangs_is_killed_and_started_again(fleet):
    fleet.start(1)
    fleet.until_ready(1)
    first = fleet.pid(0)
    fleet.mode("fake-0", "hang")
    fleet.until(lambda: gone(first))
    fleet.mode("fake-0", "ok")
    fleet.until(lambda: fleet.states() == ["ready"] and fleet.pid(0) != first)
    assert "does not turn" in fleet.view().drivers[0].error


def test_one_that_is_without_its_store_is_not_ready_left_alone_and_told(fleet):
    fleet.start(1)
    fleet.until_ready(1)
    first = fleet.pid(0)
    fleet.mode("fake-0", "no store")
    fleet.until(lambda: fleet.states() == ["waiting"])
    assert fleet.view().drivers[0].missing == (Missing("store", 5.0),)
    fleet.mode("fake-0", "ok")
    fleet.until_ready(1)
    assert (fleet.pid(0), fleet.view().drivers[0].missing) == (first, ())


def test_a_roll_replaces_all_and_one_at_a_time(fleet):
    process = fleet.start(3)
    fleet.until_ready(3)
    before = [fleet.pid(number) for number in range(3)]
    process.send_signal(signal.SIGHUP)
    fleet.until(lambda: fleet.view().rolls == 1 and not fleet.view().rolling)
    after = [fleet.pid(number) for number in range(3)]
    assert not set(before) & set(after)
    # never is one drained before the one before it is there again
    steps = [line[:2] for line in fleet.journal()][3:]
    assert steps == [
        [what, f"fake-{number}"] for number in range(3) for what in ("drained", "started")
    ]


def test_a_roll_stops_at_a_replacement_that_does_not_start(fleet):
    process = fleet.start(2)
    fleet.until_ready()
    kept = fleet.pid(1)
    fleet.mode("fake-0", "config")
    process.send_signal(signal.SIGHUP)
    fleet.until(lambda: fleet.states() == ["given up", "ready"])
    assert fleet.pid(1) == kept
    assert "still run the old version" in fleet.view().roll_error
    fleet.mode("fake-0", "ok")
    process.send_signal(signal.SIGHUP)
    fleet.until(lambda: fleet.view().rolls == 2 and not fleet.view().rolling)
    assert fleet.states() == ["ready", "ready"]
    assert fleet.pid(1) != kept


def test_drivers_of_a_killed_supervisor_drain(fleet):
    process = fleet.start()
    fleet.until_ready()
    pids = [fleet.pid(0), fleet.pid(1)]
    process.kill()
    process.wait()
    fleet.until(lambda: all(gone(pid) for pid in pids))
    assert [line[0] for line in fleet.journal()].count("drained") == 2


def test_the_next_supervisor_begins_when_nothing_of_the_killed_one_runs(fleet):
    first = fleet.start(1)
    fleet.mode("fake-0", "deaf")
    fleet.until_ready(1)
    deaf, worker = fleet.pid(0), int((fleet.folder / "fake-0.worker").read_text())
    first.kill()
    first.wait()
    assert not gone(deaf)
    fleet.start(1)
    fleet.until(lambda: len(fleet.journal()) == 2)
    assert gone(deaf)
    assert gone(worker)
    fleet.until_ready(1)


def test_a_folder_has_one_supervisor(fleet):
    fleet.start(1)
    fleet.until_ready(1)
    assert fleet.start(1).wait(60) != 0
    assert "is in use" in (fleet.folder / "log").read_text()
    assert fleet.states() == ["ready"]


def test_it_tells_systemd_and_whoever_asks_by_http(fleet):
    (port,) = free_ports(1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(fleet.folder / "systemd"))
        door.settimeout(60)
        fleet.mode("fake-0", "never ready")
        environment = {
            "NOTIFY_SOCKET": str(fleet.folder / "systemd"),
            "WATCHDOG_USEC": "500000",
        }
        process = fleet.start(1, str(port), environment=environment)
        fleet.until(lambda: (told := ask(port, "/livez")) and told.status == 200)
        assert ask(port, "/readyz").status == 503
        said = []
        while said.count("WATCHDOG=1") < 2:
            said += door.recv(4096).decode().splitlines()
        assert "READY=1" not in said
        fleet.mode("fake-0", "ok")
        while "READY=1" not in said:
            said += door.recv(4096).decode().splitlines()
        fleet.until(lambda: ask(port, "/readyz").status == 200)
        process.terminate()
        while "STOPPING=1" not in said:
            said += door.recv(4096).decode().splitlines()
    assert process.wait(60) == 0


def first_of_a_container(command):
    """The command as process 1 of a process namespace of its own."""
    return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]


def may_unshare():
    with contextlib.suppress(OSError):
        done = subprocess.run(first_of_a_container(["true"]), capture_output=True, check=False)
        return done.returncode == 0
    return False


@pytest.mark.skipif(not may_unshare(), reason="process namespaces are not allowed here")
def test_as_process_1_of_a_container_it_leaves_no_zombies_and_drains(fleet):
    outer = fleet.start(1, before=first_of_a_container([]))
    fleet.until_ready(1)
    supervisor = psutil.Process(outer.pid).children()[0]
    assert fleet.view().pid == 1
    driver = supervisor.children()[0]
    driver.kill()
    fleet.until(lambda: fleet.view().drivers[0].restarts == 1)
    fleet.until_ready(1)
    # the killed driver's worker became a child of process 1, and was killed
    fleet.until(lambda: len(supervisor.children(recursive=True)) == 2)
    supervisor.terminate()
    assert outer.wait(60) == 0


def test_a_closed_terminal_drains_and_does_not_roll(fleet):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb") as terminal:
        process = fleet.start(1, output=terminal)
    fleet.until_ready(1)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    assert [line[0] for line in fleet.journal()] == ["started", "drained"]
