"""From Arrow rows to documents: for each row its id, its version, and its fields.

The version is how new a row is (``newest_by``), and the cluster itself keeps a document that is
newer: ``external_gte``. What is gone stays as a document without data, since a cluster forgets
within a minute what it deleted, and an older row would come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import orjson
import pyarrow as pa

from headrace.connectors.changes import Change, by_key, puts
from headrace.connectors.json_rows import JsonRows
from headrace.connectors.newest_rows import by_name
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

    def changes(self, output: pa.Table, version: int | None, index: str) -> list[Change]:
        """The newest change of each key of a table; each has those before it.

        The one value of each is two lines of a bulk request.

        Raises:
            HeadraceError: it cannot be written, as a whole.
        """
        ids, newness, values = self.json_columns(output, version, "cluster")
        self._demand_versions(newness)
        actions = map(_action, repeat(index), ids, newness)
        return by_key(puts(zip(map(_lines, actions, by_name(values))), newness), ids)

    def _demand_versions(self, newness: list[int]) -> None:
        for row, number in enumerate(newness):
            if number < 0:
                raise SinkRefused(
                    f"{self.where}: column {self.newest_by!r}, row {row}: a version of a document "
                    "is not below 0, and no moment before 1970"
                )


def _action(index: str, id_: str, version: int) -> dict[str, object]:
    said = {"_index": index, "_id": id_, "version": version, "version_type": "external_gte"}
    return {"index": said}


def _lines(action: object, fields: object) -> bytes:
    return b"%b\n%b\n" % (orjson.dumps(action), orjson.dumps(fields))
