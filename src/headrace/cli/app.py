"""The commands, gathered; each is imported when its word is typed.

All of them together bring web servers and Spark, which takes seconds, and who adds a tenant needs
neither. So a word stands for the place of its command until somebody types it or asks what there
is: `headrace --help` alone imports all of them.
"""

from __future__ import annotations

from collections import UserDict
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

#: word -> module and name of its function, or of the group of its commands; in the order of help
_PLACES = {
    "init": "init:init",
    "demo": "running:demo",
    "run": "running:run",
    "up": "up:up",
    "down": "down:down",
    "reset": "down:reset",
    "console": "console_server:console",
    "supervise": "fleet:supervise_",
    "roll": "fleet:roll",
    "gateway": "gateway:gateway",
    "registry": "registry:registry",
    "plan": "planning:plan_file",
    "rerun": "reruns:rerun",
    "verify": "verifying:verify",
    "tenants": "tenants:app",
    "streams": "streams:app",
    "quarantine": "quarantine:app",
    "use-cases": "use_cases:app",
    "topics": "topics:app",
    "schemas": "schemas:app",
    "tables": "tables:app",
    "keys": "keys:app",
    "fleet": "fleet:app",
    "store": "store:app",
}


class _Commands(UserDict[str, Any]):
    """Word -> command or group of commands, made when it is looked at."""

    def __getitem__(self, word: str) -> Any:
        return _made(word, super().__getitem__(word))


@cache
def _made(word: str, place: str) -> Any:
    module, name = place.split(":")
    found = getattr(import_module(f"headrace.cli.{module}"), name)
    one = typer.Typer(rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=word)
    else:
        one.command(word)(found)
    return get_group(one).commands[word]


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(_PLACES)


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
