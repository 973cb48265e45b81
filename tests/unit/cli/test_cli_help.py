"""Every command of a group teaches with an example that can be typed."""

import re
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import _PLACES, app

COMMANDS = [
    (name, command)
    for name, group in typer.main.get_command(app).commands.items()
    for command in getattr(group, "commands", ())
]


def test_there_are_groups_to_look_at():
    groups = {"fleet", "keys", "quarantine", "schemas", "state", "store", "streams", "tables"}
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


@pytest.mark.parametrize("word", _PLACES)
def test_the_list_of_commands_says_of_each_what_it_says_of_itself(word):
    command = typer.main.get_command(app).commands[word]
    said = (command.short_help or command.help).split("\n\n")[0]
    assert _PLACES[word].about == " ".join(said.split())


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("deploy", "Is 'headrace use-cases deploy' meant?"),
        ("redrive", "Is 'headrace quarantine redrive' meant?"),
        ("tenant", "Did you mean 'tenants'?"),
    ],
)
def test_who_leaves_out_the_group_of_a_command_is_told_it(typed, told):
    shown = CliRunner().invoke(app, [typed], env={"COLUMNS": "200"})
    assert (shown.exit_code, told in shown.output) == (2, True)


def test_what_there_is_is_told_without_importing_any_of_it():
    code = (
        "import sys; from typer.testing import CliRunner; from headrace.cli.app import app;"
        "shown = CliRunner().invoke(app, ['--help']).output; assert 'quarantine' in shown;"
        "slow = {'pyarrow', 'numpy', 'sqlalchemy', 'confluent_kafka', 'structlog'};"
        "print(sorted(slow & set(sys.modules)));"
        "print(sorted(name for name in sys.modules if name.startswith('headrace')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = ["headrace", "headrace.cli", "headrace.cli.app", "headrace.errors"]
    assert ran.stdout == f"[]\n{[*ours, 'headrace.late_imports']}\n"
