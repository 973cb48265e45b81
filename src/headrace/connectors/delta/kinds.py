"""Which columns a Delta table of ours may have, and how one that is there may differ.

A table outlives the versions of a use case. So a column may come, never go or change its kind: what
was written before is not written anew, and whoever reads the table reads all of it. Kinds are those
that Arrow, Delta and Spark hold alike; a whole number without a sign or a moment without a zone is
refused at once, since one of the three would read something else. This module touches no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from headrace.errors import ConfigError, SinkRefused
from headrace.model.years import FIRST_DAY, LAST_DAY

_PLAIN = (
    at.is_string,
    at.is_signed_integer,
    at.is_float32,
    at.is_float64,
    at.is_boolean,
    at.is_binary,
    at.is_date32,
    at.is_decimal128,
)
#: whose text in the log is the same for everybody
_DIVIDING = (at.is_string, at.is_signed_integer, at.is_date32)


def demand_columns(schema: pa.Schema, partition_by: Sequence[str], where: str) -> None:
    """See that a table can have these columns, and be divided by these.

    Raises:
        ConfigError: the message names the column.
    """
    for name in schema.names:
        if not name or any(character in " ,;{}()\n\t=" for character in name):
            raise ConfigError(f"{where}: column {name!r}: Delta takes no such name")
        if [known.lower() for known in schema.names].count(name.lower()) > 1:
            raise ConfigError(f"{where}: column {name!r} is there twice; Delta knows no capitals")
        if not _is_held(schema.field(name).type):
            raise ConfigError(
                f"{where}: column {name!r} cannot be {schema.field(name).type}: take text, whole "
                "numbers with a sign, floats, booleans, bytes, date32, decimal128, "
                "timestamp('us', 'UTC'), or lists and structs of these"
            )
    for name in partition_by:
        if name not in schema.names or partition_by.count(name) > 1:
            raise ConfigError(f"{where}: partition_by names {name!r}, which is no column, or twice")
        if not any(fits(schema.field(name).type) for fits in _DIVIDING):
            raise ConfigError(f"{where}: partition_by {name!r}: take text, whole numbers or dates")
    if len(schema.names) <= len(partition_by):
        raise ConfigError(f"{where}: it needs a column that does not divide it")


def _is_held(kind: Any) -> bool:
    if at.is_timestamp(kind):
        return bool(kind.unit == "us" and kind.tz == "UTC")
    if at.is_list(kind):
        return _is_held(kind.value_type)
    if at.is_struct(kind):
        return kind.num_fields > 0 and all(_is_held(field.type) for field in kind)
    return any(fits(kind) for fits in _PLAIN)


def new_columns(
    there: Mapping[str, tuple[str, bool]], wanted: Mapping[str, tuple[str, bool]], where: str
) -> list[str]:
    """Names of columns that a table lacks; a column is its kind and whether it may be null.

    Raises:
        ConfigError: a column is of another kind, is not given though it may not be null, or may not
            be null though rows without it are there. The message names it.
    """
    for name, (kind, nullable) in there.items():
        if name in wanted and wanted[name][0] != kind:
            raise ConfigError(
                f"{where}: column {name!r} is {kind} there and {wanted[name][0]} here; the kind of "
                "a column stays: give the new one another name, or write to a new table"
            )
        if not nullable and (name not in wanted or wanted[name][1]):
            raise ConfigError(f"{where}: column {name!r} may not be null there, and may be here")
    added = [name for name in wanted if name not in there]
    for name in added:
        if not wanted[name][1]:
            raise ConfigError(
                f"{where}: column {name!r} is new and may not be null, but rows without it are "
                "there: let it be null"
            )
    return added


def demand_value(column: pa.ChunkedArray[Any], what: str) -> None:
    """See that the log can tell a value of a column that divides the table.

    Raises:
        SinkRefused: it is empty text, which is the same as none there, or no day of a calendar.
    """
    if at.is_string(column.type) and pc.index(column, "").as_py() >= 0:
        raise SinkRefused(f"{what}: empty text cannot divide the table; give null or a word")
    if at.is_date32(column.type):
        days = column.cast(pa.int32())
        least, most = pc.min(days).as_py(), pc.max(days).as_py()
        if least is not None and (least < FIRST_DAY or most > LAST_DAY):
            raise SinkRefused(f"{what}: there is a day that is none of the years 1 to 9999")
