"""Defaults of a reader's fields, from JSON: the values that a record has where none was written."""

from __future__ import annotations

import decimal
import math
import struct
from typing import Any

from headrace.errors import ConfigError
from headrace.formats.avro.columns import kind_of, may_be_null, without_null
from headrace.formats.avro.schema_text import ABSENT, AvroType
from headrace.formats.avro.wholes import whole_of

#: as many digits as a decimal may have, and no rounding
_EXACT = decimal.Context(prec=80)
#: what JSON has no numbers for is written as text, as Avro's JSON encoding does
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})


def default_of(name: str, kind: AvroType, value: Any) -> Any:
    """The value of a default, as one that was read would be.

    Raises:
        ConfigError: there is none, or it is not of its type.
    """
    if value is ABSENT:
        raise ConfigError(f"{name} is not written, and has no default")
    if value is None and may_be_null(kind):
        return None
    one = without_null(kind)
    made = None if one is None else _value_of(name, one, value)
    if made is None:
        raise ConfigError(f"the default of {name} is no {one.told if one else kind.told}")
    return made


def check_defaults(kind: AvroType) -> None:
    """Look at all defaults of a reader's schema before one is needed.

    Raises:
        ConfigError: one is not of its type; it is named.
    """
    for inner in kind.inner:
        check_defaults(inner)
    for found in kind.fields:
        check_defaults(found.kind)
        if found.default is not ABSENT:
            default_of(found.name, found.kind, found.default)


def decimal_of(unscaled: int, scale: int) -> decimal.Decimal:
    """A decimal of its digits."""
    return _EXACT.scaleb(decimal.Decimal(unscaled), -scale)


def _value_of(name: str, kind: AvroType, value: Any) -> Any:
    """None where it does not fit."""
    match kind.name, value:
        case ("boolean", bool()) | ("string", str()):
            return value
        case (("int" | "long"), int()) if not isinstance(value, bool):
            return _whole_of(kind, value)
        case (("float" | "double"), (int() | float() | str())) if not isinstance(value, bool):
            return _real_of(name, kind.name, value)
        case (("enum" | "bytes" | "fixed"), str()):
            return _by_text(kind, value)
        case (("array" | "map" | "record"), (list() | dict())):
            return _nested(name, kind, value)
    return None


def _whole_of(kind: AvroType, value: int) -> int | None:
    whole = whole_of(kind.name, kind, kind_of("", kind))
    return value * whole.factor if whole.lowest <= value <= whole.highest else None


def _real_of(name: str, width: str, value: float | str) -> float | None:
    """What is read where that number was written; a whole one has to be exactly itself."""
    if isinstance(value, str):
        return float(value) if value in _WORDS else None
    try:
        made = float(value)
        if width == "float":
            (made,) = struct.unpack("<f", struct.pack("<f", made))
    except OverflowError:
        made = math.inf
    if not math.isfinite(made):
        raise ConfigError(f"the default of {name} is a number that no {width} holds")
    if isinstance(value, int) and made != value:
        raise ConfigError(f"the default of {name} is a number that no {width} holds exactly")
    return made


def _by_text(kind: AvroType, value: str) -> Any:
    if kind.name == "enum":
        return value if value in kind.symbols else None
    return _bytes_of(kind, value)


def _nested(name: str, kind: AvroType, value: list[Any] | dict[str, Any]) -> Any:
    if isinstance(value, list):
        is_array = kind.name == "array"
        return [default_of(name, kind.inner[0], item) for item in value] if is_array else None
    if kind.name == "map":
        return [(key, default_of(name, kind.inner[0], item)) for key, item in value.items()]
    if kind.name == "array":
        return None
    return {
        found.name: default_of(found.name, found.kind, value.get(found.name, found.default))
        for found in kind.fields
    }


def _bytes_of(kind: AvroType, value: str) -> Any:
    """JSON has a character for each byte."""
    try:
        made = value.encode("latin-1")
    except UnicodeEncodeError:
        return None
    if kind.name == "fixed" and len(made) != kind.size:
        return None
    if kind.logical == "decimal":
        unscaled = int.from_bytes(made, "big", signed=True)
        return decimal_of(unscaled, kind.scale) if abs(unscaled) < 10**kind.precision else None
    return guid_text(made) if kind.logical == "uuid" else made


def guid_text(made: bytes) -> str:
    """16 bytes as a UUID is written."""
    text = made.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
