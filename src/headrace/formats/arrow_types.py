"""What a column holds in Python, and columns made of that.

A parser that is told what to expect checks while it reads, and skips what nobody asked for. So each
Arrow type has the type that ``msgspec`` is told, exact or not at all: an integer has its bounds, a
decimal keeps its digits, a time says its zone. What would lose something is refused when the use
case is written: 64 bits without a sign, floats of 32 bits, times but in microseconds.

Objects become ``msgspec`` structs whose fields are ``f0``, ``f1``, ...: names in a record need not
be names in Python.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from types import SimpleNamespace
from typing import Annotated, Any, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConfigError
from headrace.model.years import DAY_US, FIRST_US, LAST_US

_PLAIN: dict[pa.DataType, Any] = {
    pa.bool_(): bool,
    pa.float64(): float,
    pa.string(): str,
    pa.large_string(): str,
    pa.binary(): bytes,
    pa.date32(): datetime.date,
}
_INTEGERS: dict[pa.DataType, tuple[int, int]] = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1),
}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?").fullmatch
_KNOWN = (
    "bool, int8 to int64, uint8 to uint32, float64, string, binary, date32, decimal128, "
    "timestamp('us'), and lists, structs and maps from strings of these"
)


class _Amount(decimal.Decimal):
    """Asks ``exactly``: the parser's own decimals are Python's, and ``"1_0"`` is 10 there."""

    __slots__ = ()


def exactly(kind: type[Any], found: object) -> Any:
    """What a parser calls for a decimal; numbers with a point are given as decimals.

    Raises:
        ValueError: it is no number, or text that is none.
    """
    if isinstance(found, str) and not _NUMBER(found):
        raise ValueError("the text is no number such as -12.50")
    if isinstance(found, bool) or not isinstance(found, int | str | decimal.Decimal):
        raise ValueError(f"Expected `decimal`, got `{type(found).__name__}`")  # noqa: TRY004
    return number_of(found, kind)


def number_of(found: Any, kind: type[decimal.Decimal] = decimal.Decimal) -> decimal.Decimal:
    """What a parser calls for a number with a point or an exponent, so that its digits are kept.

    Raises:
        ValueError: its exponent is one that no decimal has.
    """
    try:
        return kind(found)
    except decimal.DecimalException:
        raise ValueError("the number is too far from 1, or too near to 0") from None


def struct_of(fields: Iterable[pa.Field[Any]], names: Mapping[str, str] | None = None) -> type[Any]:
    """A struct with these fields; one that may be null may be missing as well.

    Args:
        fields: the columns.
        names: column -> name in the record, where that is another.

    Raises:
        ConfigError: a column has a type that this does not know, or there is none.
    """
    named, fields = names or {}, list(fields)
    if not fields:
        raise ConfigError("an object without a field has no column: name those that are wanted")
    made: list[Any] = []
    for number, field in enumerate(fields):
        name = named.get(field.name, field.name)
        kind = _type_of(field)
        if field.nullable:
            made.append((f"f{number}", kind, msgspec.field(name=name, default=None)))
        else:
            made.append((f"f{number}", kind, msgspec.field(name=name)))
    return msgspec.defstruct("Record", made, gc=False, kw_only=True)


def table_of(rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Structs as columns.

    Raises:
        pa.ArrowInvalid: a value has no place in its column, such as a decimal of more digits.
    """
    columns = []
    for number, field in enumerate(schema):
        try:
            columns.append(_column(list(map(_getter(number), rows)), field.type))
        except (pa.ArrowInvalid, decimal.DecimalException) as error:
            digits = isinstance(error, decimal.DecimalException)
            why = "a number has other digits than its decimal can have" if digits else error
            raise pa.ArrowInvalid(f"{why} - in column {field.name}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _getter(number: int) -> Callable[[Any], Any]:
    return attrgetter(f"f{number}")


def _type_of(field: pa.Field[Any]) -> Any:
    try:
        kind = _type(field.type)
    except ConfigError as error:
        raise ConfigError(f"column {field.name}: {error}") from None
    return kind | None if field.nullable else kind


def _type(kind: pa.DataType) -> Any:
    known = _PLAIN.get(kind) or _exact(kind)
    if known is None and pa.types.is_struct(kind):
        known = struct_of(_fields(kind))
    elif known is None and pa.types.is_list(kind):
        known = list[_type_of(kind.value_field)]  # type: ignore[misc]
    elif known is None and pa.types.is_map(kind) and kind.key_type == pa.string():
        known = dict[str, _type_of(kind.item_field)]  # type: ignore[misc]
    if known is None:
        raise ConfigError(f"{kind} is none of {_KNOWN}")
    return known


def _exact(kind: pa.DataType) -> Any:
    """Of types whose values have bounds, digits or a zone."""
    if kind in _INTEGERS:
        least, most = _INTEGERS[kind]
        return Annotated[int, msgspec.Meta(ge=least, le=most)]
    if pa.types.is_decimal128(kind):
        return _Amount
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return Annotated[datetime.datetime, msgspec.Meta(tz=kind.tz is not None)]
    return None


def _fields(kind: pa.DataType) -> list[pa.Field[Any]]:
    return list(cast("Iterable[pa.Field[Any]]", kind))


def _column(values: list[Any], kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return _structs(values, kind)
    if pa.types.is_decimal128(kind):
        return pa.array(_exactly(values, kind), kind)
    if pa.types.is_timestamp(kind):
        return _dated(pa.array(values, kind))
    if pa.types.is_list(kind) and not _is_plain(kind.value_type):
        items = _column(list(chain.from_iterable(filter(None, values))), kind.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items, type=kind)
    if pa.types.is_map(kind):
        pairs = list(chain.from_iterable(value.items() for value in values if value))
        keys = pa.array([key for key, _ in pairs], kind.key_type)
        items = _column([item for _, item in pairs], kind.item_type)
        return pa.MapArray.from_arrays(  # type: ignore[call-overload]
            _offsets(values), keys, items, type=kind
        )
    return pa.array(values, kind)


def _is_plain(kind: pa.DataType) -> bool:
    return not (
        pa.types.is_nested(kind) or pa.types.is_decimal128(kind) or pa.types.is_timestamp(kind)
    )


def _dated(times: Any) -> Any:
    """Times that a handler can read: with its zone one may be in the year 0, which is none."""
    edges: Any = pc.min_max(times.cast(pa.int64())).as_py()
    # Read in another zone it may be on the day before or after.
    spare_us = 0 if times.type.tz in (None, "UTC") else DAY_US
    least_us, most_us = FIRST_US + spare_us, LAST_US - spare_us
    if edges["min"] is not None and not least_us <= edges["min"] <= edges["max"] <= most_us:
        raise pa.ArrowInvalid("a time is not from the year 1 to 9999 in UTC and in its zone")
    return times


def _exactly(values: list[Any], kind: Any) -> list[Any]:
    """Decimals with the digits of their column.

    Arrow is given no others: at an exponent of minus a hundred million it ends the process, and
    whoever sends a record may write one.
    """
    traps = [decimal.Inexact, decimal.InvalidOperation]
    quantize = decimal.Context(prec=kind.precision, traps=traps).quantize
    least = decimal.Decimal((0, (1,), -kind.scale))
    return [None if value is None else quantize(value, least) for value in values]


def _structs(values: list[Any], kind: Any) -> Any:
    gone = [value is None for value in values]
    # A column that may not be null has something below a missing parent too, which nobody reads:
    # writers look at columns, not at parents.
    beneath = _filler(kind) if any(gone) else None
    present = [beneath if value is None else value for value in values]
    children = [
        _column(list(map(_getter(number), present)), field.type)
        for number, field in enumerate(_fields(kind))
    ]
    return pa.StructArray.from_arrays(
        children, fields=_fields(kind), mask=pa.array(gone, pa.bool_())
    )


def _filler(kind: Any) -> Any:
    """Any value of a type, as the parser would give it."""
    if pa.types.is_struct(kind):
        fillers = (None if field.nullable else _filler(field.type) for field in _fields(kind))
        return SimpleNamespace(**{f"f{number}": filler for number, filler in enumerate(fillers)})
    if pa.types.is_list(kind):
        return []
    if pa.types.is_map(kind):
        return {}
    zeros = [pa.py_buffer(bytes(16))] * (kind.num_buffers - 1)
    return pa.Array.from_buffers(kind, 1, [None, *zeros])[0].as_py()


def _offsets(values: list[Any]) -> Any:
    """Where each list begins; nothing where there is none."""
    begins = accumulate((len(value or ()) for value in values), initial=0)
    offsets = [
        None if value is None else begin for value, begin in zip(values, begins, strict=False)
    ]
    total = sum(len(value or ()) for value in values)
    return pa.array([*offsets, total], pa.int32())
