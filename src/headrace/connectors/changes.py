"""What rows want done, key by key, where a target keeps the newest of a key and judges each row.

Such a target is told of each row how new it is, as one whole number. Of the rows of one effect that
have the same key only the newest is sent, the last of equal ones; those before it are kept in mind,
since one that is refused for good leaves its key to the one before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SinkRefused
from headrace.model.years import DAY_US
from headrace.payload.exact import dates

_FINEST: Final[Mapping[str, str]] = {"ms": "millisecond", "us": "microsecond"}


@dataclass(slots=True, eq=False)
class Change:
    """What one row wants done: a put of these values, or a delete.

    There is one for each row of a bin, and Python's collector walks them all. So it is one object
    that has all there is to say of a row, and what is written is in it as text or bytes.
    """

    row: int
    gone: bool
    values: tuple[Any, ...]
    #: how new it is, as its target is told
    newness: int
    #: the one of its key before it, which is no newer
    older: Change | None = field(default=None, repr=False)
    #: of those that are written together
    effect: int = 0
    #: whose part of the target it is in; empty where all have the same
    whose: str = ""

    @property
    def all_of_its_key(self) -> Iterator[Change]:
        """It, and those of its key before it, from the newest to the oldest."""
        change: Change | None = self
        while change is not None:
            yield change
            change = change.older


def puts(values: Iterable[tuple[Any, ...]], newness: Iterable[int]) -> list[Change]:
    """Changes of rows of which none is a delete."""
    return list(map(Change, count(), repeat(False), values, newness))


def by_key(changes: list[Change], keys: Sequence[Hashable]) -> list[Change]:
    """The newest change of each key, of equal ones the last; each has those before it."""
    if len(set(keys)) == len(changes):
        return changes
    groups: dict[Hashable, list[Change]] = {}
    for key, change in zip(keys, changes, strict=True):
        groups.setdefault(key, []).append(change)
    for group in groups.values():
        group.sort(key=lambda change: change.newness)
        for older, newer in pairwise(group):
            newer.older = older
    return [group[-1] for group in groups.values()]


def newness_of(column: pa.ChunkedArray[Any], kind: str) -> list[int]:
    """How new rows are, as whole numbers: moments and days in microseconds since 1970.

    Raises:
        ValueError: a moment or day is none.
    """
    if kind == "timestamp":
        return moments(column, "us")
    days = dates(column).cast(pa.int32()) if kind == "date" else column
    numbers: list[Any] = days.cast(pa.int64()).to_pylist()
    return [day * DAY_US for day in numbers] if kind == "date" else numbers


def moments(column: pa.ChunkedArray[Any], unit: Any) -> list[Any]:
    """Moments as numbers of ``ms`` or ``us`` since 1970.

    Raises:
        ValueError: one is finer than that.
    """
    try:
        return column.cast(pa.timestamp(unit, "UTC")).cast(pa.int64()).to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"a moment is finer than a {_FINEST[unit]}, which is all that is kept, or beyond "
            "any calendar: round it in the handler"
        ) from error


def demand_keys(table: pa.Table, key: Iterable[str], where: str) -> None:
    """See that every row says its key.

    Raises:
        SinkRefused: one does not; names column and row.
    """
    for name in key:
        if table[name].null_count:
            row = pc.index(pc.is_null(table[name]), pa.scalar(value=True)).as_py()
            raise SinkRefused(f"{where}: column {name!r}, row {row}: the key has no null")


def demand_key_sizes(keys: Iterable[str | bytes], most_bytes: int, where: str, taker: str) -> None:
    """See that each row has a key, and none that is too long.

    Raises:
        SinkRefused: one has not; names it.
    """
    for row, key in enumerate(keys):
        size = len(key.encode() if isinstance(key, str) else key)
        if not 0 < size <= most_bytes:
            raise SinkRefused(
                f"{where}: row {row}: its key has {size} bytes; {taker} takes from 1 to "
                f"{most_bytes}"
            )


def demand_sizes(table: pa.Table, most_bytes: int, where: str, taker: str) -> None:
    """See that no row is too large.

    Raises:
        SinkRefused: one is; names it.
    """
    if table.nbytes <= most_bytes:
        return
    for row in range(table.num_rows):
        if _size(table, row) > most_bytes:
            raise SinkRefused(
                f"{where}: row {row} is larger than {most_bytes >> 20} MiB, which no {taker} "
                "takes at once"
            )


def _size(table: pa.Table, row: int) -> int:
    values: Iterable[Any] = (column[row] for column in table.columns)
    sizes = (
        len(value.as_buffer()) if hasattr(value, "as_buffer") and value.is_valid else 16
        for value in values
    )
    return sum(sizes)
