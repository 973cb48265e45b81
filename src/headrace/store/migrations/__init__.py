"""Bringing the tables to this version of Headrace.

Several drivers may start at once on an empty or an old database, and an old driver may meet a
database that a newer one has changed. So the version is read and raised in one transaction under
a lock, and an unknown version is refused by name before anything is touched. Versions are numbers
in ``versions/``; the one in force stands in the table ``headrace_version``.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from headrace.errors import StoreTooNew
from headrace.store.database import Database

VERSION_TABLE = "headrace_version"
#: any number, as long as all drivers use the same: "headrace" read as bytes
_LOCK = int.from_bytes(b"headrace", "big") >> 1


def upgrade(database: Database) -> None:
    """Make the tables, or bring them to the newest version.

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
        command.upgrade(_config(connection), "head")


def downgrade(database: Database, version: str) -> None:
    """Take the tables back to an older version, ``base`` for none; what is newer is lost."""
    with database.write() as connection:
        _lock(connection)
        _refuse_newer(database, version_of(connection))
        command.downgrade(_config(connection), version)


def version_of(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def newest_version() -> str:
    """The version that this Headrace works with."""
    newest = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert newest is not None, "there are no migrations in the package"
    return newest


def _lock(connection: Connection) -> None:
    # SQLite's write transaction is its lock. This one ends with the transaction, so that it also
    # holds behind a pooler.
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _refuse_newer(database: Database, version: str | None) -> None:
    scripts = ScriptDirectory.from_config(_config(None))
    known = {script.revision for script in scripts.walk_revisions()}
    if version is not None and version not in known:
        raise StoreTooNew(
            f"store {database.address.shown} has tables of version {version}, and this Headrace "
            f"knows versions up to {scripts.get_current_head()}; install the later Headrace that "
            "wrote it, or restore a backup made before the upgrade"
        )


def _config(connection: Connection | None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
