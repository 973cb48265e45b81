"""From Arrow rows to documents: for each row its id, its version, and its fields.

The version is how new a row is (``newest_by``), and the cluster itself keeps a document that is
newer: ``external_gte``. What is gone stays as a document without data, since a cluster forgets
within a minute what it deleted, and an older row would come back.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import pyarrow as pa

from headrace.connectors.changes import Change, by_key
from headrace.connectors.json_rows import JsonRow, JsonRows
from headrace.errors import SinkRefused


@dataclass(frozen=True, slots=True)
class Documents(JsonRows):
    """Makes documents of the tables that handlers return."""

    def check(self, output: pa.Table) -> None:
        """See that a table has the columns, and values that a cluster takes.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a value does not fit; the message names column and row.
        """
        self.changes(output, 0, "index")

    def changes(self, output: pa.Table, version: int | None, index: str) -> list[list[Change]]:
        """The changes of a table: for each key those of it, from the oldest to the newest.

        The values of each are two lines of a bulk request.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        rows = self.json_rows(output, version, "cluster")
        return by_key([self._change(row, index) for row in rows], [row.id for row in rows])

    def _change(self, row: JsonRow, index: str) -> Change:
        if row.newness < 0:
            raise SinkRefused(
                f"{self.where}: column {self.newest_by!r}, row {row.row}: a version of a document "
                "is not below 0, and no moment before 1970"
            )
        action = {
            "_index": index,
            "_id": row.id,
            "version": row.newness,
            "version_type": "external_gte",
        }
        lines = (_line({"index": action}), _line(row.fields))
        return Change(row.row, False, lines, row.newness)


def _line(value: object) -> bytes:
    return orjson.dumps(value) + b"\n"
