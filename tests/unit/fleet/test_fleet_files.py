"""What a supervisor leaves in its folder, and what it tells systemd."""

import socket

import pytest

from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ConfigError, ServerError
from headrace.fleet import state_file
from headrace.fleet.logs import KEPT, DriverLog
from headrace.fleet.notify import Systemd
from headrace.fleet.process import DriverProcess, told
from headrace.fleet.state_file import DriverView, FleetView
from headrace.model.statistics import Missing

STORE = Missing("store", 1_700_000_000.0)
DRIVER = DriverView(
    "d-0", "waiting", 7, 1_700_000_000, 2, "exit code 1", 4711, "logs/0.log", (STORE,)
)
VIEW = FleetView("d", 1, "running", 1, False, "", (DRIVER,))


def say(log, text):
    with log.open() as file:
        file.write(text.encode())


def test_the_last_lines_are_those_of_the_newest_process(tmp_path):
    log = DriverLog(tmp_path / "logs" / "0.log")
    say(log, "first life\n")
    assert log.tail() == "first life"
    say(log, "")
    assert log.tail() == ""
    say(log, "a\n\tat java.base/x\nb\n")
    assert log.tail() == "a\nb"


def test_a_large_log_is_rotated_under_its_writer_and_old_ones_go(tmp_path):
    log = DriverLog(tmp_path / "0.log", most_bytes=10)
    with log.open() as writer:
        for turn in range(KEPT + 3):
            writer.write(f"{turn:010}\n".encode())
            writer.flush()
            log.rotate()
        writer.write(b"end\n")
    assert log.path.read_text() == "end\n"
    assert log.tail() == "end"
    kept = [log.path.with_name(f"0.log.{number}").read_text() for number in range(1, KEPT + 1)]
    assert [int(text) for text in kept] == [6, 5, 4, 3]
    assert not log.path.with_name(f"0.log.{KEPT + 1}").exists()


def test_a_small_log_is_left_alone(tmp_path):
    log = DriverLog(tmp_path / "0.log")
    say(log, "x\n")
    log.rotate()
    assert log.path.read_text() == "x\n"


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerError, match=r"file/0\.log cannot be written"):
        DriverLog(tmp_path / "file" / "0.log").open()


def test_the_state_is_read_as_it_was_written(tmp_path):
    assert state_file.read(tmp_path) is None
    state_file.write(tmp_path, VIEW)
    assert state_file.read(tmp_path) == VIEW
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.json"]


def test_a_state_of_somebody_else_is_named(tmp_path):
    (tmp_path / "fleet.json").write_text('{"drivers": [{"colour": "red"}]}')
    with pytest.raises(ConfigError, match=r"fleet\.json cannot be read"):
        state_file.read(tmp_path)


def test_a_supervisor_lives_as_long_as_it_holds_its_folder(tmp_path):
    assert not state_file.lives(tmp_path / "nothing")
    with FolderLock(tmp_path):
        assert state_file.lives(tmp_path)
    assert not state_file.lives(tmp_path)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (75, "exit code 75"), (-9, "ended by SIGKILL"), (-63, "signal 63")],
)
def test_an_end_is_told_in_words(code, words):
    assert words in told(code)


def test_a_command_that_is_not_there_ends_and_says_so(tmp_path):
    log = DriverLog(tmp_path / "0.log")
    process = DriverProcess(["/no/such/driver"], log, tmp_path)
    process._process.wait()
    assert process.ended() == 1
    assert "/no/such/driver cannot be started" in log.tail()


@pytest.fixture
def systemd(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(tmp_path / "notify"))
        door.settimeout(60)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "10000000"}
        yield Systemd(environment), lambda: door.recv(1000).decode()


def test_systemd_is_told_what_changes_only_once(systemd):
    manager, heard = systemd
    manager.status("1 of 2 drivers ready")
    manager.status("1 of 2 drivers ready")
    manager.ready("2 of 2 drivers ready")
    assert heard() == "STATUS=1 of 2 drivers ready"
    assert heard() == "READY=1\nSTATUS=2 of 2 drivers ready"


def test_the_watchdog_is_fed_at_half_of_its_time(systemd):
    manager, heard = systemd
    for second in range(11):
        manager.alive(float(second))
    manager.stopping("end")
    assert [heard() for _ in range(4)] == [*["WATCHDOG=1"] * 3, "STOPPING=1\nSTATUS=end"]


def test_a_roll_is_told_with_the_time_systemd_asks_for(systemd):
    manager, heard = systemd
    manager.reloading()
    first, second = heard().split("\n")
    assert first == "RELOADING=1"
    assert second.removeprefix("MONOTONIC_USEC=").isdigit()


def test_without_systemd_and_with_one_that_is_gone_nothing_happens(tmp_path):
    Systemd({}).ready("x")
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("x")


def test_a_watchdog_meant_for_another_process_is_not_fed(systemd, tmp_path):
    _, heard = systemd
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "10"}
    Systemd({**environment, "WATCHDOG_PID": "1"}).alive(0.0)
    Systemd(environment).ready("x")
    assert heard().startswith("READY=1")
