"""Effects' tables as one that a Delta table can have, or why one of them is none.

All are looked at together, which takes as long as one of them. Only where that does not go well is
each looked at by itself, and then its own effect alone is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.connectors.arrow_tables import checked, conformed
from headrace.connectors.delta.homes import Home
from headrace.connectors.delta.kinds import demand_value
from headrace.connectors.outcomes import failed
from headrace.ports import Effect, Written


@dataclass(frozen=True)
class Target:
    """A table, and what is written to it."""

    home: Home
    schema: pa.Schema
    partition_by: tuple[str, ...]

    @property
    def where(self) -> str:
        """Names the table, in what people read."""
        return self.home.where


def fitting(
    effects: Mapping[int, Effect], target: Target
) -> tuple[list[int], pa.Table, dict[int, Written]]:
    """Which effects fit, all of their rows in that order, and what is told of the others."""
    indexes, refused = sorted(effects), dict[int, Written]()
    try:
        return indexes, _fitted(_joined(effects[index].output for index in indexes), target), {}
    except Exception:  # Arrow has many kinds; whose it is shows when each is alone
        tables: dict[int, pa.Table] = {}
    for index in indexes:
        try:
            tables[index] = _fitted(effects[index].output, target)
        except Exception as error:
            refused[index] = failed(error, target.where)
    return list(tables), _joined([target.schema.empty_table(), *tables.values()]), refused


def _fitted(output: pa.Table, target: Target) -> pa.Table:
    schema, where = target.schema, target.where
    if not output.num_columns and not output.num_rows:
        return schema.empty_table()
    table = checked(conformed(output, schema, where), schema, where)
    # Such as text that is no UTF-8: it could be written, and nobody could read the file.
    table.validate(full=True)
    for name in target.partition_by:
        demand_value(table[name], f"{where}: column {name!r}")
    return table


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """One table of all that have columns or rows, each column in one piece."""
    given = [table for table in tables if table.num_columns or table.num_rows]
    if not all(table.num_columns for table in given):
        raise ValueError("Arrow forgets rows without columns where it joins them")
    return pa.concat_tables(given).combine_chunks() if given else pa.table({})
