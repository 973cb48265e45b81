"""The store's database: its three kinds of transaction, and what a lost commit means.

A commit whose answer is lost is the one case in which an error does not mean that nothing was done.
It has an error of its own, ``OutcomeUnknown``, so that whoever can reads back what became of it.

There are three kinds of transaction: ``read``, ``write``, and ``guest`` for a SQL sink that wants
its own rows in the same transaction as the positions. How the database is opened is said in
``databases/engines.py``; tables are made elsewhere (``migrations``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from headrace.databases.addresses import Address, parse
from headrace.databases.commits import commit
from headrace.databases.engines import Waits, engine_of, writer_of
from headrace.store.faults import translated

_WAITS = Waits()


class Database:
    """A pool of connections to one store. Safe in several threads; not to be taken over a fork."""

    def __init__(self, address: Address, engine: Engine) -> None:
        self.address = address
        self.engine = engine
        self._where = f"store {address.shown}"
        self._writer = writer_of(engine)

    def __repr__(self) -> str:
        return f"Database({self.address.shown})"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with translated(self.address), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes: durable on leaving, rolled back on an exception.

        Raises:
            OutcomeUnknown: on leaving; the commit may or may not have happened.
            StoreUnavailable: nothing was done.
        """
        with translated(self.address), self._writer.connect() as connection:
            transaction = connection.begin()
            yield connection
            commit(transaction, self._where)

    @contextmanager
    def guest(self) -> Iterator[Connection]:
        """As ``write``, but errors of the block itself, and of its commit, pass as they are."""
        with translated(self.address):
            connection = self._writer.connect()
        try:
            with translated(self.address):
                transaction = connection.begin()
            yield connection
            commit(transaction, self._where)
        finally:
            # Rolls back what was not committed.
            connection.close()

    def close(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()


def open_database(
    url: str,
    *,
    lock_wait_s: float = _WAITS.lock_s,
    statement_wait_s: float = _WAITS.statement_s,
) -> Database:
    """Prepare a store's database; nothing is contacted before the first transaction.

    Args:
        url: SQLAlchemy URL of a SQLite file or a PostgreSQL database.
        lock_wait_s: seconds that a writer waits for another one.
        statement_wait_s: seconds that one statement may take on PostgreSQL.

    Raises:
        ConfigError: the URL is wrong, or the folder of a SQLite file cannot be made.
    """
    address = parse(url)
    return Database(address, engine_of(address, Waits(lock_wait_s, statement_wait_s)))
