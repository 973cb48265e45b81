"""Rows that are decoded out of turn, put back in their order.

Payloads of one batch are read in parts: by their writers' schemas, quickly or slowly. Which part a
row was in is not to be seen in the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.formats.absent import absent
from headrace.ports import Decoded, Undecoded, Waiting


@dataclass(slots=True)
class Found:
    """What has been made of the payloads so far."""

    schema: pa.Schema
    #: values are structs, whose fields are the columns; else a value is the one column
    flat: bool = True
    parts: list[tuple[npt.NDArray[np.int64], pa.Table]] = field(default_factory=list)
    #: row -> why it is not what the format says
    refused: dict[int, str] = field(default_factory=dict)

    def add(self, rows: npt.NDArray[np.int64], values: Any) -> None:
        """Values of some rows, as an Arrow array."""
        if len(rows):
            columns = values.flatten() if self.flat else [values]
            self.parts.append((rows, pa.Table.from_arrays(columns, schema=self.schema)))

    def add_columns(self, rows: Sequence[int], columns: Sequence[Any]) -> None:
        """Columns of some rows."""
        table = pa.Table.from_arrays(list(columns), schema=self.schema)
        self.parts.append((np.array(rows, np.int64), table))

    def add_values(self, rows: Sequence[int], values: Sequence[Any]) -> None:
        """Values of some rows, as Python has them: dicts where they are ``flat``."""
        if rows and self.flat:
            self.add_columns(
                rows,
                [
                    pa.array([value[column.name] for value in values], column.type)
                    for column in self.schema
                ],
            )
        elif rows:
            self.add_columns(rows, [pa.array(values, self.schema.field(0).type)])

    def tombstones(self, rows: Sequence[int], are: Literal["refuse", "null"], told: str) -> None:
        """Rows without a value: refused, or all of their columns are null."""
        if are == "refuse":
            self.refused.update(dict.fromkeys(rows, f"no value, and {told} was expected"))
        elif rows:
            self.add_columns(rows, [absent(len(rows), c.type) for c in self.schema])

    def decoded(self, count: int, waiting: Waiting | None = None) -> Decoded:
        """All of it, in order; up to what waits."""
        end = count if waiting is None else waiting.row
        undecoded = tuple(
            Undecoded(row, reason) for row, reason in sorted(self.refused.items()) if row < end
        )
        if not self.parts:
            return Decoded(self.schema.empty_table(), undecoded, waiting)
        rows = np.concatenate([rows for rows, _ in self.parts])
        table = pa.concat_tables([table for _, table in self.parts])
        kept = rows < end
        if not (kept.all() and (rows[1:] > rows[:-1]).all()):
            order = np.argsort(rows, kind="stable")
            table = table.take(order[kept[order]])
        return Decoded(table, undecoded, waiting)
