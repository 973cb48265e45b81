"""One database, opened with the settings that exactness needs.

Both databases come with habits that are wrong here. SQLite begins a transaction as a reader and
may fail half-way when it wants to write, forgets foreign keys, and leaves out an fsync; so every
write begins with ``BEGIN IMMEDIATE``, waits its turn, and is on the disk when it returns.
PostgreSQL waits for a lock for ever, lets a statement run for ever, and waits as long for a client
that vanished inside a transaction; and a client waits for ever for a machine that is gone, or for a
server that says nothing (``patience``). So all these waits end. MariaDB and MySQL have more habits,
and a module of their own (``mysql``).

What an error means is not said here.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event

from headrace.databases.addresses import Address
from headrace.databases.deadline import IN_TIME, Deadline
from headrace.databases.patience import PatientConnection
from headrace.errors import CodeNotLoaded, ConfigError

#: how long a client may sleep inside a transaction before its server ends it
_IDLE_WAIT_S = 60.0
#: how a machine that is gone is found out: asked after so long without a word, so often in all
_KEEPALIVES = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 35_000,
}
_WRITES = "headrace_writes"
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Waits:
    """How long is waited for others."""

    #: a writer for another one
    lock_s: float = 30.0
    #: one statement of PostgreSQL; longer than the wait for a lock, which has the better message
    statement_s: float = 60.0
    #: until a server has let us in
    connect_s: int = 10
    #: how long a server may say nothing: beyond the time of a statement, which it ends itself
    silence_s: float = 5.0
    #: the same when it is only asked whether it is there
    silence_in_pool_s: float = 10.0


#: A commit that a killed server forgets is none; whoever waits for a standby too goes on doing so.
_DURABLE = (
    ", set_config('synchronous_commit', "
    "coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)"
)


def engine_of(
    address: Address, waits: Waits, whose: str = "store", deadline: Deadline | None = None
) -> Engine:
    """A pool of connections; nothing is contacted before the first transaction.

    Args:
        address: of the database.
        waits: for each thing that others can hold up.
        whose: names it in messages.
        deadline: by which everything is over that its thread does; None: there is none.

    Raises:
        ConfigError: the folder of a SQLite file cannot be made.
        CodeNotLoaded: the client of MariaDB and MySQL is not installed.
    """
    if address.is_sqlite:
        _make_file(address, whose)
        return _sqlite_engine(address, waits, deadline)
    if address.is_mysql:
        return _mysql_engine(address, waits, deadline or Deadline())
    return _postgresql_engine(address, waits, deadline or Deadline())


def writer_of(engine: Engine) -> Engine:
    """The same, for transactions that write."""
    return engine.execution_options(**{_WRITES: True})


def wait_for_ever(connection: Connection) -> None:
    """Let the statements of this transaction on PostgreSQL take as long as they take."""
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
    driver = connection.connection.driver_connection
    assert isinstance(driver, PatientConnection), "all of our engines make such"
    driver.patience_s = float("inf")


def _sqlite_engine(address: Address, waits: Waits, deadline: Deadline | None) -> Engine:
    engine = create_engine(
        address.url, connect_args={"timeout": waits.lock_s}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def settle(connection: Any, _record: Any) -> None:
        # The driver's own, late and deferred BEGIN would undo the one below.
        connection.isolation_level = None
        _write_ahead(connection, deadline.left_s(waits.lock_s) if deadline else waits.lock_s)
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        if deadline is not None:
            lock_ms = deadline.left_s(waits.lock_s) * 1000
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {lock_ms:.0f}").close()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection, lock_s: float) -> None:
    """Have a log that is written ahead; of two that open a new file at once the second one waits.

    SQLite itself waits for no lock here, whatever time it was given.
    """
    until_s = time.monotonic() + lock_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= until_s:
                raise
            time.sleep(_LOOK_EVERY_S)
        else:
            return


def _make_file(address: Address, whose: str) -> None:
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
            raise _no_place(address, os.strerror(errno.EISDIR), whose) from exc
    except OSError as exc:
        raise _no_place(address, exc.strerror, whose) from exc


def _no_place(address: Address, why: str | None, whose: str) -> ConfigError:
    return ConfigError(
        f"{whose} {address.shown}: the file cannot be made ({why}); "
        "name a place that this user may write to"
    )


def _postgresql_engine(address: Address, waits: Waits, deadline: Deadline) -> Engine:
    engine = create_engine(
        address.url,
        connect_args={
            "connect_timeout": waits.connect_s,
            "application_name": "headrace",
            **_KEEPALIVES,
        },
        # A restarted server is met here, not in the middle of a commit.
        pool_pre_ping=True,
        hide_parameters=True,
    )
    _be_patient(engine, waits, deadline)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # For the transaction alone: a pooler such as PgBouncer may give the session to another.
        limits = {"statement_timeout": deadline.servers_s(waits.statement_s)}
        if writes := connection.get_execution_options().get(_WRITES):
            limits["lock_timeout"] = deadline.servers_s(waits.lock_s)
            limits["idle_in_transaction_session_timeout"] = _IDLE_WAIT_S
        connection.exec_driver_sql(_limits(limits, _DURABLE if writes else ""))

    return engine


def _mysql_engine(address: Address, waits: Waits, deadline: Deadline) -> Engine:
    try:
        from headrace.databases import mysql  # noqa: PLC0415 - only who writes to one needs it
    except ImportError as error:
        raise CodeNotLoaded(
            "MariaDB and MySQL need PyMySQL, which is not here: pip install 'headrace[mysql]'"
        ) from error
    return mysql.engine_of(
        address,
        mysql.Limits(
            connect_s=waits.connect_s,
            lock_s=waits.lock_s,
            statement_s=waits.statement_s,
            silence_s=waits.statement_s + waits.silence_s,
            idle_s=_IDLE_WAIT_S,
        ),
        deadline,
    )


def _be_patient(engine: Engine, waits: Waits, deadline: Deadline) -> None:
    patience_s, in_pool_s = waits.statement_s + waits.silence_s, waits.silence_in_pool_s

    class OfPool(PatientConnection):
        pass

    OfPool.deadline = deadline

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: Any, options: Any) -> PatientConnection:
        def connected() -> OfPool:
            return OfPool.connect(*args, **options)

        try:
            made: OfPool = deadline.connected(connected)
        except TimeoutError:
            raise psycopg.OperationalError(f"it did not let in {IN_TIME}") from None
        return made

    @event.listens_for(engine, "checkout")
    def begins(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.patience_s = patience_s

    @event.listens_for(engine, "checkin")
    def ends(connection: Any, _record: Any) -> None:
        # What comes next on it is the question whether the server is there.
        if connection is not None:
            connection.patience_s = in_pool_s


def _limits(seconds: Mapping[str, float], more: str) -> str:
    calls = (f"set_config('{name}', '{limit * 1000:.0f}', true)" for name, limit in seconds.items())
    return f"SELECT {', '.join(calls)}{more}"
