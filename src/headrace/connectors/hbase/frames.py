"""How much a request may be where connections are framed.

A Thrift server with framed transport reads a request as a whole, and hangs up on one that is larger
than its frame: 2 MB, unless it is told another number of them. It does not say so, and a client
cannot ask. So requests of several rows are cut to what the smallest frame takes; a row is not cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

#: a frame is told in whole MB; some of it is for the request itself, such as the table's name
_SMALLEST: Final = 2**20 - 2**12
#: what is around a row, and around each of its cells, in either protocol, at most
_AROUND: Final = 32


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


_Row = TypeVar("_Row", bound=_Sized)


def most_bytes(transport: str) -> float:
    """Bytes of rows that any server takes in one request."""
    return _SMALLEST if transport == "framed" else math.inf


def bytes_of(row: Any) -> int:
    """How long a ``BatchMutation`` is, at most, when it is sent."""
    cells = (_AROUND + len(cell.column) + len(cell.value or b"") for cell in row.mutations)
    return _AROUND + len(row.row) + sum(cells)


def cut(rows: Iterable[_Row], most: float) -> list[list[_Row]]:
    """Parts of rows that have so many bytes at most; one that has more is a part of its own."""
    parts: list[list[_Row]] = []
    size = 0
    for row in rows:
        if not parts or size + row.bytes > most:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row.bytes
    return parts
