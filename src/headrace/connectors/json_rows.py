"""From Arrow rows to documents of JSON: for each row its id, how new it is, and its fields.

For targets that have documents, each under an id of text. A null is a field that is not there. How
a document is told to its target is the sink's own.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.types as at

from headrace.connectors.changes import demand_key_sizes, demand_sizes
from headrace.connectors.exact_texts import demand_finite, exact_texts, joined_keys
from headrace.connectors.newest_rows import NewestRows
from headrace.errors import SinkRefused
from headrace.payload.exact import named

#: of a row; servers take requests of a little more
MOST_BYTES: Final = 15 * 2**20
#: of an id
_MOST_ID_BYTES: Final = 512


class JsonColumns(NamedTuple):
    """The rows of a table, as documents have them, column by column."""

    ids: list[str]
    newness: list[int]
    #: by name
    values: dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class JsonRows(NewestRows):
    """Makes documents of the tables that handlers return."""

    def json_columns(self, output: pa.Table, version: int | None, taker: str) -> JsonColumns:
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
            ids = joined_keys([list(map(str, values[name])) for name in self.key])
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        demand_key_sizes(ids, _MOST_ID_BYTES, self.where, taker)
        return JsonColumns(ids, newness, values)


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
        demand_finite(found, "JSON")
    return found
