"""From Arrow rows to items: for each row its tenant, its key, how new it is, and its attributes.

The tenant of the stream is the partition key, whatever a handler returns and however tables are
called, so no two tenants have an item in common. The sort key is a text made of the columns of
``key``. By ``_newest`` the service tells what is newer. What is gone stays as an item without data,
so that an older row does not bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as at

from headrace.connectors.changes import Change, by_key, demand_key_sizes, puts
from headrace.connectors.exact_texts import demand_finite, exact_texts, joined_keys
from headrace.connectors.newest import VERSION
from headrace.connectors.newest_rows import NewestRows, by_name
from headrace.errors import SinkRefused
from headrace.payload.exact import digits_of, named

#: attributes of each item; no column begins so
TENANT_KEY, ROW_KEY, NEWEST = "_tenant", "_key", "_newest"
#: of an item, names included
MOST_BYTES: Final = 400 * 1024
_MOST_KEY_BYTES: Final = 1024
#: an attribute as the service is told: its type, and its value
Attribute = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Items(NewestRows):
    """Makes items of the tables that handlers return."""

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that the service takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        for newest in self.changes(output, 0, ""):
            for change in newest.all_of_its_key:
                if problem := self.size_problem(change):
                    raise problem

    def changes(self, output: pa.Table, version: int | None, tenant: str) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

        The one value of each is the item.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        table = self.kept(output, version)
        try:
            newness = self.newness(table)
            values = {
                name: named(name, _attributes, table[name], kind)
                for name, kind in self.columns.items()
            }
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        keys = joined_keys([[_text(value) for value in values[name]] for name in self.key])
        demand_key_sizes(keys, _MOST_KEY_BYTES, self.where, "DynamoDB")
        filled = {
            TENANT_KEY: [{"S": tenant}] * len(keys),
            ROW_KEY: [{"S": key} for key in keys],
            NEWEST: [{"N": str(number)} for number in newness],
        }
        return by_key(puts(zip(by_name({**values, **filled})), newness), keys)

    def size_problem(self, change: Change) -> SinkRefused | None:
        """Why a row is certainly too large; None if it may be taken, which the service says."""
        (item,) = change.values
        if _least_bytes(item) <= MOST_BYTES:
            return None
        return SinkRefused(
            f"{self.where}: row {change.row} is larger than the 400 KB that an item may have"
        )


def _attributes(column: pa.ChunkedArray[Any], kind: str) -> list[Attribute | None]:
    if at.is_null(column.type):
        return [None] * len(column)
    letter = _letter(kind)
    return [None if value is None else {letter: value} for value in _values(column, kind)]


def _letter(kind: str) -> str:
    if kind in ("bigint", "double", VERSION) or digits_of(kind) is not None:
        return "N"
    return {"boolean": "BOOL", "bytes": "B"}.get(kind, "S")


def _values(column: pa.ChunkedArray[Any], kind: str) -> list[Any]:
    texts = exact_texts(column, kind)
    if texts is not None:
        return texts
    if kind in ("bigint", VERSION):
        return list(column.cast(pa.int64()).cast(pa.string()).to_pylist())
    found: list[Any] = column.to_pylist()
    if kind != "double":
        return found
    demand_finite(found, "DynamoDB")
    return [None if value is None else repr(value) for value in found]


def _text(value: Attribute | None) -> str:
    assert value is not None, "a key has no null"
    return str(next(iter(value.values())))


def _least_bytes(item: Mapping[str, Attribute]) -> int:
    """What an item takes at least: all of its texts and bytes, and something of each number."""
    return sum(len(name) + _size(value) for name, value in item.items())


def _size(attribute: Attribute) -> int:
    value = next(iter(attribute.values()))
    if "S" in attribute:
        return len(value.encode())
    return len(value) if "B" in attribute else 1
