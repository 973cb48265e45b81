"""What all commands share: the two consoles, the settings option, and how errors are shown."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import Console
from rich.table import Table
from structlog.typing import EventDict

from headrace.cli.near_names import told_what_is_near
from headrace.cli.servers import Door, about_up, completed, folder_of, with_address
from headrace.embedded.folder_lock import holder
from headrace.errors import ConfigError, ConnectionDown, HeadraceError, StoreUnavailable, Temporary
from headrace.fleet.states import EXIT_CONFIG, EXIT_TEMPORARY
from headrace.ports import Store
from headrace.process.standard_error import written_by_a_thread
from headrace.settings import Settings, read_settings
from headrace.store import open_store
from headrace.telemetry.log_fields import WORKER_LOGS
from headrace.versions.paths import as_asked, folder_of_file, link_that_takes_along

out = Console()
err = Console(stderr=True)
#: more than a row ever has
_PIPE_COLUMNS = 10_000

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="HEADRACE_CONFIG", help="The YAML file.", show_default=True
    ),
]
DEFAULT_CONFIG = Path("headrace.yaml")
JsonOption = Annotated[
    bool, typer.Option("--json", help="The same and more, as one JSON document, for programs.")
]


@contextmanager
def shown_errors() -> Iterator[None]:
    """Turn errors of Headrace into a message and an exit code."""
    try:
        yield
    except HeadraceError as error:
        err.print("error:", style="bold red", end=" ")
        say(str(error), err)
        raise typer.Exit(_exit_code(error)) from error


def _exit_code(error: HeadraceError) -> int:
    if isinstance(error, ConfigError):
        return EXIT_CONFIG
    return EXIT_TEMPORARY if isinstance(error, Temporary) else 1


def settings_and_folder(config: Path) -> tuple[Settings, Path]:
    """The settings, completed by what `up` started, and the folder that their paths start from.

    Raises:
        StoreUnavailable: `up` starts for the first time, and has no store yet.
    """
    folder = folder_of_file(as_asked(config))
    settings = completed(read_settings(config), folder)
    if not settings.names_a_store() and holder(folder_of(folder)) is not None:
        raise StoreUnavailable(f"the store is not there yet\n{about_up(folder)}")
    return settings, folder


def copies_at_risk(config: Path, settings: Settings) -> str | None:
    """What to write where copies of deployed versions go with a release; None if they do not."""
    link = link_that_takes_along(config, settings.versions)
    if not settings.versions_beside or link is None:
        return None
    return (
        f"copies of what is deployed are in {settings.versions}; when {link} leads elsewhere, they "
        f"are not found there: write 'versions: {link.parent / '.headrace/versions'}' in {config}, "
        "and move them there"
    )


@contextmanager
def store_of(config: Path) -> Iterator[Store]:
    """The store that the YAML file names, with errors shown."""
    with shown_errors():
        settings, _ = settings_and_folder(config)
        with (
            told_of_up(config),
            closing(open_store(settings.store_url())) as store,
            told_what_is_near(store),
        ):
            yield store


@contextmanager
def for_a_door(
    config: Path, door: Door, host: str | None, port: int | None
) -> Iterator[tuple[Settings, Path, Store]]:
    """Settings with the address that was typed, the folder of their paths, and the store."""
    with shown_errors(), written_by_a_thread():
        settings, folder = settings_and_folder(config)
        settings = with_address(settings, door, host, port)
        with closing(open_store(settings.store_url())) as store:
            yield settings, folder, store


@contextmanager
def told_of_up(config: Path) -> Iterator[None]:
    """Add to an error what is known of `headrace up`, where a server of its own is missing."""
    try:
        yield
    except Temporary as error:
        hint = hint_of_up(config)
        # A server of ``connections`` that `up` does start (`--with`) is there by its own word.
        if hint is None or isinstance(error, ConnectionDown):
            raise
        raise Temporary(f"{error}\n{hint}") from error


def hint_of_up(config: Path) -> str | None:
    """What is known of `headrace up`; None where the YAML file names all servers itself."""
    settings = read_settings(config)
    named = "bootstrap.servers" in settings.kafka and settings.names_a_store()
    return None if named else about_up(folder_of_file(as_asked(config)))


def print_table(table: Table) -> None:
    """Print rows: cut to a terminal's width, but each whole and in one line for a pipe."""
    (out if out.is_terminal else Console(width=_PIPE_COLUMNS)).print(table)


def print_list(table: Table, values: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Print a list: a table for people, or the same and more for a program."""
    if as_json:
        print_json(values)
    else:
        print_table(table)


def say(line: str, to: Console = out) -> None:
    """Print a line whole, as it is: what looks like markup in a name or an error is text."""
    to.print(line, markup=False, highlight=False, soft_wrap=True)


def print_json(values: object) -> None:
    """Print for a program, with no word around it."""
    say(json.dumps(values, indent=1))


class LogFormat(StrEnum):
    """How lines of the log look."""

    AUTO = "auto"  #: readable on a terminal, JSON elsewhere
    JSON = "json"  #: one object a line
    PRETTY = "pretty"


LevelOption = Annotated[
    str, typer.Option(envvar="LOG_LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
]
HostOption = Annotated[
    str | None, typer.Option("--host", help="Where it listens. Overrides YAML.", show_default=False)
]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="Its port. Overrides YAML.", show_default=False),
]
FormatOption = Annotated[
    LogFormat,
    typer.Option(
        envvar="LOG_FORMAT",
        help="How lines of the log look: one JSON object each, pretty for people, or auto: pretty "
        "on a terminal and JSON elsewhere.",
    ),
]


def _what_passes_in_one_line(_: object, __: str, event: EventDict) -> EventDict:
    """Of a server that is away its message says all; where it was noticed is no news."""
    if isinstance(error := event.get("exc_info"), Temporary):
        del event["exc_info"]
        event["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return event


class _WhereStderrLeads:
    """Standard error as it is when a line comes: a live table puts lines above itself there."""

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure_logs(level: str = "INFO", form: LogFormat = LogFormat.AUTO) -> None:
    """Logs to stderr, for every command in the same way; fields: `telemetry/log_fields.py`."""
    pretty = sys.stderr.isatty() if form is LogFormat.AUTO else form is LogFormat.PRETTY
    colours = sys.stderr.isatty()
    # Workers on this machine are children of it, and their handlers' lines stand between its own.
    os.environ[WORKER_LOGS] = f"{'pretty' if pretty else 'json'} {level.upper()}"
    shape = (
        # A traceback that shows variables would show keys.
        structlog.dev.ConsoleRenderer(
            colors=colours, exception_formatter=structlog.dev.plain_traceback
        )
        if pretty
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _what_passes_in_one_line,
            *([] if pretty else [structlog.processors.format_exc_info]),
            shape,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
        ),
        # A line in one piece: half of one is never left out.
        logger_factory=structlog.WriteLoggerFactory(_WhereStderrLeads()),  # type: ignore[arg-type]
    )
