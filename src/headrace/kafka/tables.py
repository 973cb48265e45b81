"""From Kafka messages to Arrow tables, fast.

A message gives up each of its fields by a method call, and those calls are most of the reader's
time. So a column is one list comprehension over one method, with no test per message, and tiny
slices share one table that is then cut without copying: making a table costs as much as reading
some hundred records.

A record that was sent back for one use case is not for the others that read its topic, and is left
out here. That is looked for only where a record has headers at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.kafka.lane_read import Received
from headrace.kafka.letter_headers import USE_CASE_HEADER
from headrace.ports import RECORD_SCHEMA

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = (
    field.type for field in RECORD_SCHEMA
)


def table_of(runs: Sequence[tuple[str, int, Sequence[Received]]]) -> pa.Table:
    """One table of ``RECORD_SCHEMA`` with the messages of all runs, run after run.

    Args:
        runs: topic, partition and messages; no message is an error.
    """
    messages = [each for _, _, run in runs for each in run]
    if not messages:
        return _empty_table()
    headers = [each.headers() for each in messages]
    columns: list[Any] = [
        *_names(runs, len(messages)),
        pa.array([each.offset() for each in messages], _OFFSET),
        pa.array([each.timestamp()[1] for each in messages], pa.int64()).cast(_TIMESTAMP),
        pa.array([each.key() for each in messages], _KEY),
        pa.array([each.value() for each in messages], _VALUE),
        pa.array(headers, _HEADERS) if any(headers) else pa.nulls(len(messages), _HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA)


@cache
def _empty_table() -> pa.Table:
    """Not made on import: Arrow then imports pandas, for which no command should wait."""
    return RECORD_SCHEMA.empty_table()


def has_redriven(records: pa.Table) -> bool:
    """Whether any record was sent back for one use case."""
    column = records["headers"]
    if column.null_count == len(column):
        return False
    # Stops at the first, and makes no Python object of a header.
    names = pc.struct_field(pc.list_flatten(column), "key")
    return bool(pc.index(names, USE_CASE_HEADER).as_py() >= 0)


def for_use_case(records: pa.Table, use_case: str) -> pa.Table:
    """The records without those that were sent back for another use case."""
    name = use_case.encode()
    wanted = [
        all(each["value"] == name for each in headers or () if each["key"] == USE_CASE_HEADER)
        for headers in records["headers"].to_pylist()
    ]
    return records if all(wanted) else records.filter(pa.array(wanted, pa.bool_()))


def _names(runs: Sequence[tuple[str, int, Sequence[Received]]], rows: int) -> list[Any]:
    if len(runs) == 1:
        topic, partition, _ = runs[0]
        return [
            pa.repeat(pa.scalar(topic, _TOPIC), rows),
            pa.repeat(pa.scalar(partition, _PARTITION), rows),
        ]
    lengths = [len(run) for _, _, run in runs]
    places = pa.array(np.repeat(np.arange(len(runs)), lengths))
    topics = pa.array([topic for topic, _, _ in runs], _TOPIC)
    partitions = pa.array([partition for _, partition, _ in runs], _PARTITION)
    return [topics.take(places), partitions.take(places)]
