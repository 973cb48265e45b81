"""Locking all of some rows without waiting for anybody.

Whoever takes over from a driver that may be asleep in a transaction must not sleep with it. So it
locks what is free, and looks whether that is all there is.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select


def lock_all(connection: Connection, table: Table, wanted: ColumnElement[bool]) -> bool:
    """Whether all rows of a kind are locked now; no, if somebody else has one of them, or had.

    What was added by who had one is found by the second look. SQLite locks the whole file before.
    """
    asked: Any = select(*table.primary_key).where(wanted)
    locked = set(connection.execute(asked.with_for_update(skip_locked=True)).all())
    return locked >= set(connection.execute(asked).all())
