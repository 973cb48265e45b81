"""Records with their decoded columns, beside their bytes.

A record that does not decode has to be kept as it came, and one that a handler fails at later too.
So bytes stay with what was made of them, row by row, through all cutting and searching
(``handling.py``), and only what a handler is shown has the decoded columns in their place.

A portion is decoded once, before the handler is called: what does not decode is known from then on,
and is not searched for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.ports import Decoded, Format
from headrace.use_cases import UseCase

_VALUE, _KEY = "decoded value ", "decoded key "


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """Records of which some did not decode."""

    #: those that did: their bytes, and their decoded columns under names of their own
    records: pa.Table
    #: which of the rows that were given these are; None: all
    rows: list[int] | None
    #: row -> why it did not decode
    undecoded: dict[int, str]

    def row(self, number: int) -> int:
        """Which of the rows that were given a row of ``records`` is; the end is the end."""
        if self.rows is None:
            return number
        return self.rows[number] if number < len(self.rows) else self.given

    @property
    def given(self) -> int:
        """How many rows were given."""
        return self.records.num_rows + len(self.undecoded)


def decoded(use_case: UseCase, records: pa.Table) -> DecodedRecords:
    """Decode what a use case wants decoded."""
    undecoded: dict[int, str] = {}
    found: list[tuple[str, Decoded]] = []
    for column, mark, kind in _formats(use_case):
        made = kind.decode(records[column])
        found.append((mark, made))
        for row, reason in made.undecoded:
            undecoded.setdefault(row, f"{column}: {reason}")
    rows = [row for row in range(records.num_rows) if row not in undecoded] if undecoded else None
    whole = records if rows is None else records.take(pa.array(rows, pa.int64()))
    for mark, made in found:
        columns = made.columns if rows is None else _rows_of(made, records.num_rows, rows)
        for number, values in enumerate(columns.columns):
            whole = whole.append_column(f"{mark}{number}", values)
    return DecodedRecords(whole, rows, undecoded)


def shown(use_case: UseCase, records: pa.Table) -> pa.Table:
    """Decoded records, as their handler is given them."""
    gone = {column for column, _, _ in _formats(use_case)}
    if not gone:
        return records
    names = [name for name in records.column_names if name not in gone]
    kept = {name: records[name] for name in names if not name.startswith((_VALUE, _KEY))}
    for column, mark, kind in _formats(use_case):
        for number, name in enumerate(kind.schema(column).names):
            kept[name] = records[f"{mark}{number}"]
    return pa.Table.from_arrays(list(kept.values()), list(kept))


def _formats(use_case: UseCase) -> list[tuple[str, str, Format]]:
    """Column, mark of what is decoded of it, and format."""
    wanted = (("key", _KEY, use_case.decode_key), ("value", _VALUE, use_case.decode))
    return [(column, mark, kind) for column, mark, kind in wanted if kind is not None]


def _rows_of(made: Decoded, given: int, rows: list[int]) -> pa.Table:
    """Of columns that have no row for what did not decode, those of some of the given rows."""
    out = {row for row, _ in made.undecoded}
    place = np.cumsum([row not in out for row in range(given)]) - 1
    return made.columns.take(pa.array(place[rows], pa.int64()))
