"""One database, opened with the settings that exactness needs.

Both databases come with habits that are wrong here. SQLite begins a transaction as a reader and
may fail half-way when it wants to write, forgets foreign keys, and leaves out an fsync; so every
write begins with ``BEGIN IMMEDIATE``, waits its turn, and is on the disk when it returns.
PostgreSQL waits for a lock for ever, lets a statement run for ever, and waits as long for a client
that vanished inside a transaction; and a client waits for ever for a machine that is gone. So all
these waits end.

A commit whose answer is lost is the one case in which an error does not mean that nothing was done.
It has an error of its own, ``OutcomeUnknown``, so that whoever can reads back what became of it.

There are three kinds of transaction: ``read``, ``write``, and ``guest`` for a SQL sink that wants
its own rows in the same transaction as the positions. Tables are made elsewhere
(``migrations``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, RootTransaction, create_engine, event
from sqlalchemy.exc import DBAPIError

from headrace.errors import ConfigError, OutcomeUnknown
from headrace.store.addresses import Address, parse
from headrace.store.faults import translated

#: how long a writer waits for another one
LOCK_WAIT_S = 30.0
#: how long one statement may take; longer than the wait for a lock, which has the better message
STATEMENT_WAIT_S = 60.0
#: how long a client may sleep inside a transaction before PostgreSQL ends it
_IDLE_WAIT_S = 60.0
_CONNECT_WAIT_S = 10
#: how a machine that is gone is found out: asked after so long without a word, so often in all
_KEEPALIVES = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 35_000,
}
_WRITES = "headrace_writes"


class Database:
    """A pool of connections to one store. Safe in several threads; not to be taken over a fork."""

    def __init__(self, address: Address, engine: Engine) -> None:
        self.address = address
        self.engine = engine
        self._writer = engine.execution_options(**{_WRITES: True})

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
            self._commit(transaction)

    @contextmanager
    def guest(self) -> Iterator[Connection]:
        """As ``write``, but errors of the block itself pass as they are."""
        with translated(self.address):
            connection = self._writer.connect()
        try:
            with translated(self.address):
                transaction = connection.begin()
            yield connection
            with translated(self.address):
                self._commit(transaction)
        finally:
            # Rolls back what was not committed.
            connection.close()

    def _commit(self, transaction: RootTransaction) -> None:
        try:
            transaction.commit()
        except DBAPIError as exc:
            if not exc.connection_invalidated:
                raise
            raise OutcomeUnknown(
                f"store {self.address.shown}: the answer to a commit was lost; "
                "it may have happened or not"
            ) from exc

    def close(self) -> None:
        """Close all connections that are not in use."""
        self.engine.dispose()


def open_database(
    url: str, *, lock_wait_s: float = LOCK_WAIT_S, statement_wait_s: float = STATEMENT_WAIT_S
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
    if address.is_sqlite:
        return Database(address, _sqlite_engine(address, lock_wait_s))
    return Database(address, _postgresql_engine(address, lock_wait_s, statement_wait_s))


def _sqlite_engine(address: Address, lock_wait_s: float) -> Engine:
    _make_file(address)
    engine = create_engine(address.url, connect_args={"timeout": lock_wait_s}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def settle(connection: Any, _record: Any) -> None:
        # The driver's own, late and deferred BEGIN would undo the one below.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_file(address: Address) -> None:
    path = Path(address.url.database or "")
    if str(path).startswith("file:"):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Failed records are kept in it, so it is its owner's alone; SQLite copies the mode. One
        # that is there is let be: to close a descriptor of it would drop this process's locks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600))
    except FileExistsError as exc:
        if not path.is_file():
            raise _no_place(address, os.strerror(errno.EISDIR)) from exc
    except OSError as exc:
        raise _no_place(address, exc.strerror) from exc


def _no_place(address: Address, why: str | None) -> ConfigError:
    return ConfigError(
        f"store {address.shown}: the file cannot be made ({why}); "
        "name a place that this user may write to"
    )


def _postgresql_engine(address: Address, lock_wait_s: float, statement_wait_s: float) -> Engine:
    engine = create_engine(
        address.url,
        connect_args={
            "connect_timeout": _CONNECT_WAIT_S,
            "application_name": "headrace",
            **_KEEPALIVES,
        },
        # A restarted server is met here, not in the middle of a commit.
        pool_pre_ping=True,
        hide_parameters=True,
    )
    # For the transaction alone: a pooler such as PgBouncer may give the session to another.
    reads = _limits({"statement_timeout": statement_wait_s})
    writes = _limits(
        {
            "statement_timeout": statement_wait_s,
            "lock_timeout": lock_wait_s,
            "idle_in_transaction_session_timeout": _IDLE_WAIT_S,
        }
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        is_writer = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql(writes if is_writer else reads)

    return engine


def _limits(seconds: Mapping[str, float]) -> str:
    calls = (f"set_config('{name}', '{limit * 1000:.0f}', true)" for name, limit in seconds.items())
    return f"SELECT {', '.join(calls)}"
