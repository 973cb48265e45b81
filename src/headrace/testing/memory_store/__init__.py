"""A store in memory that is exact and quick.

A simulation runs millions of turns, and a database would take most of that time for what is not
looked for: SQL, files and locks. So this one keeps the same promises in dictionaries, held to the
same contract suites, with one lock in place of transactions. Guests of ``positions.begin`` get a
transaction that can keep rows too, so that a sink in the store's own database has its fake as well.

Each part of the port is a class of its own, and all share one ``Data``. Nothing survives the
process.
"""

from headrace.testing.memory_store.data import Data
from headrace.testing.memory_store.failures import MemoryFailures
from headrace.testing.memory_store.keys import MemoryAudit, MemoryKeys
from headrace.testing.memory_store.membership import MemoryMembership
from headrace.testing.memory_store.positions import MemoryPositions, MemoryTransaction
from headrace.testing.memory_store.progress import MemoryProgress
from headrace.testing.memory_store.registry import MemoryRegistry
from headrace.testing.memory_store.schema_subjects import MemorySchemaSubjects
from headrace.testing.memory_store.store import MemoryStore

__all__ = [
    "Data",
    "MemoryAudit",
    "MemoryFailures",
    "MemoryKeys",
    "MemoryMembership",
    "MemoryPositions",
    "MemoryProgress",
    "MemoryRegistry",
    "MemorySchemaSubjects",
    "MemoryStore",
    "MemoryTransaction",
]
