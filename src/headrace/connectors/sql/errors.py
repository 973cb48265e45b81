"""What a database's error means: try again, refuse the rows, or mend the table.

Drivers sort their exceptions by the standard's classes, and these do not answer the question:
SQLite calls a locked file and a missing table both ``OperationalError``. The codes below them do.

For a table that is gone, or a right that was taken away, no record is to blame, whatever it holds:
its lanes stop, and none of their records is set aside.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from headrace.connectors.sql import mysql_errors
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

#: primary result codes of SQLite for a file that is locked, full or not to be reached right now
_SQLITE_TEMPORARY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
}
#: SQLSTATE classes: connection, read-only (a replica), rollback and deadlock, resources, not in
#: the right state (a lock not to be had), intervention, system
_SQLSTATE_TEMPORARY = {"08", "25", "40", "53", "55", "57", "58"}
#: for a file that may not be written to, or is no database
_SQLITE_MISSING = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
}
_SQLITE_MISSING_WORDS = ("no such table", "has no column named", "no such column")
#: SQLSTATE classes: not let in, no such database, no such schema, and what is wrong with a
#: statement whatever its values are: no such table or column, one of another type, no right
_SQLSTATE_MISSING = {"28", "3D", "3F", "42"}


def translated(error: DBAPIError, where: str) -> HeadraceError:
    """Say it in the words of ``headrace.errors``; never the values of a row."""
    if mysql_errors.is_mysqls(error):
        return mysql_errors.translated(error, where)
    # Later lines of PostgreSQL quote the row, which belongs to a tenant.
    message = f"{where}: {(str(error.orig).splitlines() or [type(error).__name__])[0]}"
    if _is_missing(error):
        return TargetMissing(message)
    return SinkUnavailable(message) if _is_temporary(error) else SinkRefused(message)


def _is_missing(error: DBAPIError) -> bool:
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        said = str(error.orig)
        return code & 0xFF in _SQLITE_MISSING or any(word in said for word in _SQLITE_MISSING_WORDS)
    state = getattr(error.orig, "sqlstate", None) or ""
    return state[:2] in _SQLSTATE_MISSING


def _is_temporary(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _SQLITE_TEMPORARY
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return state[:2] in _SQLSTATE_TEMPORARY
    # No code at all: the connection itself failed.
    return isinstance(error, OperationalError | InterfaceError)
