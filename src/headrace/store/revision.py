"""The number that grows with every change of an operator, and the lock that it is.

An operator's change first raises the revision. That tells drivers to look again, and since the
revision is one row, its lock makes changes follow each other: a tenant being added and a use case
being deployed at the same time cannot miss each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select, true, update

from headrace.store.database import Database
from headrace.store.schema import revisions
from headrace.store.unlocked import lock_all

_RAISED = update(revisions).values(revision=revisions.c.revision + 1)


@contextmanager
def changing(database: Database) -> Iterator[Connection]:
    """A transaction for an operator's change, alone among such."""
    with database.write() as connection:
        connection.execute(_RAISED)
        yield connection


def try_to_change(connection: Connection) -> bool:
    """Make this transaction one for a change, unless that would have to wait for another one."""
    free = lock_all(connection, revisions, true())
    if free:
        connection.execute(_RAISED)
    return free


def current(connection: Connection) -> int:
    """The revision; in a change it is the one that was raised for it, and never comes again."""
    return int(connection.scalars(select(revisions.c.revision)).one())
