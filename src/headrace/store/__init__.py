"""What must be exact: tenants, streams, positions, epochs, intents, deployments, failures.

Kafka keeps the records and Spark does the work; the little that decides whether a record is lost
or done twice is kept here, in SQLite on one machine or PostgreSQL on many. Both pass the same
contract suites, those of ``headrace.testing.store_contract``.

Start at ``open_store``. The driver holds the whole ``SqlStore``; a task gets only its positions,
through ``SqlPositionsFactory``. Records are not kept here, save those that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.late_imports import imported_late

if TYPE_CHECKING:
    from headrace.store.known_tenants import SqlTenants, SqlTenantsFactory
    from headrace.store.positions import SqlPositions, SqlPositionsFactory
    from headrace.store.sql_store import SqlStore, open_store

__all__ = [
    "SqlPositions",
    "SqlPositionsFactory",
    "SqlStore",
    "SqlTenants",
    "SqlTenantsFactory",
    "open_store",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of it
    __getattr__, __dir__ = imported_late(
        __name__,
        {
            "headrace.store.known_tenants": (
                "SqlTenants",
                "SqlTenantsFactory",
            ),
            "headrace.store.positions": (
                "SqlPositions",
                "SqlPositionsFactory",
            ),
            "headrace.store.sql_store": (
                "SqlStore",
                "open_store",
            ),
        },
    )
