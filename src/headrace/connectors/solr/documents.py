"""From Arrow rows to documents of Solr: each with its id, how new it is, and its fields.

How new it is stands in a field of its own, as a number, whatever it is told by: a moment of Solr
has milliseconds, and two rows of one would be as new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson
import pyarrow as pa

from headrace.connectors.changes import Change, by_key, moments, puts
from headrace.connectors.json_rows import JsonRows
from headrace.connectors.newest_rows import by_name
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

    def changes(self, output: pa.Table, version: int | None) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

        The value of each is a document.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        ids, newness, values = self.json_columns(output, version, "Solr")
        for name, kind in self.columns.items():
            if kind == "timestamp":
                self._demand_whole(output, name)
            elif kind == "date":
                values[name] = [day and f"{day}T00:00:00Z" for day in values[name]]
        documents = map(orjson.dumps, by_name({**values, ID: ids, NEWNESS: newness}))
        return by_key(puts(zip(documents), newness), ids)

    def _demand_whole(self, output: pa.Table, name: str) -> None:
        try:
            moments(output[name], "ms")
        except ValueError as error:
            raise SinkRefused(f"{self.where}: column {name!r}: {error}") from error
