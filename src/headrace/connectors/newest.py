"""Which of two rows of one key stays: the newest, told by a column that both have.

A row that was computed long ago can come late: from a zombie, from a slice that runs again, from a
lane that was sent back. Where a table has such a column, a row replaces one that is as old or
older, and no newer one. As old is enough, since what runs again has what it had.

The column is one of the data, or a version (``model/record_versions.py``): of its record, where
the handler puts it into the row, else of the last record of its effect, which is right for what was
computed of them all. So rows of one effect are alike, and of one key the last of them stays.

A row that says that its key is gone stays as well, without its data: were it taken away, nothing
would tell an older one, which comes later, that it is too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from headrace.errors import SinkRefused, TargetMissing

#: the kind of a column that the sink fills, where a handler does not
VERSION: Final = "version"
#: kinds of columns that both databases compare as they are meant
COMPARED: Final = ("bigint", "timestamp", "date", VERSION)


class KeepsNewest:
    """What sinks have in common whose target keeps the newest row of a key by its own means."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    keeps_newest: ClassVar[bool] = True

    def _copy_given(self) -> None:
        """Have what was given for itself: nobody else changes it, and any sequence is a key."""
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "key", tuple(self.key))

    @property
    def exactly_once(self) -> Literal["intent"]:
        """The same rows, each as new as it was, leave the same state."""
        return "intent"

    @property
    def compares_lanes(self) -> bool:
        """Whether what is newer is told by versions, which compare along one lane alone."""
        return VERSION in self.columns.values()


def problem_of(
    columns: Mapping[str, str], newest_by: str | None, delete_by: str | None, *, in_one_lane: bool
) -> str | None:
    """What makes no sense about the columns that tell what is newest, and what is gone."""
    kind = columns.get(newest_by) if newest_by is not None else None
    if newest_by is not None and kind not in COMPARED:
        return f"newest_by names {newest_by!r}, which is no column of {', '.join(COMPARED)}"
    for name, found in columns.items():
        if found == VERSION and name != newest_by:
            return f"column {name!r} is of kind version, which is for newest_by alone"
    if kind == VERSION and not in_one_lane:
        return (
            f"newest_by={newest_by!r} is a version, and versions compare along one lane alone: "
            "say key_in_one_lane=True if all records of a key are in one partition, else name a "
            "column of the data that tells which row is newer"
        )
    if delete_by is not None and newest_by is None:
        return "delete_by needs newest_by: else an older row would come back"
    if delete_by is not None and columns.get(delete_by) != "boolean":
        return f"delete_by names {delete_by!r}, which is no column of kind boolean"
    return None


def returned(columns: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Columns that a handler's table must have, and those that it may have."""
    must = {name: kind for name, kind in columns.items() if kind != VERSION}
    return must, {name: "bigint" for name, kind in columns.items() if kind == VERSION}


def stamped(
    table: pa.Table, columns: Mapping[str, str], version: int | None, where: str
) -> pa.Table:
    """The table with a version in each row, also where the handler gave it none.

    Raises:
        TargetMissing: its records have none, so nothing of their lane can be told apart any more.
    """
    for name, kind in columns.items():
        if kind != VERSION or (name in table.column_names and not table[name].null_count):
            continue
        if version is None:
            raise TargetMissing(
                f"{where}: there is no version for column {name!r}: the stream was sent back too "
                "often, or its rows are of several lanes; name a column of the data in newest_by"
            )
        of_all = pa.scalar(version, pa.int64())
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(of_all, len(table)))
            continue
        filled: Any = pc.fill_null(table[name].cast(pa.int64()), of_all)
        table = table.set_column(table.column_names.index(name), name, filled)
    return table


def settled(
    table: pa.Table, newest_by: str | None, delete_by: str | None, key: tuple[str, ...], where: str
) -> pa.Table:
    """The table as its rows are kept: those that say their key is gone are without their data.

    Raises:
        SinkRefused: a row does not say how new it is, or whether its key is gone.
    """
    for name in (newest_by, delete_by):
        if name is not None and table[name].null_count:
            row = pc.index(pc.is_null(table[name]), pa.scalar(value=True)).as_py()
            raise SinkRefused(f"{where}: column {name!r}, row {row}: it may not be null")
    # Without a row its columns may have no type.
    if delete_by is None or not table.num_rows or not pc.any(table[delete_by]).as_py():
        return table
    gone = table[delete_by]
    for place, field in enumerate(table.schema):
        if field.name not in (newest_by, delete_by, *key) and not at.is_null(field.type):
            kept = pc.if_else(gone, pa.scalar(None, field.type), table[field.name])
            table = table.set_column(place, field.name, kept)
    return table
