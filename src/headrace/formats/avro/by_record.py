"""One record after the other: the judge of what bytes are.

What this reads a record is, and what it refuses is refused, with the place in it. It takes a few
microseconds a record, is quick enough for a few of them, and judges those that ``by_column`` sets
aside of many.

Nothing is believed of what is written: a length or a count is held against the bytes that are left
before anything is done about it, so no record takes longer, or more memory, than its size is worth.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa

from headrace.errors import Permanent
from headrace.formats.avro.defaults import decimal_of, guid_text
from headrace.formats.avro.schema_text import short_name
from headrace.formats.avro.steps import (
    MOST_EMPTY,
    Blob,
    Choice,
    Digits,
    Gap,
    Guid,
    Items,
    Nothing,
    Real,
    Record,
    Refusal,
    Step,
    Symbol,
    Truth,
    Whole,
)

#: (bytes, where to begin) -> value, and where it ends; an IndexError: the bytes have ended
Read = Callable[[bytes, int], tuple[Any, int]]
_SHORT = "the bytes end within"


class Unreadable(Permanent):
    """Bytes that are not what their schema says; where in them becomes known on the way out."""

    def __init__(self, reason: str, path: str = "") -> None:
        """Take what is wrong, and where."""
        super().__init__(reason)
        self.reason, self.path = reason, path

    @property
    def told(self) -> str:
        """The reason with its place, as JSON has it too."""
        return f"{self.reason} - at `${self.path}`" if self.path else self.reason


def reader_of(plan: Step) -> Callable[[bytes, int], Any]:
    """Reads a record that begins at a place and goes to the end of its bytes.

    It raises ``Unreadable``.
    """
    read = _reader(plan)

    def whole(data: bytes, begin: int) -> Any:
        try:
            value, end = read(data, begin)
        except IndexError:
            raise Unreadable(_SHORT) from None
        if end != len(data):
            raise Unreadable(f"{len(data) - end} bytes more than the record has")
        return value

    return whole


def _reader(step: Step) -> Read:
    return _STEPS[type(step)](step)


def _nothing(step: Nothing) -> Read:
    del step
    return lambda data, at: (None, at)


def _gap(step: Gap) -> Read:
    return lambda data, at: (None, _checked(data, at + step.size))


def _checked(data: bytes, end: int) -> int:
    if end > len(data):
        raise IndexError
    return end


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Unreadable("a number of more than 64 bits")
    if value >= 2**64:
        raise Unreadable("a number of more than 64 bits")
    return (value >> 1) ^ -(value & 1), at + 1


def _refusal(step: Refusal) -> Read:
    def read(data: bytes, at: int) -> NoReturn:
        del data, at
        raise Unreadable(step.reason)

    return read


def _whole(step: Whole) -> Read:
    lowest, highest, factor, as_float = (
        step.lowest,
        step.highest,
        step.factor,
        step.kind == pa.float64(),
    )

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = _long(data, at)
        if not lowest <= value <= highest:
            raise Unreadable(step.beyond)
        return value * factor, at

    def read_float(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        if int(float(value)) != value:
            raise Unreadable("a number that no float is exactly")
        return float(value), at

    return read_float if as_float else read


def _real(step: Real) -> Read:
    size = step.size
    unpack = struct.Struct("<d" if size == 8 else "<f").unpack_from

    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = _checked(data, at + size)
        return unpack(data, at)[0], end

    return read


def _truth(step: Truth) -> Read:
    del step

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if data[at] > 1:
            raise Unreadable("a boolean that is neither")
        return data[at] == 1, at + 1

    return read


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Where bytes begin that have their length before them, and where they end."""
    length = data[at]
    if length < 128:  # most are short, and a call costs as much as all of this
        length, at = (length >> 1) ^ -(length & 1), at + 1
    else:
        length, at = _long(data, at)
    if length < 0:
        raise Unreadable("a length below zero")
    end = at + length
    if end > len(data):
        raise IndexError
    return at, end


def _blob(step: Blob) -> Read:
    size, text, wanted = step.size, step.kind == pa.string(), step.kind is not None

    def read(data: bytes, at: int) -> tuple[Any, int]:
        at, end = _length(data, at) if size is None else (at, _checked(data, at + size))
        return data[at:end] if wanted else None, end

    def read_text(data: bytes, at: int) -> tuple[Any, int]:
        at, end = _length(data, at)
        try:
            return data[at:end].decode(), end
        except UnicodeDecodeError as error:
            raise Unreadable(f"no UTF-8: {error.reason}") from None

    return read_text if text else read


