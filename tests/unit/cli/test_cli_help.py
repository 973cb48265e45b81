"""Every command of a group teaches with an example that can be typed."""

import re
import shlex
import subprocess
import sys

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
    groups = {"fleet", "keys", "quarantine", "schemas", "store", "streams", "tables"}
    groups |= {"tenants", "topics"}
    assert {name for name, _ in COMMANDS} == groups | {"use-cases"}


@pytest.mark.parametrize(("group", "command"), COMMANDS)
def test_each_help_teaches_with_an_example(group, command):
    shown = CliRunner().invoke(app, [group, command, "--help"], env={"COLUMNS": "200"}).output
    example = re.search(rf"Example: headrace ({group} {command}[^,\n]*)", shown)
    assert example is not None
    typed = CliRunner().invoke(app, [*shlex.split(example.group(1)), "--help"])
    assert typed.exit_code == 0


def test_a_command_that_runs_no_driver_and_no_door_imports_neither_spark_nor_a_web_server():
    drivers_and_doors = {"demo", "run", "up", "gateway", "console", "registry"}
    words = sorted(typer.main.get_command(app).commands.keys() - drivers_and_doors)
    code = (
        "import sys, typer.main; from headrace.cli.app import app;"
        f"made = [typer.main.get_command(app).commands[word] for word in {words}];"
        "print(len(made), {'pyspark', 'fastapi', 'pandas'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{len(words)} set()\n"
