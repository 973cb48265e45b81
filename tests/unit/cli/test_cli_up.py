"""`up` keeps its ports, `down` ends it, and `reset` removes what it kept."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from headrace.cli import down as down_command
from headrace.cli import up as up_command
from headrace.cli.app import app
from headrace.cli.kept_ports import KeptPorts
from headrace.cli.servers import folder_of, remember
from headrace.embedded.addresses import HOST, lasting_port
from headrace.embedded.folder_lock import FolderLock, holder
from headrace.errors import ServerError

KAFKA = "bootstrap.servers"


@contextmanager
def taken(port):
    with socket.create_server((HOST, port)):
        yield


# --- ports


def test_a_server_has_the_same_port_at_every_start(tmp_path):
    ports = KeptPorts(tmp_path)
    first = ports.take("Kafka"), ports.take("PostgreSQL")
    assert first[0] != first[1]
    # A start without one of them, as with another store, makes nothing forgotten.
    KeptPorts(tmp_path).take("Kafka")
    again = KeptPorts(tmp_path)
    assert (again.take("Kafka"), again.take("PostgreSQL")) == first
    assert again.told == f"Kafka {first[0]}, PostgreSQL {first[1]}"


def test_a_taken_port_is_told_with_who_has_it_and_what_to_do(tmp_path):
    port = KeptPorts(tmp_path).take("Kafka")
    with taken(port), pytest.raises(ServerError) as told:
        KeptPorts(tmp_path).take("Kafka")
    assert (
        f"port {port}, kept for the Kafka of this folder, is taken by process {os.getpid()} ("
        in (str(told.value))
    )
    assert f" in {os.getcwd()})" in str(told.value)
    assert "'headrace up --new-ports'" in str(told.value)
    assert KeptPorts(tmp_path).take("Kafka") == port


def test_new_ports_are_others_and_are_kept_from_then_on(tmp_path):
    port = KeptPorts(tmp_path).take("Kafka")
    with taken(port):
        other = KeptPorts(tmp_path, anew=True).take("Kafka")
    assert other != port
    assert KeptPorts(tmp_path).take("Kafka") == other


def test_a_port_that_is_wished_for_is_taken_the_first_time_if_it_is_free(tmp_path):
    free = lasting_port(str(tmp_path))
    assert KeptPorts(tmp_path).take("console", wished=free) == free
    with taken(free):
        other = KeptPorts(tmp_path / "other").take("console", wished=free)
    assert other != free
    assert KeptPorts(tmp_path / "other").take("console", wished=free) == other


def test_ports_of_a_folder_that_an_earlier_version_made_are_kept(tmp_path):
    port = lasting_port("earlier")
    remember(tmp_path, {KAFKA: f"{HOST}:{port}", "database_url": "sqlite:///up.db"})
    assert KeptPorts(tmp_path).take("Kafka") == port


@pytest.mark.parametrize("text", ["{half", "[]", '{"Kafka": null}'])
def test_a_file_that_is_none_is_as_if_there_were_none(tmp_path, text):
    (tmp_path / "ports.json").write_text(text)
    (tmp_path / "servers.json").write_text("{half")
    port = KeptPorts(tmp_path).take("Kafka")
    assert json.loads((tmp_path / "ports.json").read_text()) == {"Kafka": port}


def test_a_port_that_lasts_is_none_that_clients_are_given(tmp_path):
    assert 20_000 <= lasting_port("a") < 32_000
    assert lasting_port("a") == lasting_port("a")
    assert lasting_port("a", {lasting_port("a")}) != lasting_port("a")


# --- down and reset

UP = """
import signal, sys, time
from pathlib import Path
from headrace.embedded.folder_lock import FolderLock
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[2] == "late":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
try:
    with FolderLock(Path(sys.argv[1])):
        print("up", flush=True)
        time.sleep(600)
finally:
    time.sleep(1.0)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "headrace.yaml").write_text("module: use_cases.py\n")
    return tmp_path


@pytest.fixture
def running(folder):
    """A process that stands for `up`."""
    begun = []

    def begin(how="polite"):
        words = [sys.executable, "-c", UP, str(folder_of(folder)), how]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout.readline() == "up\n"
        return process

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


def headrace(folder, *words, **more):
    return CliRunner().invoke(app, [*words, "--config", str(folder / "headrace.yaml")], **more)


