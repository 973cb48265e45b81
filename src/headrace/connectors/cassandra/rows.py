"""From Arrow rows to what a cluster is told: puts and deletes, each with its timestamp.

The timestamp of Cassandra is how new a row is (``newest_by``), never when it is written: so a row
that comes late loses to a newer one, and to a delete, wherever in the cluster they meet. Of what is
as new the larger value stays, cell by cell, and a delete before all. Within one effect that would
mix rows of one key, so of these only the newest is sent, the last of equal ones.

A null that is written is a tombstone, and hides what an older row has there. Where the timestamp
is of the key itself no row of it is older than another, and nulls are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from headrace.connectors.cassandra.description import BUCKET, Description
from headrace.connectors.cassandra.library import library
from headrace.connectors.changes import Change, by_key, demand_sizes, moments
from headrace.connectors.newest_rows import NewestRows
from headrace.errors import SinkRefused
from headrace.payload.exact import dates, decimals, digits_of, named

#: of a row; a node takes half a segment of its commit log, which is 16 MiB unless it is told else
MOST_BYTES: Final = 15 * 2**20
#: of a column of the key
_MOST_KEY_BYTES: Final = 65_535
#: days are counted from the middle of 32 bits
_DAY_ZERO: Final = 2**31
_BITS: Final = struct.Struct(">d").pack


@dataclass(frozen=True, slots=True)
class Rows(NewestRows):
    """Makes changes of the tables that handlers return."""

    description: Description
    week: bool

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that the cluster takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self.changes(output, 0)

    def changes(self, output: pa.Table, version: int | None) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

        Args:
            output: as a handler returned it.
            version: of the last record of its effect.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        says = self.description
        table = self.kept(output, version)
        self._check_key(table)
        try:
            stamps = self.newness(table)
            values = dict(self._values(table))
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        demand_sizes(table, MOST_BYTES, self.where, "node")
        gone: Iterable[Any] = repeat(False)
        if self.delete_by:
            gone = table[self.delete_by].to_pylist()
        puts = zip(*(values[name] for name in says.stored), stamps, strict=True)
        keys = list(zip(*(values[name] for name in says.key), strict=True))
        made = [
            Change(row, is_gone, (stamp, *key) if is_gone else put, stamp)
            for row, (is_gone, put, key, stamp) in enumerate(
                zip(gone, puts, keys, stamps, strict=False)
            )
        ]
        return by_key(made, self._compared(keys))

    def _compared(self, keys: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Keys that are equal where Cassandra's are: 0.0 and -0.0 are two, and NaN is one."""
        if all(self.columns[name] != "double" for name in self.key):
            return keys
        return [tuple(_BITS(v) if isinstance(v, float) else v for v in key) for key in keys]

    def _check_key(self, table: pa.Table) -> None:
        for name in self.key:
            column = table[name]
            if self.columns[name] not in ("text", "bytes") or not len(column):
                continue
            alone = self.description.partition_key == (name,)
            bounds: Any = pc.min_max(pc.binary_length(column)).as_py()
            if bounds["max"] > _MOST_KEY_BYTES or (alone and not bounds["min"]):
                raise SinkRefused(
                    f"{self.where}: column {name!r}: of a key, and empty or longer than "
                    f"{_MOST_KEY_BYTES} bytes"
                )

    def _values(self, table: pa.Table) -> Iterator[tuple[str, list[Any]]]:
        says = self.description
        if says.by_time is not None:
            yield BUCKET, self._buckets(table[says.by_time])
        unset = library().query.UNSET_VALUE if self.newest_by in self.key else None
        for name, kind in self.columns.items():
            if name == self.delete_by:
                continue
            values = named(name, _as_the_client_takes, table[name], kind)
            if unset is not None and table[name].null_count:
                values = [unset if value is None else value for value in values]
            yield name, values

    def _buckets(self, moments: pa.ChunkedArray[Any]) -> list[int]:
        return [_DAY_ZERO + day for day in buckets(moments, week=self.week).to_pylist()]


def buckets(moments: Any, *, week: bool) -> Any:
    """The days, from 1970 on, or the Mondays of the weeks that moments fall into, in UTC."""
    utc = moments.cast(pa.timestamp("us", "UTC"), safe=False)
    floor = pc.floor_temporal(utc, unit="week" if week else "day")
    return floor.cast(pa.timestamp("us")).cast(pa.date32()).cast(pa.int32())


def _as_the_client_takes(column: pa.ChunkedArray[Any], kind: str) -> list[Any]:
    if at.is_null(column.type):
        return [None] * len(column)
    digits = digits_of(kind)
    if digits is not None:
        return decimals(column, digits).to_pylist()
    if kind == "date":
        days = dates(column).cast(pa.int32()).to_pylist()
        return [None if day is None else _DAY_ZERO + day for day in days]
    if kind == "timestamp":
        return moments(column, "ms")
    if column.null_count or kind in ("text", "bytes"):
        return column.to_pylist()
    values: list[Any] = column.to_numpy().tolist()
    return values
