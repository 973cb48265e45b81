"""Avro's bytes for tests: by hand, by chance and spoilt, with no library of Avro."""

from __future__ import annotations

import random
from typing import Any

_TIMES = {
    "date": (-719_162, 2_932_896),
    "time-millis": (0, 86_399_999),
    "time-micros": (0, 86_399_999_999),
    "timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "local-timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "local-timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
_WHOLES = {"int": [0, 1, -1, 2**31 - 1, -(2**31), 300], "long": [0, 5, -1, 2**63 - 1, -(2**63)]}
_LETTERS = "aü€😀\0z"


def number(value: int) -> bytes:
    """A number of variable length."""
    value, made = ((value << 1) ^ (value >> 63)) & (2**64 - 1), bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def sized(value: bytes) -> bytes:
    """Bytes with their length."""
    return number(len(value)) + value


def record(schema: Any, chance: random.Random) -> bytes:
    """Some value of a schema that names no type twice."""
    if isinstance(schema, list):
        branch = chance.randrange(len(schema))
        return number(branch) + record(schema[branch], chance)
    given = schema if isinstance(schema, dict) else {"type": schema}
    kind, logical = given["type"], given.get("logicalType", "")
    if isinstance(kind, (dict, list)):
        return record(kind, chance)
    if logical in _TIMES:
        return number(chance.randint(*_TIMES[logical]))
    if logical == "decimal":
        return _decimal(given, chance)
    return _MAKERS[kind](given, chance)


def spoilt(value: bytes, chance: random.Random) -> bytes:
    """The same, or changed, cut, or longer."""
    made, how = bytearray(value), chance.randrange(10)
    place = chance.randrange(len(made) + 1)
    if how < 4 or not made:
        return value
    if how == 4:
        made[place % len(made)] = chance.randrange(256)
    elif how == 5:
        made[place % len(made)] ^= 1 << chance.randrange(8)
    elif how == 6:
        del made[place:]
    elif how == 7:
        made += chance.randbytes(chance.randrange(1, 4))
    elif how == 8:
        made[place:place] = chance.randbytes(chance.randrange(1, 12))
    else:
        made[place : place + 1] = b"\xff" * chance.randrange(1, 12)
    return bytes(made)


def _decimal(given: dict[str, Any], chance: random.Random) -> bytes:
    most = 10 ** given["precision"] - 1
    value = chance.choice([0, most, -most, chance.randint(-most, most)])
    if given["type"] == "fixed":
        return value.to_bytes(given["size"], "big", signed=True)
    size = (value.bit_length() + 8) // 8 + chance.choice([0, 0, 1, 20])
    return sized(value.to_bytes(size, "big", signed=True))


def _text(_: Any, chance: random.Random) -> bytes:
    return sized("".join(chance.choices(_LETTERS, k=chance.choice([0, 1, 4, 30]))).encode())


def _many(given: dict[str, Any], chance: random.Random) -> bytes:
    made, keyed = b"", given["type"] == "map"
    inner = given["values" if keyed else "items"]
    for _ in range(chance.choice([0, 1, 1, 2])):
        count = chance.choice([1, 2, 3, 12])
        items = b"".join(
            (_text(None, chance) if keyed else b"") + record(inner, chance) for _ in range(count)
        )
        with_size = number(-count) + sized(items)
        made += with_size if chance.random() < 0.4 else number(count) + items
    return made + b"\0"


_MAKERS = {
    "null": lambda given, chance: b"",
    "boolean": lambda given, chance: bytes([chance.randrange(2)]),
    "int": lambda given, chance: number(chance.choice(_WHOLES["int"])),
    "long": lambda given, chance: number(
        chance.choice([*_WHOLES["long"], chance.randrange(1 << 40)])
    ),
    "float": lambda given, chance: chance.randbytes(4),
    "double": lambda given, chance: chance.randbytes(8),
    "bytes": lambda given, chance: sized(chance.randbytes(chance.choice([0, 1, 70]))),
    "string": _text,
    "enum": lambda given, chance: number(chance.randrange(len(given["symbols"]))),
    "fixed": lambda given, chance: chance.randbytes(given["size"]),
    "array": _many,
    "map": _many,
    "record": lambda given, chance: b"".join(
        record(found["type"], chance) for found in given["fields"]
    ),
}
