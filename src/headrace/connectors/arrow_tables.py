"""Whether a handler's table is what an Arrow schema says, for sinks that keep Arrow's own types.

Amounts and days may come in any way that is exact, and are made what the schema says; all else must
have the very type. Names, types and order are compared before anything is written, and what may be
null says the schema, whatever Arrow made of a column that has none.

Tables that are divided by values of columns are divided here as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from headrace.errors import SinkRefused, WrongSchema
from headrace.payload.exact import conforming, what_instead


def conformed(table: pa.Table, wanted: pa.Schema | None, where: object) -> pa.Table:
    """The table with amounts and days as the schema has them.

    Raises:
        SinkRefused: one does not fit; names column and row.
    """
    if wanted is None:
        return table
    try:
        return conforming(table, wanted)
    except (ValueError, pa.ArrowInvalid) as error:
        raise SinkRefused(f"{where}: a value cannot be written: {error}") from error


def checked(table: pa.Table, wanted: pa.Schema | None, where: object) -> pa.Table:
    """The table with the columns wanted; what may be null says the schema, whatever Arrow made.

    Raises:
        WrongSchema: the message names the column.
        SinkRefused: a column has a null that may have none.
    """
    _check(table.schema, wanted, where)
    made = table if wanted is None else pa.Table.from_arrays(table.columns, schema=wanted)
    for field, column in zip(made.schema, made.columns, strict=True):
        if column.null_count and not field.nullable:
            row = pc.index(column.is_null(), pa.scalar(value=True)).as_py()
            raise SinkRefused(f"{where}: column {field.name!r}, row {row}: it may not be null")
    return made


def divided(
    table: pa.Table, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pa.Array[Any] | None]]:
    """Values of columns that rows have in common, and which rows, in their order; None: all."""
    if not by:
        yield {}, None
        return
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    rows = pc.cumulative_sum(ones, start=pa.scalar(-1, pa.int64()))
    numbered = pa.table([*(table[name] for name in by), rows], names=[*by, " row"])
    groups = numbered.group_by(list(by), use_threads=False).aggregate([(" row", "list")])
    places = groups[" row_list"].combine_chunks()
    for group, values in enumerate(groups.select(list(by)).to_pylist()):
        yield values, places[group].values


def _check(found: pa.Schema, wanted: pa.Schema | None, where: object) -> None:
    if not found.names:
        raise WrongSchema(f"{where}: the table returned has rows, but no columns")
    for name in found.names:
        if found.names.count(name) > 1:
            raise WrongSchema(f"{where}: the table returned has column {name!r} twice")
    if wanted is None or (found.names, found.types) == (wanted.names, wanted.types):
        return
    for name in [*wanted.names, *found.names]:
        expected = wanted.field(name).type if name in wanted.names else "no column"
        actual = found.field(name).type if name in found.names else "no column"
        if expected != actual:
            instead = (
                what_instead(actual, amount=at.is_decimal(expected), day=at.is_date32(expected))
                if isinstance(expected, pa.DataType) and isinstance(actual, pa.DataType)
                else ""
            )
            raise WrongSchema(f"{where}: column {name!r} must be {expected}, is {actual}{instead}")
    expected_order = ", ".join(wanted.names)
    raise WrongSchema(f"{where}: columns must come in the order {expected_order}")
