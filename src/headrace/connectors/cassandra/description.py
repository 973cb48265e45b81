"""A table of Cassandra as its sink describes it: names, kinds, key, and the statements of these.

A partition is what one reader reads and one node holds, so it must not grow for ever. Where rows
have a time, the day or the week that it falls into, in UTC, becomes a part of the partition: the
column ``bucket``, which this sink fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.connectors.newest import VERSION
from headrace.payload.exact import digits_of

BUCKET: Final = "bucket"
#: kind of a column -> type in a table that is made, and those that keep every value or refuse it
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "bigint": ("bigint", "int", "varint"),
    "double": ("double",),
    "boolean": ("boolean",),
    "bytes": ("blob",),
    "timestamp": ("timestamp",),
    "date": ("date",),
    VERSION: ("bigint", "varint"),
}


def types_of(kind: str) -> tuple[str, ...]:
    """The types that may hold a kind of column; the first is that of a table that is made."""
    return ("decimal",) if digits_of(kind) is not None else _TYPES[kind]


@dataclass(frozen=True, slots=True)
class Description:
    """A table: its columns and its key."""

    name: str
    keyspace: str
    #: as the handler returns them, by kind
    columns: Mapping[str, str] = field(hash=False)
    #: of the key, those that make the partition, and the others in their order
    partition: tuple[str, ...]
    clustering: tuple[str, ...]
    #: the column whose day or week is a part of the partition
    by_time: str | None
    delete_by: str | None
    ttl_s: int | None

    @property
    def stored(self) -> dict[str, str]:
        """The columns of the table, by kind."""
        bucket = {BUCKET: "date"} if self.by_time is not None else {}
        columns = {name: kind for name, kind in self.columns.items() if name != self.delete_by}
        return {**bucket, **columns}

    @property
    def read_back(self) -> dict[str, str]:
        """The columns as they are read back, by kind: those that the handler returned."""
        return {name: kind for name, kind in self.stored.items() if name in self.columns}

    @property
    def partition_key(self) -> tuple[str, ...]:
        """The columns of the partition, the bucket among them."""
        return (*self.partition, *((BUCKET,) if self.by_time is not None else ()))

    @property
    def key(self) -> tuple[str, ...]:
        """All columns that tell a row from others."""
        return (*self.partition_key, *self.clustering)

    @property
    def full_name(self) -> str:
        """The table with its keyspace, as statements say it."""
        return f'"{self.keyspace}"."{self.name}"'

    @property
    def create(self) -> str:
        """What makes the table."""
        columns = ", ".join(f'"{n}" {types_of(kind)[0]}' for n, kind in self.stored.items())
        partition = f"({listed(self.partition_key)})"
        key = ", ".join([partition, *([listed(self.clustering)] if self.clustering else [])])
        return f"CREATE TABLE IF NOT EXISTS {self.full_name} ({columns}, PRIMARY KEY ({key}))"

    @property
    def put(self) -> str:
        """What writes a row: the values of ``stored``, then the timestamp."""
        marks = ", ".join("?" * len(self.stored))
        ttl = f" AND TTL {self.ttl_s}" if self.ttl_s is not None else ""
        return (
            f"INSERT INTO {self.full_name} ({listed(self.stored)}) VALUES ({marks}) "  # noqa: S608 - names that were checked
            f"USING TIMESTAMP ?{ttl}"
        )

    @property
    def delete(self) -> str:
        """What takes a row away: the timestamp, then the values of ``key``."""
        where = " AND ".join(f'"{name}" = ?' for name in self.key)
        return f"DELETE FROM {self.full_name} USING TIMESTAMP ? WHERE {where}"  # noqa: S608 - the same


def listed(names: Iterable[str]) -> str:
    """Names, as statements say them."""
    return ", ".join(f'"{name}"' for name in names)
