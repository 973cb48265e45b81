"""What several calls of one handler returned, as one table.

A handler is called again behind a record that was set aside, and its effect is one all the same.
Arrow takes types from the values that there are, so amounts become as wide as the widest. But where
one call has a column that another has not, nobody knows what belongs there.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.errors import WrongSchema
from headrace.payload.exact import alike


def joined(outputs: Sequence[pa.Table]) -> pa.Table | None:
    """All rows, one call after the other; None of no table.

    Raises:
        WrongSchema: the tables do not fit together.
    """
    some = [output for output in outputs if output.num_rows] or list(outputs[:1])
    if len(some) < 2:
        return some[0] if some else None
    other = next((table for table in some if not _same_columns(table, some[0])), None)
    if other is not None:
        raise _differ(f"one has {_told(some[0])}, another {_told(other)}")
    try:
        return pa.concat_tables(alike(some), promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as exc:
        raise _differ(exc) from exc


def _differ(why: object) -> WrongSchema:
    return WrongSchema(f"the tables of two calls differ: {why}")


def _same_columns(table: pa.Table, other: pa.Table) -> bool:
    return sorted(table.column_names) == sorted(other.column_names)


def _told(table: pa.Table) -> str:
    return f"the columns {', '.join(table.column_names)}" if table.num_columns else "no column"
