"""Values as texts that every reader knows, for targets without types of their own for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.payload.exact import dates, decimals, digits_of


def exact_texts(column: pa.ChunkedArray[Any], kind: str) -> list[Any] | None:
    """Amounts in digits, days as ``2026-01-31``, moments as ``2026-01-31T12:00:00.000000Z``.

    None for any other kind.

    Raises:
        ValueError: an amount or day is none, or a moment is finer than a microsecond.
    """
    digits = digits_of(kind)
    if digits is not None:
        amounts = decimals(column, digits).to_pylist()
        return [None if amount is None else format(amount, "f") for amount in amounts]
    if kind == "date":
        return list(dates(column).cast(pa.string()).to_pylist())
    if kind != "timestamp":
        return None
    utc: Any = column.cast(pa.timestamp("us", "UTC"))
    texts: Any = pc.strftime(utc, format="%Y-%m-%dT%H:%M:%SZ")
    return list(texts.to_pylist())


def joined_keys(parts: Sequence[Sequence[str]]) -> list[str]:
    """Keys of the columns of ``parts``, with ``:`` between them, of which no two are alike."""
    return list(map(":".join, zip(*map(_escaped, parts), strict=True)))


def _escaped(texts: Sequence[str]) -> Sequence[str]:
    together = "".join(texts)
    if ":" not in together and "%" not in together:
        return texts
    return [text.replace("%", "%25").replace(":", "%3A") for text in texts]


def demand_finite(numbers: Sequence[float | None], taker: str) -> None:
    """See that each number is finite.

    Raises:
        ValueError: one is not; names its row, and who takes none.
    """
    for row, number in enumerate(numbers):
        if number is not None and not math.isfinite(number):
            raise ValueError(f"row {row}: {taker} has only numbers that are finite")
