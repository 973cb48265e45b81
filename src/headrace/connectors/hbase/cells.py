"""From Arrow rows to what a table is told: for each row its key, its timestamp, and its cells.

A cell is a column that is not null, as text, written at how new its row is. A null takes away what
older rows had in that column, and a row that is gone takes away all of its family; both at the same
timestamp, so that what is older stays hidden by them, whenever it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.changes import Change, by_key, demand_sizes
from headrace.connectors.exact_texts import joined_keys
from headrace.connectors.newest_rows import NewestRows, texts_of
from headrace.errors import SinkRefused
from headrace.model.patterns import TENANT
from headrace.payload.exact import named

#: of a row; HBase takes no cell that is larger, unless it is told to
MOST_BYTES: Final = 10 * 2**20
_LONGEST_KEY: Final = 2**15 - 1
#: this one and above: HBase takes it for its own clock
_NOW: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cells(NewestRows):
    """Makes changes of the tables that handlers return."""

    #: what row keys begin with
    prefix: str
    family: str

    @property
    def names(self) -> list[str]:
        """The columns that become cells, in the order of values."""
        return [name for name in self.columns if name != self.delete_by]

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that HBase takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self.changes(output, 0, "")

    def changes(self, output: pa.Table, version: int | None, tenant: str) -> list[list[Change]]:
        """The changes of a table: for each key those of it, from the oldest to the newest.

        The values of each are the key of its row, then its cells in the order of ``names``.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        table = self.kept(output, version)
        demand_sizes(table, MOST_BYTES, self.where, "HBase")
        try:
            newness = self.newness(table)
            texts = {
                name: named(name, texts_of, table[name], self.columns[name]) for name in self.names
            }
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        prefix = self.prefix.replace(TENANT, tenant)
        joined = joined_keys([texts[column] for column in self.key])
        keys = [f"{prefix}{key}".encode() for key in joined]
        self._demand(keys, newness)
        gone: Any = table[self.delete_by].to_pylist() if self.delete_by else repeat(False)
        cells = zip(*([_bytes(text) for text in column] for column in texts.values()), strict=True)
        rows = zip(keys, newness, gone, cells, strict=False)
        made = [
            Change(row, is_gone, (key, *values), number)
            for row, (key, number, is_gone, values) in enumerate(rows)
        ]
        return by_key(made, keys)

    def _demand(self, keys: list[bytes], newness: list[int]) -> None:
        for row, (key, number) in enumerate(zip(keys, newness, strict=True)):
            if not 0 <= number < _NOW:
                raise SinkRefused(
                    f"{self.where}: column {self.newest_by!r}, row {row}: it is no timestamp of "
                    f"HBase, which are from 0 to {_NOW - 1}; moments and days count from 1970"
                )
            if not 0 < len(key) <= _LONGEST_KEY:
                raise SinkRefused(
                    f"{self.where}: row {row}: its key has {len(key)} bytes; HBase takes from 1 to "
                    f"{_LONGEST_KEY}"
                )


def _bytes(text: Any) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
