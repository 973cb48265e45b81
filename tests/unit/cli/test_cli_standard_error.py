"""Whoever runs for long says nothing that its work waits for."""

import sys
from pathlib import Path

import pytest
import structlog
import typer

from headrace.cli import console, fleet, running, up
from headrace.cli.app import _PLACES, _made
from headrace.cli.console_server import console as console_command
from headrace.cli.fleet import supervise_
from headrace.cli.gateway import gateway
from headrace.cli.registry import registry
from headrace.cli.running import run
from headrace.errors import ConfigError
from headrace.process.standard_error import ThreadedStream

#: command, and where it begins with its settings
COMMANDS = [
    (run, running, "settings_and_folder"),
    (up.up, up, "read_settings"),
    (supervise_, fleet, "settings_and_folder"),
    (gateway, console, "settings_and_folder"),
    (console_command, console, "settings_and_folder"),
    (registry, console, "settings_and_folder"),
]


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    before = structlog.get_config()
    monkeypatch.setenv("HEADRACE_WORKER_LOGS", "")
    yield
    structlog.configure(**before)


@pytest.mark.parametrize(("command", "module", "first"), COMMANDS)
def test_a_thread_writes_what_it_says(command, module, first, monkeypatch, capsys):
    seen = []

    def refused(_: Path):
        seen.append(sys.stderr)
        raise ConfigError("the YAML file is no good")

    monkeypatch.setattr(module, first, refused)
    with pytest.raises(typer.Exit):
        command(config=Path("headrace.yaml"))
    assert [type(stream) for stream in seen] == [ThreadedStream]
    assert capsys.readouterr().err == "error: the YAML file is no good\n"
    assert not isinstance(sys.stderr, ThreadedStream)


def test_they_are_all_that_say_how_their_log_looks():
    commands = [_made(word, place) for word, place in _PLACES.items() if place.name != "app"]
    taking = {
        command.callback
        for command in commands
        if any(option.name == "log_format" for option in command.params)
    }
    assert {function.__name__ for function in taking} == {
        command.__name__ for command, _, _ in COMMANDS
    }
