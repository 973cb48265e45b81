"""Bringing the tables to this version of Headrace.

Several drivers may start at once on an empty or an old database, and an old driver may meet a
database that a newer one has changed. So the version is read and raised in one transaction under
a lock, and an unknown version is refused by name before anything is touched. Versions are numbers
in ``versions/``; the one in force stands in the table ``headrace_version``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from headrace.databases.engines import wait_for_ever
from headrace.errors import ConfigError, StoreTooNew
from headrace.store.database import Database

VERSION_TABLE = "headrace_version"
#: any number, as long as all drivers use the same: "headrace" read as bytes
_LOCK = int.from_bytes(b"headrace", "big") >> 1


#: what stands for a store without tables, where a version is asked for
NOTHING = "base"


@dataclass(frozen=True, slots=True)
class Migration:
    """From one version to the one after it."""

    version: str
    #: what it brought, in one line
    title: str


OnStep = Callable[[Migration], None]


def upgrade(database: Database, on_step: OnStep | None = None) -> None:
    """Make the tables, or bring them to the newest version; ``on_step`` hears of each step done.

    Raises:
        StoreTooNew: a later version of Headrace was here; nothing was changed.
    """
    newest = newest_version()
    with database.read() as connection:
        if version_of(connection) == newest:
            return
    with database.write() as connection:
        _lock(connection)
        _refuse_newer(database, version_of(connection))
        command.upgrade(_config(connection, on_step), "head")


def downgrade(database: Database, version: str, on_step: OnStep | None = None) -> None:
    """Take the tables back to an older version, ``base`` for none; what is newer is lost.

    Raises:
        ConfigError: there is no such version below the one in force; nothing was changed.
        StoreTooNew: a later version of Headrace was here; nothing was changed.
    """
    with database.write() as connection:
        _lock(connection)
        steps_back(database, connection, version)
        command.downgrade(_config(connection, on_step), version)


def steps_back(database: Database, connection: Connection, version: str) -> list[Migration]:
    """What ``downgrade`` to ``version`` would undo, the newest first.

    Raises:
        ConfigError: there is no such version below the one in force.
        StoreTooNew: a later version of Headrace was here.
    """
    here = version_of(connection)
    _refuse_newer(database, here)
    every = every_version()[::-1]
    names = [step.version for step in every] + [NOTHING]
    at = names.index(here or NOTHING)
    if version not in names[at:]:
        below = ", ".join(names[at + 1 :]) or "nothing"
        raise ConfigError(
            f"store {database.address.shown} has tables of version {here or NOTHING} and cannot go "
            f"back to {version}; below it there is {below}"
        )
    return list(every[at : names.index(version)])


def version_of(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


@cache
def every_version() -> tuple[Migration, ...]:
    """All versions that this Headrace knows, the oldest first."""
    scripts = [*ScriptDirectory.from_config(_config(None, None)).walk_revisions()]
    return tuple(Migration(script.revision, _title(script)) for script in reversed(scripts))


def newest_version() -> str:
    """The version that this Headrace works with."""
    return every_version()[-1].version


def _lock(connection: Connection) -> None:
    # SQLite's write transaction is its lock. This one ends with the transaction, so that it also
    # holds behind a pooler.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # Rewriting a large table takes as long as it takes.
        wait_for_ever(connection)


def _refuse_newer(database: Database, version: str | None) -> None:
    known = [step.version for step in every_version()]
    if version is not None and version not in known:
        raise StoreTooNew(
            f"store {database.address.shown} has tables of version {version}, and this Headrace "
            f"knows versions up to {known[-1]}; install the later Headrace that wrote it, let that "
            "one run 'headrace store downgrade', or restore a backup made before the upgrade"
        )


def _title(script: Script) -> str:
    return (script.doc or script.revision).splitlines()[0].rstrip(".")


def _config(connection: Connection | None, on_step: OnStep | None) -> Config:
    def applied(*, step: Any, **_: Any) -> None:
        script = step.up_revision
        if on_step is not None and script is not None:
            on_step(Migration(script.revision, _title(script)))

    config = Config(attributes={"connection": connection, "on_apply": applied})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
