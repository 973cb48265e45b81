"""The store, put together from its parts: every operation of each is one transaction.

Each method of a part (``sql_registry``, ``sql_membership``, ``sql_progress``, ``sql_failures``)
opens the right kind of transaction and calls one function of the room beside it (``tenants``,
``streams``, ``lanes``, ``intents``, ...), which does the work on a connection and knows nothing of
transactions. Which of them follow each other, ``revision`` says.
"""

from __future__ import annotations

from sqlalchemy import select

from headrace.store import revision
from headrace.store.audit import SqlAudit
from headrace.store.database import Database, open_database
from headrace.store.keys import SqlKeys
from headrace.store.migrations import upgrade
from headrace.store.positions import SqlPositions
from headrace.store.schema import secrets
from headrace.store.schema_subjects import SqlSchemaSubjects
from headrace.store.sql_failures import SqlFailures
from headrace.store.sql_membership import SqlMembership
from headrace.store.sql_progress import SqlProgress
from headrace.store.sql_registry import SqlRegistry
from headrace.store.state_shown import SqlKeptState
from headrace.store.statistics import SqlStatistics


def open_store(url: str) -> SqlStore:
    """Open a store; make its tables, or bring them to this version, if need be.

    Args:
        url: ``sqlite:////absolute/path.db`` (its folder is made) or
            ``postgresql://user:password@host/database``.

    Raises:
        ConfigError: the URL, or the place it names, cannot be used.
        StoreTooNew: a later version of Headrace has changed the tables.
        StoreUnavailable: the database does not answer, or is locked.
    """
    database = open_database(url)
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database)


class SqlStore:
    """``headrace.ports.Store`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._registry = SqlRegistry(database)
        self._membership = SqlMembership(database)
        self._progress = SqlProgress(database)
        self._failures = SqlFailures(database)
        self._positions = SqlPositions(database)
        self._kept_state = SqlKeptState(database)
        self._keys = SqlKeys(database)
        self._audit = SqlAudit(database)
        self._statistics = SqlStatistics(database)
        self._schema_subjects = SqlSchemaSubjects(database)

    def __repr__(self) -> str:
        return f"SqlStore({self._database.address.shown})"

    @property
    def registry(self) -> SqlRegistry:
        """Tenants, streams and deployments."""
        return self._registry

    @property
    def membership(self) -> SqlMembership:
        """Drivers, and the streams they hold."""
        return self._membership

    @property
    def progress(self) -> SqlProgress:
        """Where lanes are by decision, and waves written down."""
        return self._progress

    @property
    def failures(self) -> SqlFailures:
        """Failures that are kept."""
        return self._failures

    @property
    def positions(self) -> SqlPositions:
        """The compare-and-set of positions."""
        return self._positions

    @property
    def kept_state(self) -> SqlKeptState:
        """State of keys, to be looked at."""
        return self._kept_state

    @property
    def keys(self) -> SqlKeys:
        """The API keys."""
        return self._keys

    @property
    def audit(self) -> SqlAudit:
        """What was changed by HTTP, and by whom."""
        return self._audit

    @property
    def statistics(self) -> SqlStatistics:
        """What drivers tell of themselves."""
        return self._statistics

    @property
    def schema_subjects(self) -> SqlSchemaSubjects:
        """Schemas that teams agree on."""
        return self._schema_subjects

    def revision(self) -> int:
        """Grows with every change made by an operator, not with commits."""
        with self._database.read() as connection:
            return revision.current(connection)

    def seal_key(self) -> bytes:
        """The random key that seals records sent back."""
        with self._database.read() as connection:
            wanted = select(secrets.c.value).where(secrets.c.name == "seal")
            return bytes(connection.scalars(wanted).one())

    def close(self) -> None:
        """Give up connections."""
        self._database.close()
