"""Values as texts that every reader knows, for targets without types of their own for them."""

from __future__ import annotations

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
    return [":".join(of_row) for of_row in zip(*(map(_part, part) for part in parts), strict=True)]


def _part(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A") if ":" in text or "%" in text else text
