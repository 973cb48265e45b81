"""From records of a shard to Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.connectors.kinesis.visit import Row
from headrace.model.places import text_of
from headrace.ports import RECORD_SCHEMA
from headrace.ports.reading import PLACE_COLUMN

_SCHEMA = RECORD_SCHEMA.append(pa.field(PLACE_COLUMN, pa.string(), nullable=False))


def table_of(stream: str, shard: int, rows: Sequence[Row], ordinal: int) -> pa.Table:
    """The records of a shard, with their places and numbered from this ordinal on.

    A stream has no headers, and its keys are texts.
    """
    count = len(rows)
    columns = {
        "topic": pa.repeat(pa.scalar(stream, pa.string()), count),
        "partition": pa.repeat(pa.scalar(shard, pa.int32()), count),
        "offset": pa.array(np.arange(ordinal, ordinal + count), pa.int64()),
        "timestamp": pa.array([row.came_ms for row in rows], pa.int64()),
        "key": pa.array([row.key.encode() for row in rows], pa.binary()),
        "value": pa.array([row.data for row in rows], pa.binary()),
        "headers": pa.nulls(count, RECORD_SCHEMA.field("headers").type),
        PLACE_COLUMN: pa.array([text_of(row.place) for row in rows], pa.string()),
    }
    columns["timestamp"] = columns["timestamp"].cast(RECORD_SCHEMA.field("timestamp").type)
    return pa.Table.from_arrays([columns[name] for name in _SCHEMA.names], schema=_SCHEMA)
