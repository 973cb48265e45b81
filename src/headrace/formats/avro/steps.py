"""What is done to read a value: the plan of a writer's schema for a reader's.

``kind`` is the Arrow type that comes of a step. A step whose value nobody wants has none: its bytes
are passed over. Every step but ``Nothing`` and ``Refusal`` takes at least ``least`` bytes, by which
a count of items is held against the bytes that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class Nothing:
    """A null: no bytes, no value."""

    kind: Any = None
    least: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A branch of a union that a writer may use, and the reader has no place for."""

    reason: str
    kind: Any = None
    least: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """So many bytes that nobody wants."""

    size: int
    kind: Any = None

    @property
    def least(self) -> int:
        """All of them."""
        return self.size


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A whole number, and all that is kept as one: within bounds, then times ``factor``."""

    kind: Any = None
    lowest: int = -(2**63)
    highest: int = 2**63 - 1
    factor: int = 1
    #: what is said of a number that is not within
    beyond: str = ""
    least: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A float of so many bytes."""

    size: int
    kind: Any

    @property
    def least(self) -> int:
        """All of them."""
        return self.size


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A boolean."""

    kind: Any
    least: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """Bytes or text, with their length before them or of a fixed ``size``."""

    kind: Any = None
    size: int | None = None

    @property
    def least(self) -> int:
        """Its length, at least."""
        return 1 if self.size is None else self.size


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """A decimal: the digits as one signed number, highest byte first."""

    kind: Any
    size: int | None = None

    @property
    def least(self) -> int:
        """A length, and a byte."""
        return 2 if self.size is None else self.size


@dataclass(frozen=True, slots=True, eq=False)
class Guid:
    """A UUID in 16 bytes, as text."""

    kind: Any
    least: int = 16


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A symbol of an enum, by the writer's number; None: the reader has no such symbol."""

    kind: Any
    symbols: tuple[str | None, ...]
    least: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A union: a number, then what that branch is."""

    branches: tuple[Step, ...]
    kind: Any = None

    @property
    def least(self) -> int:
        """The number."""
        return 1 + min((branch.least for branch in self.branches), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A field of a writer's record: where its value goes, if it is wanted."""

    name: str
    step: Step
    slot: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """The writer's fields in their order, and the reader's that these do not have."""

    parts: tuple[Part, ...]
    #: names and types as the reader has them
    fields: tuple[pa.Field[Any], ...] = ()
    #: slot -> the default of what is not written, as a step's value would be
    defaults: tuple[tuple[int, Any], ...] = ()
    kind: Any = None
    least: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """An array, or with ``keyed`` a map: blocks of items, and none after the last."""

    item: Step
    keyed: bool = False
    kind: Any = None
    least: int = 1

    @property
    def item_least(self) -> int:
        """Bytes that one item has at least."""
        return self.item.least + self.keyed


Step = (
    Nothing
    | Refusal
    | Gap
    | Whole
    | Real
    | Truth
    | Blob
    | Digits
    | Guid
    | Symbol
    | Choice
    | Record
    | Items
)
#: items that take no bytes in one array or map: any number of these fits into a few bytes
MOST_EMPTY = 64
#: steps of one plan, each within counted as often as it is done
MOST_STEPS = 20_000


def within(step: Step) -> tuple[Step, ...]:
    """The steps that a step is made of."""
    match step:
        case Choice(branches=branches):
            return branches
        case Record(parts=parts):
            return tuple(part.step for part in parts)
        case Items(item=item):
            return (item,)
    return ()


def steps_in(step: Step) -> int:
    """How many steps a plan has, each as often as it is done."""
    counts: dict[int, int] = {}

    def count(one: Step) -> int:
        if id(one) not in counts:
            counts[id(one)] = 1 + sum(map(count, within(one)))
        return counts[id(one)]

    return count(step)
