"""What a database's error means: try again, or refuse.

Drivers sort their exceptions by the standard's classes, and these do not answer the question:
SQLite calls a locked file and a missing table both ``OperationalError``. The codes below them do.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable

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


def translated(error: DBAPIError, where: str) -> HeadraceError:
    """Say it in the words of ``headrace.errors``; never the values of a row."""
    # Later lines of PostgreSQL quote the row, which belongs to a tenant.
    message = f"{where}: {(str(error.orig).splitlines() or [type(error).__name__])[0]}"
    return SinkUnavailable(message) if _is_temporary(error) else SinkRefused(message)


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
