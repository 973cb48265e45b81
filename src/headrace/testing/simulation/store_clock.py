"""Letting a store tell the time of a run.

A store asks its database what time it is, so no clock of a driver decides how long a stream was
left alone. In a run time is virtual, and goes minutes in a moment: a database with a clock of its
own would never see a stream left alone. So SQLite is given the run's, in the place of the function
that it is asked by; in memory it is a field.
"""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection
from typing import Any

from sqlalchemy import event

from headrace.connectors.sql.guests import in_sql
from headrace.ports import Store
from headrace.testing.memory_store import MemoryStore

#: day number of 1970 as SQLite counts
_EPOCH_DAY = 2_440_587.5
_DAY_S = 86_400.0


def tell_time(store: Store, now_s: Callable[[], float]) -> None:
    """Let a store take a clock for that of its database."""
    if isinstance(store, MemoryStore):
        store.data.now_s = now_s
        return

    def opened(connection: Connection, _record: Any) -> None:
        connection.create_function("julianday", 1, lambda _: _EPOCH_DAY + now_s() / _DAY_S)

    with in_sql(store.positions).begin() as connection:
        engine = connection.engine
    event.listen(engine.pool, "connect", opened)
    engine.dispose()  # what is open has the clock of this machine
