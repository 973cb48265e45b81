"""`headrace store`: the version of the store's tables, and the way up and down.

A driver brings the tables to its version when it starts, so most people never need this. It is for
those who want the upgrade done, and seen, before the first driver starts, and for those who have to
go back to the Headrace they came from. What the older one knows nothing of is lost on the way, so
that is shown first and asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    err,
    out,
    say,
    settings_and_folder,
    shown_errors,
)
from headrace.store.database import Database, open_database
from headrace.store.migrations import (
    NOTHING,
    Migration,
    downgrade,
    every_version,
    steps_back,
    upgrade,
    version_of,
)

app = typer.Typer(no_args_is_help=True, help="The store's tables: their version, up and down.")


@app.command("version")
def version(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show the version of the store's tables, and the one that this Headrace works with.

    Example: `headrace store version`
    """
    with _database_of(config) as database:
        here, known = _version_in(database), [step.version for step in every_version()]
        newest = known[-1]
        out.print(f"tables      {here}", highlight=False)
        out.print(f"Headrace's  {newest}", highlight=False)
        if here in (NOTHING, *known[:-1]):
            out.print(
                "'headrace store upgrade' brings them there, and so does whatever of this Headrace "
                "opens the store: stop older drivers first"
            )
        elif here != newest:
            out.print(
                "they are of a later Headrace: install that one again, or stop all drivers and "
                f"let it run 'headrace store downgrade --to {int(newest)}'"
            )


@app.command("upgrade")
def upgrade_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Make the store's tables, or bring them to this Headrace's version, in one transaction.

    Whatever opens the store does the same: a driver, the console, the gateway, most commands. Of
    several at once, one does it and the others wait. An older Headrace cannot use the tables
    afterwards, so stop it first.

    Example: `headrace store upgrade`
    """
    with _database_of(config) as database:
        upgrade(database, _show)
        out.print(f"the tables are of version {_version_in(database)}", highlight=False)


@app.command("downgrade")
def downgrade_(
    to: Annotated[
        int,
        typer.Option("--to", metavar="N", min=0, help="The version to go back to; 0: no tables."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Take the tables back to an older version; what is newer is lost.

    Stop all drivers first, make a backup, and install the older Headrace before anything else
    opens the store: this one would bring the tables up again.

    Example: `headrace store downgrade --to 2`
    """
    wanted = f"{to:04}" if to else NOTHING
    with _database_of(config) as database:
        with database.read() as connection:
            steps = steps_back(database, connection, wanted)
        if not steps:
            out.print(f"the tables are of version {_version_in(database)} already")
            return
        out.print("what these versions brought is lost, with all that was kept of it:")
        for step in steps:
            _show(step)
        if not yes:
            typer.confirm("Go back?", abort=True)
        downgrade(database, wanted, lambda step: err.print(f"undone: {step.version}"))
        out.print(f"the tables are of version {_version_in(database)}", highlight=False)


def _show(step: Migration) -> None:
    say(f"  {step.version}  {step.title}")


def _version_in(database: Database) -> str:
    with database.read() as connection:
        return version_of(connection) or NOTHING


@contextmanager
def _database_of(config: ConfigOption) -> Iterator[Database]:
    """The database that the YAML file names, as it is, with errors shown."""
    with shown_errors():
        settings, _ = settings_and_folder(config)
        with closing(open_database(settings.store_url())) as database:
            yield database
