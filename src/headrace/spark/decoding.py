"""Records with their decoded columns, beside their bytes.

A record that does not decode has to be kept as it came, and one that a handler fails at later too.
So bytes stay with what was made of them, row by row, through all cutting and searching
(``handling.py``), and only what a handler is shown has the decoded columns in their place.

A portion is decoded once, before the handler is called: what does not decode is known from then on,
and is not searched for. Small ones are decoded in one call and cut apart, as a call costs much
before its first record (``bin_run.py``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from headrace.errors import Temporary, shortened
from headrace.formats.framing import counted_ids
from headrace.model.receipts import Writer
from headrace.ports import RECORD_SCHEMA, Decoded, Format, Payloads, Schemas, names_writers
from headrace.spark.row_places import without_places
from headrace.spark.slice_errors import MESSAGE
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
    #: why the rows behind these, if there are any, cannot be decoded now
    waiting: Temporary | None = None

    def row(self, number: int) -> int:
        """Which of the rows that were given a row of ``records`` is; the end is the end."""
        if self.rows is None:
            return number
        return self.rows[number] if number < len(self.rows) else self.given

    @property
    def given(self) -> int:
        """How many rows of those that were given are told of."""
        return self.records.num_rows + len(self.undecoded)

    def cut(self, sizes: Iterable[int]) -> Iterator[DecodedRecords | None]:
        """The same of so many rows at a time; None where not all of them are told of."""
        faults = sorted(self.undecoded)
        begin = bad = 0
        for size in sizes:
            end = begin + size
            until = bisect_left(faults, end, bad)
            yield self._part(begin, end, faults[bad:until], bad) if end <= self.given else None
            begin, bad = end, until

    def _part(self, begin: int, end: int, faults: list[int], before: int) -> DecodedRecords:
        """Some rows, of which these did not decode, and so many of those before."""
        own = {row - begin: self.undecoded[row] for row in faults}
        first, last = begin - before, end - before - len(own)
        rows = None
        if own and self.rows is not None:
            rows = [row - begin for row in self.rows[first:last]]
        return DecodedRecords(self.records.slice(first, last - first), rows, own)


def decoded(use_case: UseCase, records: pa.Table, schemas: Schemas) -> DecodedRecords:
    """Decode what a use case wants decoded, as far as everybody answers who has to be asked."""
    undecoded: dict[int, str] = {}
    found: list[tuple[str, Decoded]] = []
    for column, mark, kind in _formats(use_case):
        made = kind.decode(Payloads(records[column], records["headers"], column, schemas))
        if made.waiting is not None and made.waiting.row < records.num_rows:
            before = decoded(use_case, records.slice(0, made.waiting.row), schemas)
            return before if before.waiting else replace(before, waiting=made.waiting.error)
        found.append((mark, made))
        told = {
            why: shortened(f"{column}: {why}", MESSAGE) for why in {w for _, w in made.undecoded}
        }
        for row, reason in made.undecoded:
            undecoded.setdefault(row, told[reason])
    good = np.ones(records.num_rows, bool)
    good[list(undecoded)] = False
    whole = records.filter(pa.array(good)) if undecoded else records
    columns, names = whole.columns, whole.column_names
    for mark, made in found:
        own = (_rows_of(made, good) if undecoded else made.columns).columns
        columns += own
        names += [f"{mark}{number}" for number in range(len(own))]
    whole = pa.Table.from_arrays(columns, names)
    return DecodedRecords(whole, np.flatnonzero(good).tolist() if undecoded else None, undecoded)


def shown(use_case: UseCase, records: pa.Table) -> pa.Table:
    """Decoded records, as their handler is given them."""
    gone = {column for column, _, _ in _formats(use_case)}
    records = without_places(records)
    if not gone:
        return records
    given = [name for name in records.column_names if name not in gone]
    names = [name for name in given if not name.startswith((_VALUE, _KEY))]
    held = list(names)
    for column, mark, kind in _formats(use_case):
        made = kind.schema(column).names
        names += made
        held += [f"{mark}{number}" for number in range(len(made))]
    return records.select(held).rename_columns(names)


def shown_schema(use_case: UseCase) -> pa.Schema:
    """The columns that a handler is given."""
    gone = {column for column, _, _ in _formats(use_case)}
    fields = [field for field in RECORD_SCHEMA if field.name not in gone]
    for column, _, kind in _formats(use_case):
        fields += list(kind.schema(column))
    return pa.schema(fields)


def says_writers(use_case: UseCase) -> bool:
    """Whether its records name the schemas of their writers."""
    return any(names_writers(kind) for _, _, kind in _formats(use_case))


def writers(use_case: UseCase, records: pa.Table) -> dict[Writer, int]:
    """Who wrote records that decode, as far as these say so."""
    found: dict[Writer, int] = {}
    for column, _, kind in _formats(use_case):
        if names_writers(kind) and records.num_rows:
            ids = counted_ids(Payloads(records[column], records["headers"], column))
            found |= {Writer(column, str(id_)): count for id_, count in ids.items()}
    return found


def _formats(use_case: UseCase) -> list[tuple[Literal["key", "value"], str, Format]]:
    """Column, mark of what is decoded of it, and format."""
    made = list[tuple[Literal["key", "value"], str, Format]]()
    if use_case.decode_key is not None:
        made.append(("key", _KEY, use_case.decode_key))
    if use_case.decode is not None:
        made.append(("value", _VALUE, use_case.decode))
    return made


def _rows_of(made: Decoded, good: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Table:
    """Of columns that have no row for what did not decode, those that are good in all columns."""
    has_row = np.ones(len(good), bool)
    has_row[[row for row, _ in made.undecoded]] = False
    return made.columns.filter(pa.array(good[has_row]))