def _digits(step: Digits) -> Read:
    size, scale, beyond = step.size, step.kind.scale, 10**step.kind.precision

    def read(data: bytes, at: int) -> tuple[Any, int]:
        at, end = _length(data, at) if size is None else (at, _checked(data, at + size))
        if at == end:
            raise Unreadable("a decimal without a digit")
        # A number of many bytes is only slow to make; beyond these there are none but zeros.
        spare = data[at : max(at, end - 32)]
        unscaled = int.from_bytes(data[max(at, end - 32) : end], "big", signed=True)
        if abs(unscaled) >= beyond or (spare and spare.strip(b"\xff" if unscaled < 0 else b"\0")):
            raise Unreadable("a decimal of more digits than its schema says")
        return decimal_of(unscaled, scale), end

    return read


def _guid(step: Guid) -> Read:
    del step

    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = _checked(data, at + 16)
        return guid_text(data[at:end]), end

    return read


def _symbol(step: Symbol) -> Read:
    symbols = step.symbols

    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _long(data, at)
        if not 0 <= number < len(symbols):
            raise Unreadable("a symbol that its enum does not have")
        if symbols[number] is None:
            raise Unreadable("a symbol that the enum of the use case does not have")
        return symbols[number], at

    return read


def _choice(step: Choice) -> Read:
    branches = [_reader(branch) for branch in step.branches]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _long(data, at)
        if not 0 <= number < len(branches):
            raise Unreadable("a branch that its union does not have")
        return branches[number](data, at)

    return read


def _record(step: Record) -> Read:
    parts = [(short_name(part.name), part.slot, _reader(part.step)) for part in step.parts]
    names = [field.name for field in step.fields]
    empty: list[Any] = [None] * len(names)
    for slot, value in step.defaults:
        empty[slot] = value

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values, name = empty.copy(), ""
        try:
            for name, slot, inner in parts:  # noqa: B007 - it is told where this ends
                value, at = inner(data, at)
                if slot is not None:
                    values[slot] = value
        except Unreadable as error:
            raise Unreadable(error.reason, f".{name}{error.path}") from None
        except IndexError:
            raise Unreadable(_SHORT, f".{name}") from None
        return dict(zip(names, values, strict=True)), at

    return read


def _blocks(step: Items, data: bytes, at: int, read_item: Callable[[int, int], int]) -> int:
    """Read all items of all blocks; ``read_item`` is told which it is and where it begins."""
    least, number = step.item_least, 0
    while True:
        count, at = _long(data, at)
        if count == 0:
            return at
        end = None
        if count < 0:
            count = -count
            size, at = _long(data, at)
            if size < 0:
                raise Unreadable("a size below zero")
            end = _checked(data, at + size)
        if count * least > len(data) - at or (not least and number + count > MOST_EMPTY):
            raise Unreadable("more items than there are bytes for")
        number += count
        if least or step.kind is not None:  # else there is nothing to pass over
            for place in range(number - count, number):
                at = read_item(place, at)
        if end is not None and at != end:
            raise Unreadable("a block of items that has another size than it says")


def _items(step: Items) -> Read:
    return _map(step) if step.keyed else _array(step)


def _array(step: Items) -> Read:
    inner = _reader(step.item)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = list[Any]()

        def read_item(number: int, at: int) -> int:
            value, at = _item(inner, data, at, number)
            values.append(value)
            return at

        at = _blocks(step, data, at, read_item)
        return values, at

    return read


def _map(step: Items) -> Read:
    inner, read_key = (
        _reader(step.item),
        _blob(Blob(pa.string() if step.kind is not None else None)),
    )

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values = dict[Any, Any]()

        def read_item(number: int, at: int) -> int:
            key, at = _item(read_key, data, at, "...")
            values[key], at = _item(inner, data, at, "...")
            return at

        at = _blocks(step, data, at, read_item)
        return list(values.items()), at

    return read


def _item(inner: Read, data: bytes, at: int, number: int | str) -> tuple[Any, int]:
    try:
        return inner(data, at)
    except Unreadable as error:
        raise Unreadable(error.reason, f"[{number}]{error.path}") from None
    except IndexError:
        raise Unreadable(_SHORT, f"[{number}]") from None


_STEPS: dict[type, Callable[[Any], Read]] = {
    Nothing: _nothing,
    Refusal: _refusal,
    Gap: _gap,
    Whole: _whole,
    Real: _real,
    Truth: _truth,
    Blob: _blob,
    Digits: _digits,
    Guid: _guid,
    Symbol: _symbol,
    Choice: _choice,
    Record: _record,
    Items: _items,
}
