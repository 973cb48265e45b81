"""Tables that no handler should return, and one of a thousand does.

A sink is handed whatever a tenant's handler makes, and its libraries have opinions of their own: a
type without a rule, text that is no UTF-8, a null where a schema says none. Each table here is a
good one with one thing odd about it. A sink may take it or refuse it; what it may not do is let the
neighbours of the same call pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa


def odd_tables(good: pa.Table) -> dict[str, pa.Table]:
    """Tables by what is odd about them.

    Args:
        good: a table that the sink takes, of two rows at least.
    """
    odd = {
        "rows without columns": good.select([]),
        "a column that nobody knows": good.append_column("nobody knows", pa.nulls(good.num_rows)),
    }
    for place, field in enumerate(good.schema):
        for what, column in _odd_columns(good.column(place)):
            made = pa.field(field.name, column.type, nullable=what != "a null that may not be")
            odd[f"{field.name}: {what}"] = good.set_column(place, made, column)
        odd[f"{field.name}: twice"] = good.append_column(field, good.column(place))
    return odd


def _odd_columns(column: pa.ChunkedArray[Any]) -> Iterator[tuple[str, Any]]:
    rows, kind = len(column), column.type
    last_is_null = pa.array([*column.to_pylist()[:-1], None], kind)
    yield "nulls without a type", pa.nulls(rows)
    yield "a null", last_is_null
    yield "a null that may not be", last_is_null
    yield "lists", pa.array([[]] * rows, pa.list_(kind))
    yield "lists of nothing known", pa.array([[None]] * rows)
    yield "structs", pa.array([{"a": None}] * rows, pa.struct([pa.field("a", kind)]))
    yield "structs without a field", pa.array([{}] * rows, pa.struct([]))
    yield "a dictionary", column.combine_chunks().dictionary_encode()
    yield "no number", pa.array([float("nan")] * rows)
    yield "a duration", pa.array([1] * rows, pa.duration("ns"))
    yield "moments beyond any calendar", pa.array([2**62] * rows, pa.timestamp("s", "UTC"))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield "a NUL", pa.array(["a\0b"] * rows).cast(kind)
        yield "no UTF-8", no_text(rows)


def no_text(rows: int) -> Any:
    """Text whose bytes are no UTF-8: Arrow looks at them only when it is asked for the text."""
    offsets: Any = pa.array(range(rows + 1), pa.int32()).buffers()[1]
    return pa.StringArray.from_buffers(rows, offsets, pa.py_buffer(b"\xff" * rows))