def test_down_ends_what_runs_and_says_what_goes_on(folder, running):
    process = running()
    done = headrace(folder, "down")
    assert done.exit_code == 0, done.output
    assert process.wait(60) == -signal.SIGTERM
    assert f"process {process.pid}" in done.output
    assert "'headrace up' goes on" in done.output


def test_down_waits_for_processes_that_have_given_up_the_folder_and_still_end(folder, running):
    process = running("late")
    assert headrace(folder, "down").exit_code == 0
    # It may be no more than what is left of a process while its threads end.
    assert process.wait(0.5) == 0


def test_down_kills_what_does_not_end_in_time(folder, running, monkeypatch):
    asked = []
    monkeypatch.setattr(down_command, "end_leftovers", lambda *given: asked.append(given))
    process = running("deaf")
    done = headrace(folder, "down", "--wait-s", "0.2")
    assert done.exit_code == 1
    assert process.wait(60) == -signal.SIGKILL
    assert "was killed; what was committed is kept" in done.output
    assert asked[0][0] == folder / ".headrace" / "fleet" / "headrace"


def test_down_where_nothing_runs_is_done_already(folder):
    done = headrace(folder, "down")
    assert (done.exit_code, "no 'headrace up' runs here" in done.output) == (0, True)
    assert not folder_of(folder).exists()


def test_reset_refuses_while_up_runs(folder, running):
    running()
    done = headrace(folder, "reset", "--yes")
    assert done.exit_code == 2
    assert "'headrace down' ends it" in done.output
    assert holder(folder_of(folder)) is not None


def test_reset_says_what_is_removed_and_does_nothing_where_nobody_can_be_asked(folder):
    kept = folder_of(folder)
    (kept / "mail").mkdir(parents=True)
    (kept / "mail" / "1.eml").write_bytes(b"x" * 1_000_000)
    done = headrace(folder, "reset")
    assert done.exit_code == 2
    assert f"this removes {kept}: 1 files, 1.0 MB" in done.output
    assert "in it: mails" in done.output
    assert "headrace reset --config" in done.output
    assert (kept / "mail").is_dir()


def test_reset_removes_what_up_kept_and_nothing_else(folder):
    kept = folder_of(folder)
    KeptPorts(kept).take("Kafka", kept / "kafka")
    (folder / ".headrace" / "versions").mkdir()
    assert headrace(folder, "reset", "--yes").exit_code == 0
    assert [path.name for path in (folder / ".headrace").iterdir()] == ["versions"]
    again = headrace(folder, "reset", "--yes")
    assert (again.exit_code, "nothing is kept here" in again.output) == (0, True)


def test_reset_waits_for_no_living_server(folder):
    kept = folder_of(folder)
    with FolderLock(kept / "kafka"):
        done = headrace(folder, "reset", "--yes")
    assert done.exit_code == 1
    assert "in use by another server" in done.output
    assert (kept / "kafka").is_dir()


# --- several drivers


def test_up_with_drivers_deploys_once_and_has_them_supervised(folder, monkeypatch):
    (folder / "use_cases.py").write_text("")
    (folder / "headrace.yaml").write_text(
        "module: use_cases.py\nkafka: {bootstrap.servers: '127.0.0.1:1'}\n"
        f"database_url: sqlite:///{folder}/store.db\nsmtp_url: smtp://127.0.0.1:1\n"
    )
    begun, kept_running = [], []

    def supervise(wanted):
        kept_running.append((wanted.drivers, wanted.command("d-0", 7), wanted.folder))
        return True

    monkeypatch.setattr(up_command, "refuse_early", lambda *_: None)
    monkeypatch.setattr(up_command, "begin", lambda *_, **how: begun.append(how))
    monkeypatch.setattr("headrace.cli.fleet.supervise", supervise)
    words = ("up", "--drivers", "2", "--no-console", "--deploy", "--master", "local[1]")
    done = headrace(folder, *words)
    assert done.exit_code == 0, done.output
    assert begun == [{"anew": True, "stay": True}]
    ((drivers, command, state),) = kept_running
    assert drivers == 2
    assert command[3] == "run"
    assert command[-6:] == ["--master", "local[1]", "--name", "d-0", "--health-port", "7"]
    assert "--deploy" not in command
    assert state == folder / ".headrace" / "fleet" / "headrace"
    assert "0 tenants, 0 lanes begun" in done.output
    assert "'headrace tenants add NAME'" in done.output
    assert "'headrace reset' removes it" in done.output
