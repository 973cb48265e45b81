"""The commands, gathered; each is imported when its word is typed.

All of them together bring web servers and Spark, which takes seconds, and who adds a tenant needs
neither. So a word stands for the place of its command until somebody types it, and who asks what
there is (`headrace --help`, a shell that completes a word) is shown the line that stands beside the
place. Tests hold that line to what the command says of itself.
"""

from __future__ import annotations

from collections import UserDict
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class _Place(NamedTuple):
    """Where a command is, and what is said of it before it is imported."""

    module: str
    #: of its function, or of the group of its commands
    name: str
    about: str


#: by word, in the order of help
_PLACES = {
    "init": _Place(
        "init", "init", "Make a folder with a use case, its test, sample records and a YAML file."
    ),
    "demo": _Place(
        "running",
        "demo",
        "Watch 10,000 real visits of several tenants become scores, mails and files.",
    ),
    "run": _Place(
        "running",
        "run",
        "Run a driver against the servers that the YAML file names, until SIGTERM or Ctrl-C.",
    ),
    "up": _Place(
        "up", "up", "Start what the YAML file does not name, then run a driver, and stay."
    ),
    "down": _Place(
        "down",
        "down",
        "End the `headrace up` that runs in this folder, and wait for it; what it kept stays.",
    ),
    "reset": _Place(
        "down",
        "reset",
        "Remove all that `headrace up` has kept in this folder: topics, store, mails, keys, ports.",
    ),
    "console": _Place(
        "console_server",
        "console",
        "Serve the console: pages for operators, the control API under /v1, and /metrics.",
    ),
    "supervise": _Place(
        "fleet",
        "supervise_",
        "Run drivers, each in a process of its own, and start again those that end.",
    ),
    "roll": _Place(
        "fleet",
        "roll",
        "Replace the drivers of the running supervisor, one at a time, by what is installed now.",
    ),
    "gateway": _Place(
        "gateway",
        "gateway",
        "Take events over HTTP into the topics of tenants, until SIGTERM or Ctrl-C.",
    ),
    "registry": _Place(
        "registry", "registry", "Serve schemas to producers and consumers, until SIGTERM or Ctrl-C."
    ),
    "plan": _Place("planning", "plan_file", "Print the plan of a snapshot as JSON."),
    "rerun": _Place(
        "reruns", "rerun", "Read a range of a stream once more, while fresh records go on as ever."
    ),
    "verify": _Place(
        "verifying",
        "verify",
        "Check every position against Kafka: topic, topic id, first and last offset.",
    ),
    "tenants": _Place("tenants", "app", "Customers: add, suspend, resume, remove, throttle."),
    "streams": _Place(
        "streams", "app", "One tenant's topic in one use case: lag, seek, suspend, resume."
    ),
    "quarantine": _Place(
        "quarantine",
        "app",
        "Records that could not be handled: look at them, retry, skip, send back.",
    ),
    "state": _Place("state", "app", "State of keys: how much there is, and its rows."),
    "use-cases": _Place(
        "use_cases", "app", "Use cases: list, deploy and update one by one, resume, remove."
    ),
    "topics": _Place("topics", "app", "Topics of tenants: make those that are missing."),
    "schemas": _Place("schemas", "app", "Schemas: list, show, check, register."),
    "tables": _Place("tables", "app", "Delta tables: merge small files, remove old ones."),
    "keys": _Place(
        "keys", "app", "API keys for the gateway and the console: create, list, rotate, revoke."
    ),
    "fleet": _Place("fleet", "app", "The drivers of a supervisor: how they are."),
    "store": _Place("store", "app", "The store's tables: their version, up and down."),
}


class _Commands(UserDict[str, Any]):
    """Word -> command or group of commands, made when it is looked at."""

    def __getitem__(self, word: str) -> Any:
        return _made(word, super().__getitem__(word))


@cache
def _made(word: str, place: _Place) -> Any:
    found = getattr(import_module(f"headrace.cli.{place.module}"), place.name)
    one = typer.Typer(rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=word)
    else:
        one.command(word)(found)
    return get_group(one).commands[word]


def _groups_with(word: str) -> list[str]:
    """The groups that have such a command; to know it they are imported."""
    made = ((group, _made(group, place)) for group, place in _PLACES.items() if place.name == "app")
    return [group for group, commands in made if word in commands.commands]


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(_PLACES)

    def list_commands(self, ctx: Any) -> list[str]:
        """All words, in the order of help."""
        return list(_PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """As it is listed, which imports nothing."""
        place = _PLACES.get(cmd_name)
        return place and TyperCommand(cmd_name, help=place.about)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What was typed, to be run; who left out the group of a command is told it."""
        groups = [] if not args or args[0] in _PLACES else _groups_with(args[0])
        if groups:
            whole = " or ".join(f"'headrace {group} {args[0]}'" for group in groups)
            ctx.fail(f"No such command '{args[0]}'. Is {whole} meant?")
        word, listed, rest = super().resolve_command(ctx, args)
        return word, listed and self.commands[word or ""], rest


app = typer.Typer(
    name="headrace",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="""Many customers' Kafka topics on one Spark: in order, in near real time, none can hurt
another.

Start with `headrace demo`, which needs `pip install 'headrace[demo]'`. For your own use case,
`headrace init FOLDER` makes a folder that runs as it is: change its `use_cases.py`, and type
`headrace up` there.
""",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(version("headrace"))
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the `headrace` command."""
    app()
