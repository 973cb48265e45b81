"""From Arrow rows to what a table is told: for each row its key, its timestamp, and its cells.

A cell is a column that is not null, as text, written at how new its row is. A null takes away what
older rows had in that column, and a row that is gone takes away all of its family; both at the same
timestamp, so that what is older stays hidden by them, whenever it comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, repeat
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.changes import Change, by_key, demand_key_sizes, demand_sizes
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

    def changes(self, output: pa.Table, version: int | None, tenant: str) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

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
        self._demand_timestamps(newness)
        demand_key_sizes(keys, _LONGEST_KEY, self.where, "HBase")
        gone: Any = table[self.delete_by].to_pylist() if self.delete_by else repeat(False)
        values = zip(keys, *map(_as_bytes, texts.values()), strict=True)
        return by_key(list(map(Change, count(), gone, values, newness)), keys)

    def _demand_timestamps(self, newness: list[int]) -> None:
        for row, number in enumerate(newness):
            if not 0 <= number < _NOW:
                raise SinkRefused(
                    f"{self.where}: column {self.newest_by!r}, row {row}: it is no timestamp of "
                    f"HBase, which are from 0 to {_NOW - 1}; moments and days count from 1970"
                )


def _as_bytes(texts: list[Any]) -> list[bytes | None]:
    return [text.encode() if isinstance(text, str) else text for text in texts]
