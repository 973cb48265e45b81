"""Building tables of records as the reader gives them to a handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.ports import RECORD_SCHEMA


def records(
    values: Sequence[bytes | None],
    *,
    topic: str = "acme.visits",
    partition: int = 0,
    first_offset: int = 0,
    timestamps_ms: Sequence[int] | None = None,
    keys: Sequence[bytes | None] | None = None,
) -> pa.Table:
    """A table of ``RECORD_SCHEMA`` with consecutive offsets.

    Timestamps are the offsets in milliseconds, and keys null, unless given.
    """
    rows = len(values)
    offsets = range(first_offset, first_offset + rows)
    columns: list[Any] = [
        [topic] * rows,
        [partition] * rows,
        list(offsets),
        list(timestamps_ms if timestamps_ms is not None else offsets),
        list(keys if keys is not None else [None] * rows),
        list(values),
        [None] * rows,
    ]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)
