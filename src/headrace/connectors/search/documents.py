"""From Arrow rows to documents: for each row its id, its version, and its fields.

The version is how new a row is (``newest_by``), and the cluster itself keeps a document that is
newer: ``external_gte``. What is gone stays as a document without data, since a cluster forgets
within a minute what it deleted, and an older row would come back.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.types as at

from headrace.connectors.changes import Change, by_key, demand_sizes
from headrace.connectors.exact_texts import exact_texts, joined_keys
from headrace.connectors.newest_rows import NewestRows
from headrace.errors import SinkRefused
from headrace.payload.exact import named

#: of a row; a node takes requests of 100 MB
MOST_BYTES: Final = 15 * 2**20
#: of an id
_MOST_ID_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class Documents(NewestRows):
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
        table = self.kept(output, version)
        demand_sizes(table, MOST_BYTES, self.where, "cluster")
        try:
            newness = self.newness(table)
            values = {name: named(name, _as_json, table[name], of) for name, of in self._kinds}
            keys = joined_keys([[str(value) for value in values[name]] for name in self.key])
        except (ValueError, pa.ArrowInvalid) as error:
            raise SinkRefused(f"{self.where}: a value cannot be written: {error}") from error
        self._check(keys, newness)
        names, columns = list(values), list(values.values())
        made = []
        for row, of_row in enumerate(zip(*columns, strict=True)):
            fields = zip(names, of_row, strict=True)
            fields_there = {name: value for name, value in fields if value is not None}
            action = {
                "_index": index,
                "_id": keys[row],
                "version": newness[row],
                "version_type": "external_gte",
            }
            lines = (_line({"index": action}), _line(fields_there))
            made.append(Change(row, False, lines, newness[row]))
        return by_key(made, keys)

    @property
    def _kinds(self) -> list[tuple[str, str]]:
        return list(self.columns.items())

    def _check(self, keys: list[str], newness: list[int]) -> None:
        for row, (key, number) in enumerate(zip(keys, newness, strict=True)):
            if number < 0:
                raise SinkRefused(
                    f"{self.where}: column {self.newest_by!r}, row {row}: a version of a document "
                    "is not below 0, and no moment before 1970"
                )
            if not 0 < len(key.encode()) <= _MOST_ID_BYTES:
                raise SinkRefused(
                    f"{self.where}: row {row}: its key is empty, or longer than {_MOST_ID_BYTES} "
                    "bytes"
                )


def _line(value: object) -> bytes:
    return orjson.dumps(value) + b"\n"


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
