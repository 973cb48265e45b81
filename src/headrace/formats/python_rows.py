"""Rows of a table as Python has them, for encoders that take one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

#: what Arrow raises for a value that Python cannot hold, such as a map with a key twice
_REFUSALS = (ValueError, KeyError, OverflowError, ArithmeticError, pa.ArrowException)


def python_rows(table: pa.Table) -> Sequence[dict[str, Any] | str]:
    """One for each row, with its columns by name; a text instead says why there is none."""
    try:
        return table.to_pylist(maps_as_pydicts="strict")
    except _REFUSALS:
        return [_row(table, row) for row in range(table.num_rows)]


def _row(table: pa.Table, row: int) -> dict[str, Any] | str:
    values: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            values[name] = column[row].as_py(maps_as_pydicts="strict")
        except _REFUSALS:
            return f"column {name}: its value is none of Python's"
    return values
