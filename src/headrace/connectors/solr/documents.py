"""From Arrow rows to documents of Solr: each with its id, how new it is, and its fields.

How new it is stands in a field of its own, as a number, whatever it is told by: a moment of Solr
has milliseconds, and two rows of one would be as new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson
import pyarrow as pa

from headrace.connectors.changes import Change, by_key, moments
from headrace.connectors.json_rows import JsonRow, JsonRows
from headrace.errors import SinkRefused

#: fields that each collection has beside those of its columns
ID: Final = "id"
NEWNESS: Final = "headrace_version"


@dataclass(frozen=True, slots=True)
class SolrDocuments(JsonRows):
    """Makes documents of the tables that handlers return."""

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that a Solr takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self.changes(output, 0)

    def changes(self, output: pa.Table, version: int | None) -> list[list[Change]]:
        """The changes of a table: for each key those of it, from the oldest to the newest.

        The value of each is a document.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        rows = self.json_rows(output, version, "Solr")
        for name, kind in self.columns.items():
            if kind == "timestamp":
                self._demand_whole(output, name)
        days = [name for name, kind in self.columns.items() if kind == "date"]
        return by_key([_change(row, days) for row in rows], [row.id for row in rows])

    def _demand_whole(self, output: pa.Table, name: str) -> None:
        try:
            moments(output[name], "ms")
        except ValueError as error:
            raise SinkRefused(f"{self.where}: column {name!r}: {error}") from error


def _change(row: JsonRow, days: list[str]) -> Change:
    document = {**row.fields, ID: row.id, NEWNESS: row.newness}
    for name in days:
        if name in document:
            document[name] += "T00:00:00Z"
    return Change(row.row, False, (orjson.dumps(document),), row.newness)
