"""Where the records of a table are in their lanes.

A log whose places fit in 64 bit has them in the column ``offset``, as Kafka does. One with wider
places has the ordinals of records there and says their places in a column beside it. Where lanes
are merged, another one says of which slice each record is: what stands in ``topic`` and
``partition`` is the log's matter. No handler is shown either of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.places import Place, read_place, text_of
from headrace.ports.reading import PLACE_COLUMN

#: which of its portion's slices a record is of; in merged portions alone
LANE_COLUMN: Final = "__lane"


def place_of_row(records: pa.Table, row: int) -> Place:
    """Where the record of a row is."""
    if _has(records, PLACE_COLUMN):
        return read_place(records[PLACE_COLUMN][row].as_py())
    return records["offset"][row].as_py()  # type: ignore[no-any-return]


def places_of_rows(records: pa.Table) -> npt.NDArray[Any]:
    """Where the records of all rows are, to be compared with places."""
    if _has(records, PLACE_COLUMN):
        texts = cast("list[str]", records[PLACE_COLUMN].to_pylist())
        return np.array([read_place(text) for text in texts], np.object_)
    return records["offset"].to_numpy()


def lanes_of_rows(records: pa.Table) -> npt.NDArray[np.int32]:
    """Which of its portion's slices each record is of."""
    if _has(records, LANE_COLUMN):
        return records[LANE_COLUMN].to_numpy()
    return np.zeros(records.num_rows, np.int32)


def of_lane(records: pa.Table, lane: int) -> pa.Table:
    """The same records, said to be of this one of their portion's slices."""
    return records.append_column(
        pa.field(LANE_COLUMN, pa.int32(), nullable=False),
        pa.array(np.full(records.num_rows, lane, np.int32)),
    )


def first_places(records: pa.Table) -> dict[int, Place]:
    """Where the first record of each slice of a portion is, by which of them it is."""
    lanes, rows = np.unique(lanes_of_rows(records), return_index=True)
    found = zip(lanes.tolist(), rows.tolist(), strict=True)
    return {lane: place_of_row(records, row) for lane, row in found}


def passed(records: pa.Table, lanes: int) -> tuple[int, ...]:
    """How many records of each slice of a portion these are; none if their log numbers them."""
    if not _has(records, PLACE_COLUMN):
        return ()
    return tuple(np.bincount(lanes_of_rows(records), minlength=lanes).tolist())


def numbered_from(records: pa.Table, ordinal: int) -> pa.Table:
    """The same records with ordinals from this one on; as they are, if their log numbers them."""
    if not _has(records, PLACE_COLUMN):
        return records
    at = records.schema.get_field_index("offset")
    numbers = pa.array(np.arange(ordinal, ordinal + records.num_rows), pa.int64())
    return records.set_column(at, records.schema.field(at), numbers)


def rows_at(records: pa.Table, places: Collection[Place]) -> npt.NDArray[np.bool_]:
    """Which rows are at some places."""
    if _has(records, PLACE_COLUMN):
        texts = pa.array(map(text_of, places), pa.string())
        return pc.is_in(records[PLACE_COLUMN], value_set=texts).to_numpy()
    return np.isin(records["offset"].to_numpy(), np.array(list(places), np.int64))


def without_places(records: pa.Table) -> pa.Table:
    """The table as handlers are shown it."""
    own = [name for name in (PLACE_COLUMN, LANE_COLUMN) if _has(records, name)]
    return records.drop_columns(own) if own else records


def _has(records: pa.Table, column: str) -> bool:
    # A list of all names costs ten times as much, and is asked for again and again.
    return records.schema.get_field_index(column) >= 0
