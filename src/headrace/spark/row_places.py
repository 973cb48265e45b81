"""Where the records of a table are in their lanes.

A log whose places fit in 64 bit has them in the column ``offset``, as Kafka does. One with wider
places has a number of its own there and says the places in a column beside it, which no handler is
shown.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.places import Place, read_place, text_of
from headrace.ports.reading import PLACE_COLUMN


def place_of_row(records: pa.Table, row: int) -> Place:
    """Where the record of a row is."""
    if PLACE_COLUMN in records.column_names:
        return read_place(records[PLACE_COLUMN][row].as_py())
    return records["offset"][row].as_py()  # type: ignore[no-any-return]


def first_places(records: pa.Table) -> dict[int, Place]:
    """Where the first record of each lane is, by the number of the lane."""
    numbers, rows = np.unique(records["partition"].to_numpy(), return_index=True)
    found = zip(numbers.tolist(), rows.tolist(), strict=True)
    return {number: place_of_row(records, row) for number, row in found}


def rows_at(records: pa.Table, places: Collection[Place]) -> npt.NDArray[np.bool_]:
    """Which rows are at some places."""
    if PLACE_COLUMN in records.column_names:
        texts = np.array([text_of(place) for place in places])
        return np.isin(records[PLACE_COLUMN].to_numpy().astype(texts.dtype), texts)
    return np.isin(records["offset"].to_numpy(), np.array(list(places), np.int64))


def without_places(records: pa.Table) -> pa.Table:
    """The table as handlers are shown it."""
    if PLACE_COLUMN not in records.column_names:
        return records
    return records.drop_columns([PLACE_COLUMN])
