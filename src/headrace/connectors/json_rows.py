"""From Arrow rows to documents of JSON: for each row its id, how new it is, and its fields.

For targets that have documents, each under an id of text. A null is a field that is not there. How
a document is told to its target is the sink's own.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.types as at

from headrace.connectors.changes import demand_sizes
from headrace.connectors.exact_texts import exact_texts, joined_keys
from headrace.connectors.newest_rows import NewestRows
from headrace.errors import SinkRefused
from headrace.payload.exact import named

#: of a row; servers take requests of a little more
MOST_BYTES: Final = 15 * 2**20
#: of an id
_MOST_ID_BYTES: Final = 512


class JsonRow(NamedTuple):
    """A row, as documents have it."""

    row: int
    id: str
    newness: int
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JsonRows(NewestRows):
    """Makes documents of the tables that handlers return."""

    def json_rows(self, output: pa.Table, version: int | None, taker: str) -> list[JsonRow]:
        """The rows of a table.

        Args:
            output: as the handler returned it.
            version: of its effect.
            taker: what takes documents, as messages call it.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        table = self.kept(output, version)
        demand_sizes(table, MOST_BYTES, self.where, taker)
        try:
            newness = self.newness(table)
            kinds = self.columns.items()
            values = {name: named(name, _as_json, table[name], of) for name, of in kinds}
            ids = joined_keys([[str(value) for value in values[name]] for name in self.key])
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        self._check_ids(ids)
        found = zip(ids, newness, _fields(values), strict=True)
        return [JsonRow(row, *of_row) for row, of_row in enumerate(found)]

    def _check_ids(self, ids: list[str]) -> None:
        for row, key in enumerate(ids):
            if not 0 < len(key.encode()) <= _MOST_ID_BYTES:
                raise SinkRefused(
                    f"{self.where}: row {row}: its key is empty, or longer than {_MOST_ID_BYTES} "
                    "bytes"
                )


def _fields(values: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    names = list(values)
    for of_row in zip(*values.values(), strict=True):
        fields = zip(names, of_row, strict=True)
        yield {name: value for name, value in fields if value is not None}


def _as_json(column: pa.ChunkedArray[Any], kind: str) -> list[Any]:
    if at.is_null(column.type):
        return [None] * len(column)
    texts = exact_texts(column, kind)
    if texts is not None:
        return texts
    found: list[Any] = column.to_pylist()
    if kind == "bytes":
        return [None if value is None else base64.b64encode(value).decode() for value in found]
    if kind == "double":
        for row, value in enumerate(found):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"row {row}: JSON has only numbers that are finite")
    return found
