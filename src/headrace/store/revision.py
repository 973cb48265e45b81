"""The number that grows with every change of an operator, and the lock that it is.

An operator's change first raises the revision. That tells drivers to look again, and since the
revision is one row, its lock makes changes follow each other: a tenant being added and a use case
being deployed at the same time cannot miss each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select, update

from headrace.store.database import Database
from headrace.store.schema import revisions


@contextmanager
def changing(database: Database) -> Iterator[Connection]:
    """A transaction for an operator's change, alone among such."""
    with database.write() as connection:
        connection.execute(update(revisions).values(revision=revisions.c.revision + 1))
        yield connection


def current(connection: Connection) -> int:
    """The revision; in a change it is the one that was raised for it, and never comes again."""
    return int(connection.scalars(select(revisions.c.revision)).one())
