"""From Arrow rows to what a server is told: for each row its key, how new it is, and its fields.

An entry is a hash: a field for each column that is not null, and ``_newest``, by which the script
tells what is newer: a text of a fixed length, since the numbers of scripts are no whole ones above
2^53. What is gone stays as a mark for a while: ``_newest`` and ``_gone``, without data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import Any, Final

import pyarrow as pa

from headrace.connectors.changes import Change, by_key, demand_sizes
from headrace.connectors.exact_texts import joined_keys
from headrace.connectors.newest_rows import NewestRows, by_name, texts_of
from headrace.errors import SinkRefused
from headrace.model.patterns import TENANT
from headrace.payload.exact import named

#: of a row; a server takes 512 MB, and all others of it wait meanwhile
MOST_BYTES: Final = 15 * 2**20
#: so that no number is below 0
_LEAST: Final = 2**63
#: compares two states of a key; each step of it is done alone, by the server's only thread
SCRIPT: Final = """
local there = redis.call('HGET', KEYS[1], '_newest')
if there and there > ARGV[1] then return 0 end
if ARGV[3] ~= '_gone' or not there then
  -- Refused where memory is full; behind the first change to data nothing is any more.
  redis.call('HSET', KEYS[1], '_newest', ARGV[1])
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '_newest', ARGV[1], unpack(ARGV, 3))
if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
"""


@dataclass(frozen=True, slots=True)
class Entries(NewestRows):
    """Makes changes of the tables that handlers return."""

    name: str
    #: milliseconds that entries stay, and marks of what is gone; 0: for ever
    stay_ms: tuple[int, int]

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that a server takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self.changes(output, 0, "")

    def changes(self, output: pa.Table, version: int | None, tenant: str) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

        The values of each are those that the script is given: the key, then its arguments.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        table = self.kept(output, version)
        demand_sizes(table, MOST_BYTES, self.where, "server")
        try:
            newness = self.newness(table)
            texts = {name: named(name, texts_of, table[name], kind) for name, kind in self._kept}
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        keys = self._keys(texts, tenant)
        said = map(self._said, self._gone(table), keys, map(_sortable, newness), _fields(texts))
        return by_key(list(map(Change, count(), self._gone(table), said, newness)), keys)

    @property
    def _kept(self) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in self.columns.items() if name != self.delete_by]

    def _gone(self, table: pa.Table) -> Any:
        return table[self.delete_by].to_pylist() if self.delete_by else repeat(False)

    def _keys(self, texts: Mapping[str, list[Any]], tenant: str) -> list[str]:
        name = self.name.replace(TENANT, tenant)
        return [f"{name}:{key}" for key in joined_keys([texts[column] for column in self.key])]

    def _said(self, gone: bool, key: str, newest: str, fields: Sequence[Any]) -> tuple[Any, ...]:
        entry_ms, mark_ms = self.stay_ms
        return (key, newest, mark_ms, "_gone", "1") if gone else (key, newest, entry_ms, *fields)


def _fields(texts: Mapping[str, list[Any]]) -> Iterator[Sequence[Any]]:
    """Of each row names and texts in turn, without those that are null."""
    if any(None in column for column in texts.values()):
        return (list(chain.from_iterable(row.items())) for row in by_name(texts))
    pairs = ((repeat(name), column) for name, column in texts.items())
    return zip(*chain.from_iterable(pairs), strict=False)


def _sortable(number: int) -> str:
    return f"{number + _LEAST:020d}"
