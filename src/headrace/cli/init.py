"""`headrace init`: a folder to begin with, in which everything runs as it is."""

from __future__ import annotations

import shlex
from importlib import resources
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.console import say, shown_errors
from headrace.errors import ConfigError

#: files as they are called in the new folder, in the order in which somebody reads them
FILES = ("headrace.yaml", "use_cases.py", "test_use_cases.py", "visits.jsonl", "send.py")


def init(
    folder: Annotated[
        Path, typer.Argument(help="Where, made if need be; none: in the folder where you are.")
    ] = Path(),
) -> None:
    """Make a folder with a use case, its test, sample records and a YAML file.

    Nothing that is there is overwritten: where one of the files is, none is made.

    Example: `headrace init visits`
    """
    with shown_errors():
        there = [name for name in FILES if (folder / name).exists()]
        if there:
            raise ConfigError(
                f"{', '.join(there)} is in {folder.resolve()} already, and nothing is overwritten: "
                f"name another folder, as in 'headrace init {_new_name()}'"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                (folder / name).write_text(text_of(name), "utf-8")
        except OSError as exc:
            raise ConfigError(f"{exc.filename} cannot be written: {exc.strerror}") from exc
        _tell(folder)


def _new_name() -> str:
    """A folder that is not there yet."""
    names = chain(["visits"], (f"visits-{number}" for number in count(2)))
    return next(name for name in names if not Path(name).exists())


def text_of(name: str) -> str:
    """What is in one of the files."""
    starter = resources.files("headrace.cli") / "starter"
    # Python files are no modules of ours there.
    return (starter / (f"{name}.txt" if name.endswith(".py") else name)).read_text("utf-8")


def _tell(folder: Path) -> None:
    say(f"made in {folder.resolve()}: {', '.join(FILES)}")
    if folder != Path():
        say(f"  cd {shlex.quote(str(folder))}")
    for command, why in (
        ("python -m pytest", "test the use case (needs pytest)"),
        ("headrace up", "run it, with a Kafka and a store of its own; then, in a second terminal:"),
        ("headrace tenants add acme", "a tenant"),
        ("headrace topics create --inputs", "its topic"),
        ("python send.py acme", "send it the visits of visits.jsonl"),
        ("headrace streams list", "see how far it is"),
        ("headrace down", "end it; headrace up goes on, headrace reset removes what was kept"),
    ):
        say(f"  {command:<34}{why}")
