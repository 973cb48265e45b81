"""Getting into the transactions of the store, for whoever has rows in its database.

That the store is in a SQL database is known here and nowhere else: a port says only that it takes
guests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from headrace.ports import HostPositions, Positions

if TYPE_CHECKING:
    from sqlalchemy import Connection


def in_sql(positions: Positions) -> HostPositions[Connection]:
    """The positions of a store in a SQL database, with its transactions."""
    return cast("HostPositions[Connection]", positions)
