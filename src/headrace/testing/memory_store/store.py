"""The store in memory, put together from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.testing.memory_store.data import Data
from headrace.testing.memory_store.failures import MemoryFailures
from headrace.testing.memory_store.kept_state import MemoryKeptState
from headrace.testing.memory_store.keys import MemoryAudit, MemoryKeys
from headrace.testing.memory_store.membership import MemoryMembership
from headrace.testing.memory_store.positions import MemoryPositions
from headrace.testing.memory_store.progress import MemoryProgress
from headrace.testing.memory_store.registry import MemoryRegistry
from headrace.testing.memory_store.schema_subjects import MemorySchemaSubjects
from headrace.testing.statistics_fake import MemoryStatistics


class MemoryStore:
    """``headrace.ports.Store`` in memory.

    Attributes:
        data: what it holds; give it to another store to have a second connection to it.
        registry: tenants, streams and deployments.
        membership: drivers, and what they hold.
        progress: where lanes are by decision, and waves written down.
        failures: those that are kept.
        positions: the compare-and-set.
        kept_state: state of keys, to be looked at.
        keys: the API keys.
        audit: what was changed by HTTP.
        statistics: what drivers told.
        schema_subjects: schemas that teams agree on.
    """

    def __init__(self, data: Data | None = None) -> None:
        self.data = data or Data()
        self.registry = MemoryRegistry(self.data)
        self.membership = MemoryMembership(self.data)
        self.progress = MemoryProgress(self.data)
        self.failures = MemoryFailures(self.data)
        self.positions = MemoryPositions(self.data)
        self.kept_state = MemoryKeptState(self.data.state)
        self.keys = MemoryKeys(self.data)
        self.audit = MemoryAudit(self.data)
        self.statistics = MemoryStatistics(self.data.told)
        self.schema_subjects = MemorySchemaSubjects(self.data)

    def revision(self) -> int:
        """Grows with every change made by an operator."""
        return self.data.revision

    def seal_key(self) -> bytes:
        """The random key that seals records sent back."""
        return self.data.seal_key

    def close(self) -> None:
        """Nothing to give up."""

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """What guests inserted into a table, in the order of their commits."""
        return list(self.data.tables.get(table, ()))
