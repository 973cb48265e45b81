"""Amounts and days exactly, from whatever a handler has them as.

Money that was a float once is not what it was, and a database that is given a digit too many rounds
it in silence. So a column of amounts says how many digits it has, and a value that does not fit is
refused by its row. A handler has amounts as decimals, as whole numbers, or as the text that stood
in the record, and each of these is exact; so is a day as a date or as ``2026-01-31``. A float is
never taken, and neither is a moment: whose day it is depends on where one stands.

Nothing is rounded here. A message tells how many digits there are, never the value.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as at

from headrace.model.years import FIRST_DAY, LAST_DAY

#: what Arrow, Spark and most databases have at most
MOST_DIGITS = 38
_KIND = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
#: whole numbers of 64 bits, with and without a sign
_ANY_INTEGER = pa.decimal128(20, 0)


class Digits(NamedTuple):
    """How many digits an amount may have in all, and how many of them after the point."""

    precision: int
    scale: int

    @property
    def arrow(self) -> pa.DataType:
        """The type that Arrow has for it."""
        return pa.decimal128(self.precision, self.scale)

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


def digits_of(kind: str) -> Digits | None:
    """What ``decimal(10, 2)`` says; None for a kind that is no decimal.

    Raises:
        ValueError: there is no such decimal.
    """
    if not kind.startswith("decimal"):
        return None
    found = _KIND.fullmatch(kind)
    if found is None:
        raise ValueError(f"kind {kind!r}: write how many digits it has, such as decimal(12, 2)")
    digits = Digits(int(found[1]), int(found[2]))
    if not 1 <= digits.precision <= MOST_DIGITS:
        raise ValueError(f"kind {kind!r}: it may have 1 to {MOST_DIGITS} digits")
    if digits.scale > digits.precision:
        raise ValueError(
            f"kind {kind!r}: of {digits.precision} digits not {digits.scale} can be after the point"
        )
    return digits


def may_be_decimal(found: pa.DataType) -> bool:
    """Whether every value of an Arrow type is exactly one number, or text that may be."""
    return at.is_decimal(found) or at.is_integer(found) or _is_text(found)


def may_be_date(found: pa.DataType) -> bool:
    """Whether every value of an Arrow type is a day, or text that may be."""
    return at.is_date(found) or _is_text(found)


def what_instead(found: pa.DataType, *, amount: bool, day: bool) -> str:
    """What a handler is to return in place of a type that is no amount, or no day; else nothing."""
    if amount and at.is_floating(found):
        return "; a float is not exact: return Decimal, whole numbers or the text of the record"
    if day and at.is_timestamp(found):
        return "; which day a moment is depends on the time zone: return the date or its text"
    return ""


def decimals(column: pa.ChunkedArray[Any], digits: Digits) -> pa.ChunkedArray[Any]:
    """The same amounts with so many digits.

    Raises:
        ValueError: one does not fit, or is no number; names its row.
    """
    if at.is_null(column.type):
        return column.cast(digits.arrow)
    if _is_text(column.type):
        return _each(column, digits.arrow, lambda text: _fitting(_number(text), digits))
    try:
        whole = column.cast(_ANY_INTEGER) if at.is_integer(column.type) else column
        return whole.cast(digits.arrow)
    except pa.ArrowInvalid:
        # Slower, and says which it is.
        return _each(column, digits.arrow, lambda value: _fitting(Decimal(value), digits))


def dates(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """The same days as dates.

    Raises:
        ValueError: one is no day of the years 1 to 9999; names its row.
    """
    if _is_text(column.type):
        return _each(column, pa.date32(), _day)
    days = column.cast(pa.date32())
    for row, day in enumerate(days.cast(pa.int32()).to_pylist()):
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise ValueError(f"row {row}: it is no day of the years 1 to 9999")
    return days


def conforming(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with its amounts and days as a schema has them; all else as it is.

    Raises:
        ValueError: a value does not fit; names column and row.
    """
    for place, field in enumerate(table.schema):
        wanted = schema.field(field.name).type if field.name in schema.names else field.type
        if wanted == field.type:
            continue
        column = table.column(place)
        amount, day = at.is_decimal128(wanted), at.is_date32(wanted)
        if at.is_null(field.type) and (amount or day):
            made = column.cast(wanted)
        elif amount and may_be_decimal(field.type):
            made = named(field.name, decimals, column, Digits(wanted.precision, wanted.scale))
        elif day and may_be_date(field.type):
            made = named(field.name, dates, column)
        else:
            continue
        table = table.set_column(place, pa.field(field.name, wanted, field.nullable), made)
    return table


def named(name: str, convert: Callable[..., Any], *given: object) -> Any:
    """What a function of this file makes of a column, which an error then names."""
    try:
        return convert(*given)
    except ValueError as error:
        raise ValueError(f"column {name!r}, {error}") from error


def alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The same tables with amounts of a column in all of them as wide as the widest.

    Arrow takes the type of an amount from the values that there are, so two calls of one handler
    rarely agree. What is not of the same columns stays as it is.
    """
    if any(table.schema.names != tables[0].schema.names for table in tables[1:]):
        return list(tables)
    fields = []
    for place, first in enumerate(tables[0].schema):
        types = {table.schema.field(place).type for table in tables}
        fields.append(first if len(types) == 1 else _widest(first.name, types))
    return [_widened(table, fields) for table in tables]


def _widened(table: pa.Table, fields: Iterable[pa.Field[Any] | None]) -> pa.Table:
    for place, field in enumerate(fields):
        if field is not None and at.is_decimal(table.schema.field(place).type):
            table = table.set_column(place, field, table.column(place).cast(field.type))
    return table


def _widest(name: str, types: Iterable[Any]) -> pa.Field[Any] | None:
    """None where some are no amounts, or where no type is as wide."""
    some = [found for found in types if not at.is_null(found)]
    if not all(at.is_decimal(found) for found in some):
        return None
    scale = max(found.scale for found in some)
    precision = scale + max(found.precision - found.scale for found in some)
    return pa.field(name, pa.decimal128(precision, scale)) if precision <= MOST_DIGITS else None


def _each(
    column: pa.ChunkedArray[Any], made: pa.DataType, convert: Callable[[Any], Any]
) -> pa.ChunkedArray[Any]:
    values = []
    for row, value in enumerate(column.to_pylist()):
        try:
            values.append(None if value is None else convert(value))
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from error
    return pa.chunked_array([pa.array(values, made)])


def _number(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("the text is no number such as -12.50")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError("the text is a number with too many digits to be read") from error


def _fitting(value: Decimal, digits: Digits) -> Decimal:
    _, figures, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("it is not a number")  # noqa: TRY004 - of the right type, and still none
    significant = "".join(map(str, figures)).lstrip("0")
    shown = significant.rstrip("0")
    if not shown:
        return Decimal(0)
    after = max(0, -(exponent + len(significant) - len(shown)))
    before = max(0, len(significant) + exponent)
    if after > digits.scale:
        raise ValueError(
            f"it has {after} digits after the point, and {digits} has {digits.scale}; round it in "
            "the handler"
        )
    if before > digits.precision - digits.scale:
        raise ValueError(
            f"it has {before} digits before the point, and {digits} has "
            f"{digits.precision - digits.scale}; declare more"
        )
    return value.quantize(Decimal(1).scaleb(-digits.scale), context=Context(prec=2 * MOST_DIGITS))


def _day(text: str) -> dt.date:
    try:
        if _DAY.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise ValueError("the text is no day such as 2026-01-31")


def _is_text(found: pa.DataType) -> bool:
    return at.is_string(found) or at.is_large_string(found)
