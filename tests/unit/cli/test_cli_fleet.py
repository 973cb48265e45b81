"""`headrace supervise`, `roll` and `fleet status`, without processes."""

import json
import os
import signal
from dataclasses import replace

import pytest
import structlog
from typer.testing import CliRunner

from headrace.cli import fleet
from headrace.cli.app import app
from headrace.cli.failure_text import when
from headrace.embedded.folder_lock import FolderLock
from headrace.fleet import state_file
from headrace.fleet.state_file import DriverView, FleetView
from headrace.model.statistics import Missing

YAML = """\
module: use_cases.py
kafka:
  bootstrap.servers: 127.0.0.1:1
database_url: sqlite:///store.db
driver:
  drain_timeout: 5s
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "headrace.yaml").write_text(YAML)
    yield tmp_path
    # the runner's stderr, to which a command points the logs, is closed by now
    structlog.reset_defaults()


def headrace(*words):
    return CliRunner().invoke(app, words)


def view(state="ready", error="", missing=(), **more):
    driver = DriverView("d-0", state, 4711, 1_700_000_000, 3, error, 1, None, missing)
    given = {"rolls": 0, "rolling": False, "roll_error": "", "state": "running", **more}
    return FleetView(name="d", pid=os.getpid(), drivers=(driver,), **given)


def state_of(folder):
    made = folder / ".headrace" / "fleet" / "headrace"
    made.mkdir(parents=True)
    return made


def test_each_driver_gets_a_name_of_its_own_and_the_same_options(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(fleet, "supervise", lambda wanted: asked.append(wanted) or True)
    done = headrace("supervise", "--drivers", "2", "--name", "d", "--master", "local[1]")
    assert done.exit_code == 0, done.output
    wanted = asked[0]
    assert (wanted.name, wanted.drivers, wanted.rules.drain_s) == ("d", 2, 35.0)
    assert wanted.folder == folder / ".headrace" / "fleet" / "headrace"
    words = wanted.command("d-1", 4711)
    assert words[1:4] == ["-m", "headrace", "run"]
    told = dict(zip(words[4::2], words[5::2], strict=True))
    assert told["--name"] == "d-1"
    assert told["--health-port"] == "4711"
    assert told["--master"] == "local[1]"
    assert told["--config"] == str(folder / "headrace.yaml")


def test_the_name_in_the_yaml_file_is_taken_if_none_is_given(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(fleet, "supervise", lambda wanted: asked.append(wanted) or True)
    (folder / "headrace.yaml").write_text(YAML + "  name: north\n")
    headrace("supervise")
    assert asked[0].name == "north"


def test_a_configuration_that_cannot_be_starts_nobody(folder, monkeypatch):
    monkeypatch.setattr(fleet, "supervise", lambda _: pytest.fail("it was started"))
    (folder / "headrace.yaml").write_text("module: use_cases.py\n")
    assert headrace("supervise").exit_code == 2


def test_a_bad_end_is_told_with_its_reasons(folder, monkeypatch):
    state_file.write(state_of(folder), view("given up", "exit code 1; its last lines:\nno wheels"))
    monkeypatch.setattr(fleet, "supervise", lambda _: False)
    done = headrace("supervise")
    assert done.exit_code == 1
    assert "no wheels" in done.output


def test_status_shows_each_driver(folder):
    made = state_of(folder)
    state_file.write(made, view(error="exit code 1\nno wheels", roll_error="it was given up"))
    with FolderLock(made):
        done = headrace("fleet", "status")
    assert done.exit_code == 0, done.output
    for word in ("d-0", "ready", "4711", "3", "exit code 1 | no wheels", "it was given up"):
        assert word in done.output


def test_of_a_long_end_the_table_shows_the_first_and_the_last_line(folder):
    made, lines = state_of(folder), [f"line {number}" for number in range(20)]
    error = "\n".join(["ended by SIGKILL; its last lines:", *lines, "x" * 500])
    state_file.write(made, view(error=error))
    with FolderLock(made):
        shown, whole = headrace("fleet", "status"), headrace("fleet", "status", "--json")
    assert "its last lines: | " + "x" * 120 + "…" in shown.output
    assert "line 7" not in shown.output
    assert json.loads(whole.output)["drivers"][0]["error"] == error


def test_a_name_is_shown_as_it_is(folder, monkeypatch):
    made, plain = state_of(folder), view()
    named = replace(plain, name="[/a]", drivers=(replace(plain.drivers[0], name="[/a]-0"),))
    state_file.write(made, named)
    assert "supervisor [/a] (pid" in headrace("fleet", "status").output
    rolled = replace(named, rolls=1)
    with FolderLock(made):
        done = headrace("fleet", "status").output
        steps = iter([named, rolled, rolled])
        monkeypatch.setattr(fleet, "_living", lambda _: next(steps))
        monkeypatch.setattr(fleet.os, "kill", lambda *_: None)
        assert "[/a]-0 ready" in headrace("roll").output
    assert "supervisor [/a] (pid" in done
    assert "[/a]-0" in done


@pytest.mark.parametrize("state", ["starting", "draining", "killed", "failed", "stopped"])
def test_a_driver_that_is_not_ready_yet_is_told_by_the_exit_code_and_the_last_line(folder, state):
    made = state_of(folder)
    state_file.write(made, view(state))
    with FolderLock(made):
        done = headrace("fleet", "status")
        told = headrace("fleet", "status", "--json")
    assert done.exit_code == told.exit_code == 75
    assert done.output.rstrip().endswith("is running; 0 of 1 driver ready")


LACKS = (Missing("kafka", 1_700_000_100.0), Missing("store", 1_700_000_200.0))


def test_a_driver_without_store_and_kafka_is_not_called_ready(folder):
    made = state_of(folder)
    state_file.write(made, view("waiting", missing=LACKS))
    with FolderLock(made):
        done = headrace("fleet", "status")
        told = headrace("fleet", "status", "--json")
    assert done.exit_code == told.exit_code == 1
    assert " waiting " in done.output
    kafka, store = (when(server.since_s) for server in LACKS)
    assert f"kafka since {kafka}, store since {store}" in done.output
    (driver,) = json.loads(told.output)["drivers"]
    assert (driver["state"], driver["pid"]) == ("waiting", 4711)
    assert driver["missing"] == [
        {"what": "kafka", "since_s": 1_700_000_100.0},
        {"what": "store", "since_s": 1_700_000_200.0},
    ]


def test_programs_are_told_the_status_of_a_supervisor_that_ended_too(folder):
    state_file.write(state_of(folder), view("waiting", missing=LACKS))
    done = headrace("fleet", "status", "--json")
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert (told["state"], told["drivers"][0]["state"]) == ("ended", "unknown")
    assert told["drivers"][0]["missing"] == []


def test_a_driver_that_had_stopped_before_its_supervisor_ended_is_not_unknown(folder):
    state_file.write(state_of(folder), view("stopped"))
    told = json.loads(headrace("fleet", "status", "--json").output)
    assert (told["state"], told["drivers"][0]["state"]) == ("ended", "stopped")


def test_a_driver_that_was_given_up_is_told_by_the_exit_code(folder):
    made = state_of(folder)
    state_file.write(made, view("given up", "no wheels"))
    with FolderLock(made):
        assert headrace("fleet", "status").exit_code == 1


def test_the_status_of_one_that_was_killed_is_not_believed(folder):
    state_file.write(state_of(folder), view())
    done = headrace("fleet", "status")
    assert done.exit_code == 1
    assert "unknown" in done.output
    assert "has ended" in done.output


def test_where_no_supervisor_is_it_is_said(folder):
    told = " ".join(headrace("fleet", "status").output.split())
    assert "no supervisor has ever used" in told
    assert (
        "such as that of 'headrace run' or 'headrace up', has none: 'headrace streams list' shows"
        in told
    )
    assert headrace("fleet", "status").exit_code == 2
    assert headrace("roll").exit_code == 2
    state_file.write(state_of(folder), view())
    assert "no supervisor runs" in headrace("roll").output


@pytest.mark.parametrize(("error", "code"), [("", 0), ("driver 0 was given up", 1)])
def test_a_roll_is_followed_to_its_end(folder, error, code):
    made = state_of(folder)
    state_file.write(made, view())
    steps = iter([view("draining", rolls=1, rolling=True), view(rolls=1, roll_error=error)])
    before = signal.signal(signal.SIGHUP, lambda *_: state_file.write(made, next(steps)))
    try:
        with FolderLock(made), pytest.MonkeyPatch.context() as patch:
            patch.setattr(fleet.time, "sleep", lambda _: state_file.write(made, next(steps)))
            done = headrace("roll")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.exit_code == code
    assert "d-0 draining" in done.output
    assert ("all drivers are replaced" in done.output) == (not error)
    assert error in done.output
