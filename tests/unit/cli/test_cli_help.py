"""Every command of a group teaches with an example that can be typed."""

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import app

COMMANDS = [
    (name, command)
    for name, group in typer.main.get_command(app).commands.items()
    for command in getattr(group, "commands", ())
]


def test_there_are_groups_to_look_at():
    groups = {"fleet", "keys", "quarantine", "store", "streams", "tenants", "use-cases"}
    assert {name for name, _ in COMMANDS} == groups


@pytest.mark.parametrize(("group", "command"), COMMANDS)
def test_each_help_teaches_with_an_example(group, command):
    shown = CliRunner().invoke(app, [group, command, "--help"], env={"COLUMNS": "200"}).output
    example = re.search(rf"Example: headrace ({group} {command}[^,\n]*)", shown)
    assert example is not None
    typed = CliRunner().invoke(app, [*shlex.split(example.group(1)), "--help"])
    assert typed.exit_code == 0
