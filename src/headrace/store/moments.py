"""What time it is for the store: by the clock of its database, and no driver's or task's.

A position notes when it was moved. Whoever moves it may be on any machine, and clocks of machines
differ; so the database says when it is, and also how long ago that was. Drivers of an earlier
version move positions and note nothing, so beside the time stands where the position was moved to.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, literal_column

#: seconds since 1970, as each database has them
SQLITE_NOW_S = "((julianday('now') - 2440587.5) * 86400.0)"
POSTGRES_NOW_S = "CAST(extract(epoch FROM statement_timestamp()) AS double precision)"


def now_s(connection: Connection) -> ColumnElement[float]:
    """Seconds since 1970, for a statement on this connection."""
    is_sqlite = connection.dialect.name == "sqlite"
    return literal_column(SQLITE_NOW_S if is_sqlite else POSTGRES_NOW_S, Double())


def moved(connection: Connection, to: Any) -> dict[str, Any]:
    """What is written of a position that is moved: ``to`` is a place, or a column that has it."""
    return {"next_offset": to, "moved_to": to, "moved_s": now_s(connection)}
