"""Values of JSON as those of Avro that hold nothing else: each exactly what it was, or refused.

JSON has one kind of number, no bytes and no times. So a number is taken where it loses nothing: a
``long`` takes 5 and 5.0, a ``double`` no integer that it would round, a ``float`` what comes back
with as many digits as were written. A decimal is a number or a text of digits, with no more places
than its scale. Bytes are base64. Times have a module of their own.

A default of a schema is written otherwise, as Avro wants it: bytes have a character for each byte,
and what no number of JSON is has a name.
"""

from __future__ import annotations

import binascii
import decimal
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import ConfigError
from headrace.formats.avro.json_times import time_of
from headrace.formats.avro.json_values import (
    NUMBERS,
    Misfit,
    Payload,
    Put,
    integer_of,
    put_bytes,
    put_long,
    unlike,
)
from headrace.formats.avro.schema_text import AvroType
from headrace.formats.avro.wholes import is_time

#: how many bytes a decimal of fixed size may have: one digit of JSON would become as many
_MOST_DECIMAL_BYTES = 64
_MOST_DIGITS = 150
#: of a number that is no integer; what 64 bits hold exactly has up to 767
_MOST_SAID = 800
_DECIMAL = re.compile(r"-?[0-9]{1,200}(?:\.[0-9]{1,200})?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BITS = {"int": 32, "long": 64, "float": 32, "double": 64}


def put_null(value: Any, _: Payload) -> None:
    """Nothing."""
    if value is not None:
        raise unlike("null", value)


def put_boolean(value: Any, out: Payload) -> None:
    """One byte."""
    if type(value) is not bool:
        raise unlike("true or false", value)
    out.append(value)


def put_string(value: Any, out: Payload) -> None:
    """A text."""
    if type(value) is not str:
        raise unlike("a text", value)
    data = value.encode()
    if len(data) < 64:  # as most are
        out.append(len(data) << 1)
    else:
        put_long(len(data), out)
    out += data


def leaf_of(kind: AvroType, *, is_default: bool) -> tuple[Put, tuple[type, ...]]:
    """What writes values of a type that holds no other, and what it takes of JSON.

    Raises:
        ConfigError: no value of JSON is written as that.
    """
    if is_time(kind.logical):
        return time_of(kind), (*NUMBERS, str)
    if kind.name in ("bytes", "fixed"):
        return _of_bytes(kind, is_default=is_default)
    if kind.name in ("float", "double"):
        put = _real(kind.name)
        return (_or_word(put, kind.name), (*NUMBERS, str)) if is_default else (put, NUMBERS)
    if kind.name in ("int", "long"):
        return _whole(_BITS[kind.name]), NUMBERS
    if kind.name == "enum":
        return _enum(kind), (str,)
    return (_guid(put_string), (str,)) if kind.logical == "uuid" else _PLAIN[kind.name]


def _of_bytes(kind: AvroType, *, is_default: bool) -> tuple[Put, tuple[type, ...]]:
    if is_default:
        return _by_characters(kind), (str,)
    if kind.logical == "decimal":
        return _decimal(kind), (*NUMBERS, str)
    return (_guid_bytes if kind.logical == "uuid" else _base64(kind)), (str,)


_PLAIN: Mapping[str, tuple[Put, tuple[type, ...]]] = {
    "null": (put_null, (type(None),)),
    "boolean": (put_boolean, (bool,)),
    "string": (put_string, (str,)),
}


def _whole(bits: int) -> Put:
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    expected = f"a whole number of {bits} bits"

    def put(value: Any, out: Payload) -> None:
        if type(value) is not int:
            whole = integer_of(value)
            if whole is None:
                if type(value) in NUMBERS:
                    raise Misfit(f"{expected} is expected, and this number is none")
                raise unlike(expected, value)
            value = whole
        if not lowest <= value <= highest:
            raise Misfit(f"{expected} is expected, and this one has more")
        put_long(value, out)

    return put


def _real(name: str) -> Put:
    pack, real = struct.Struct("<f" if name == "float" else "<d").pack, real_of(name)

    def put(value: Any, out: Payload) -> None:
        out += pack(real(value))

    return put


def real_of(name: str) -> Callable[[Any], float]:
    """What a number of JSON is as a ``float`` or ``double``; ``Misfit``: it would be another."""
    bits = _BITS[name]

    def real(value: Any) -> float:
        if type(value) not in NUMBERS:
            raise unlike("a number", value)
        made = value if type(value) is float else _float_of(value)
        if made is None or (bits == 32 and not _fits_single(made, value)):
            told = f"a {name} of {bits} bits does not hold this number as it is written"
            raise Misfit(told)
        return float(made)

    return real


def _float_of(value: int | decimal.Decimal) -> float | None:
    """The same number; None where it would be another one."""
    try:
        made = float(value)
    except OverflowError:
        return None
    if math.isinf(made):
        return None
    if isinstance(value, int):
        return made if int(made) == value else None
    return made if _gives_back(made, value) else None


def _fits_single(made: float, value: float | decimal.Decimal) -> bool:
    """Whether 32 bits give back the digits that were written; of an integer all of them."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", made))
    except OverflowError:
        return False
    if single == made:
        return True
    return type(value) is not int and _gives_back(single, decimal.Decimal(repr(made)))


def _gives_back(made: float, written: decimal.Decimal) -> bool:
    """Whether a number has the digits that were written, where it is written with as many."""
    said = written.as_tuple().digits
    if len(said) > _MOST_SAID:
        return False
    # A parser writes 1e11 as 100000000000.0: zeros at the end say nothing of what was written.
    digits = len("".join(map(str, said)).rstrip("0"))
    return decimal.Decimal(f"{made:.{digits}g}") == written


def _or_word(put_number: Put, name: str) -> Put:
    pack = struct.Struct("<f" if name == "float" else "<d").pack

    def put(value: Any, out: Payload) -> None:
        if type(value) is str and value in _WORDS:
            out += pack(_WORDS[value])
        else:
            put_number(value, out)

    return put


def _enum(kind: AvroType) -> Put:
    numbers = {symbol: number for number, symbol in enumerate(kind.symbols)}
    few = ", ".join(kind.symbols[:10]) + (", ..." if len(kind.symbols) > 10 else "")
    expected = f"one of {few}" if len(few) < 200 else f"a symbol of {kind.told}"

    def put(value: Any, out: Payload) -> None:
        if type(value) is not str:
            raise unlike(expected, value)
        number = numbers.get(value)
        if number is None:
            raise Misfit(f"{expected} is expected, and this text is none of them")
        put_long(number, out)

    return put


def _guid(put_text: Put) -> Put:
    def put(value: Any, out: Payload) -> None:
        if type(value) is not str or not _UUID.fullmatch(value):
            raise Misfit("a UUID is expected")
        put_text(value, out)

    return put


@_guid
def _guid_bytes(value: Any, out: Payload) -> None:
    out += bytes.fromhex(value.replace("-", ""))


def _sized(kind: AvroType, made: bytes, out: Payload) -> None:
    if kind.name == "bytes":
        put_bytes(made, out)
    elif len(made) != kind.size:
        raise Misfit(f"{kind.size} bytes are expected, and these are {len(made)}")
    else:
        out += made


def _base64(kind: AvroType) -> Put:
    def put(value: Any, out: Payload) -> None:
        if type(value) is not str:
            raise unlike("bytes in base64", value)
        try:
            made = binascii.a2b_base64(value, strict_mode=True)
        except ValueError:  # also of a letter that ASCII does not have
            raise Misfit("bytes in base64 are expected, and this text is none") from None
        _sized(kind, made, out)

    return put


def _by_characters(kind: AvroType) -> Put:
    def put(value: Any, out: Payload) -> None:
        if type(value) is not str or any(ord(character) > 255 for character in value):
            raise Misfit("a character for each byte is expected")
        _sized(kind, value.encode("latin-1"), out)

    return put


def _decimal(kind: AvroType) -> Put:
    if kind.name == "fixed" and kind.size > _MOST_DECIMAL_BYTES:
        raise ConfigError(f"a decimal has at most {_MOST_DECIMAL_BYTES} bytes")
    if kind.precision > _MOST_DIGITS:
        raise ConfigError(f"a decimal has at most {_MOST_DIGITS} digits")
    most, scale = 10**kind.precision, kind.scale
    expected = f"a decimal of {kind.precision} digits, {scale} of them behind the point"

    def put(value: Any, out: Payload) -> None:
        exact = _decimal_of(value)
        if exact is None:
            raise unlike(expected, value)
        unscaled = _unscaled(exact, scale)
        if unscaled is None or abs(unscaled) >= most:
            raise Misfit(f"{expected}, is expected, and this one has more")
        size = kind.size or (unscaled + (unscaled < 0)).bit_length() // 8 + 1
        _sized(kind, unscaled.to_bytes(size, "big", signed=True), out)

    return put


def _decimal_of(value: Any) -> decimal.Decimal | None:
    if type(value) is str:
        return decimal.Decimal(value) if _DECIMAL.fullmatch(value) else None
    if type(value) is float:
        return decimal.Decimal(repr(value))
    return decimal.Decimal(value) if type(value) in NUMBERS else None


def _unscaled(value: decimal.Decimal, scale: int) -> int | None:
    """All digits of a number as one integer; None where there are far too many, or more places."""
    sign, digits, power = value.as_tuple()
    if not isinstance(power, int) or len(digits) > 2 * _MOST_DIGITS + 100:
        return None
    number, shift = int("".join(map(str, digits)) or "0"), power + scale
    if not number:
        return 0
    if not -500 <= shift <= _MOST_DIGITS:
        return None
    most: int = 10 ** abs(shift)
    if shift < 0 and number % most:
        return None
    whole = number // most if shift < 0 else number * most
    return -whole if sign else whole
