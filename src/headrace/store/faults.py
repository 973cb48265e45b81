"""Errors of the two database drivers, told as errors of Headrace.

A loop that goes on for a thousand tenants must know whether to wait or to call somebody. Both
drivers raise the same few classes for very different troubles (``OperationalError`` is a busy lock
and a file that is no database), so the decision is made here from SQLite's result codes and
PostgreSQL's SQLSTATE.

What a guest of ``SqlPositions.begin`` does to its own tables is not translated: that is the
guest's to judge.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headrace.databases.addresses import Address
from headrace.errors import HeadraceError, StoreUnavailable, StoreUnusable

_LOCKED = "somebody else held its lock for too long"
#: SQLite's primary result codes that pass by themselves, with what to tell people
_SQLITE_TEMPORARY = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: "the disk is full; free some space, work then goes on by itself",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write; check it",
}
_SQLITE_PERMANENT = {
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; make both writable",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its folder is writable",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; name another one",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
}
#: SQLSTATE codes and classes that pass by themselves, with what to tell people
_POSTGRESQL_TEMPORARY = {
    "08": "the connection was lost",
    "25006": "the server takes no writes now; is it a standby?",
    "25P03": "a transaction was idle for too long and was ended",
    "40": "the transaction lost against another one",
    "53": "the server is short of resources",
    "53100": "the server's disk is full; free some space, work then goes on by itself",
    "55P03": _LOCKED,
    "57014": "a statement took too long, or somebody ended it",
    "57": "the server ended the connection or the statement",
    "58": "the server met an error of its system",
}
_NO_TABLES = "it has no tables of Headrace; open it once with a driver, which makes them"
_POSTGRESQL_PERMANENT = {
    "42P01": _NO_TABLES,
    "42501": "its user has no right to do that; grant it",
}


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Translate what the drivers raise inside the block.

    Raises:
        StoreUnavailable: the store is busy, full or gone for now.
        StoreUnusable: the store cannot be used as it is.
    """
    try:
        yield
    except PoolTimeout as exc:
        raise StoreUnavailable(
            f"store {address.shown}: all connections of this process are in use"
        ) from exc
    except DBAPIError as exc:
        raise _told(exc.orig, address) from exc
    except (sqlite3.Error, psycopg.Error) as exc:
        raise _told(exc, address) from exc


def _told(error: BaseException | None, address: Address) -> HeadraceError:
    kind, why = _judged(error)
    text = address.without_password(" ".join(str(error).split()))
    return kind(f"store {address.shown}: {why} ({text})")


def _judged(error: BaseException | None) -> tuple[type[HeadraceError], str]:
    if isinstance(error, sqlite3.Error):
        return _judged_sqlite(error)
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    if code is None:
        # Without a SQLSTATE nothing came from the server: it was never reached, or it went away.
        return StoreUnavailable, "the server does not answer, or refuses the connection"
    for key in (code, code[:2]):
        if key in _POSTGRESQL_TEMPORARY:
            return StoreUnavailable, _POSTGRESQL_TEMPORARY[key]
    return StoreUnusable, _POSTGRESQL_PERMANENT.get(code, f"it refused the statement, {code}")


def _judged_sqlite(error: sqlite3.Error) -> tuple[type[HeadraceError], str]:
    extended: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & 0xFF
    if code in _SQLITE_TEMPORARY:
        return StoreUnavailable, _SQLITE_TEMPORARY[code]
    if code in _SQLITE_PERMANENT:
        return StoreUnusable, _SQLITE_PERMANENT[code]
    if "no such table" in str(error):
        return StoreUnusable, _NO_TABLES
    return StoreUnusable, "it refused the statement"
