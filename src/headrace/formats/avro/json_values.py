"""Values of JSON that become Avro: where they are put, and how one is refused.

Nothing here quotes a value: it may be a secret, and whoever sent it knows it.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import Any

_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    decimal.Decimal: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
NUMBERS: tuple[type, ...] = (int, float, decimal.Decimal)
#: from here on a float is no longer the whole number that was written, but one near it
_MOST_EXACT = 2**53


class Misfit(Exception):
    """A value is none of the schema; ``path`` leads to it, from within."""

    def __init__(self, reason: str, *path: str | int) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, list(path)


class Payload(bytearray):
    """What is written of one event."""

    __slots__ = ("left",)
    #: of defaults: bytes that may yet be written, and fields that may yet be left out
    left: int


#: appends what a value is in Avro, or raises ``Misfit``
Put = Callable[[Any, Payload], None]


def unlike(expected: str, value: Any) -> Misfit:
    """Another kind of value is there."""
    return Misfit(f"{expected} is expected, and this is {_KINDS[type(value)]}")


def put_long(value: int, out: Payload) -> None:
    """A whole number of at most 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)


def put_bytes(value: bytes, out: Payload) -> None:
    """Bytes behind their number."""
    put_long(len(value), out)
    out += value


def integer_of(value: Any) -> int | None:
    """A number without a part; None where it is none, or far too large.

    A float was written with at most 15 digits, which its shortest form gives back.
    """
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value if abs(value) <= _MOST_EXACT else decimal.Decimal(repr(value)))
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() < 20:
        return int(value) if value == value.to_integral_value() else None
    return None
