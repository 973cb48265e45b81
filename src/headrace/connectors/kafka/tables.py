"""From Kafka messages to Arrow tables, fast.

A message gives up each of its fields by a method call, and those calls are most of the reader's
time. So a column is one list comprehension over one method, with no test per message, and tiny
slices share one table that is then cut without copying: making a table costs as much as reading
some hundred records.

A record that was sent back for one use case is not for the others that read its topic, and is left
out here if its seal is good (``seals``). That is looked for only where a record has headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.kafka.dead_letter_headers import Header
from headrace.connectors.kafka.lane_read import Received
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import USE_CASE_HEADER, Message, sent_back
from headrace.ports import RECORD_SCHEMA

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = (
    field.type for field in RECORD_SCHEMA
)


def table_of(runs: Sequence[tuple[str, int, Sequence[Received]]]) -> pa.Table:
    """One table of ``RECORD_SCHEMA`` with the messages of all runs, run after run.

    Args:
        runs: topic, partition and messages; no message is an error.
    """
    messages = [message for _, _, run in runs for message in run]
    if not messages:
        return _empty_table()
    headers = [message.headers() for message in messages]
    columns: list[Any] = [
        *_names(runs, len(messages)),
        pa.array([message.offset() for message in messages], _OFFSET),
        pa.array([message.timestamp()[1] for message in messages], pa.int64()).cast(_TIMESTAMP),
        pa.array([message.key() for message in messages], _KEY),
        pa.array([message.value() for message in messages], _VALUE),
        pa.array(headers, _HEADERS) if any(headers) else pa.nulls(len(messages), _HEADERS),
    ]
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA)


@cache
def _empty_table() -> pa.Table:
    """Not made on import: Arrow then imports pandas, for which no command should wait."""
    return RECORD_SCHEMA.empty_table()


def has_redriven(records: pa.Table) -> bool:
    """Whether any record says that it was sent back for one use case."""
    column = records["headers"]
    if column.null_count == len(column):
        return False
    # Stops at the first, and makes no Python object of a header.
    names = pc.struct_field(pc.list_flatten(column), "key")
    return bool(pc.index(names, USE_CASE_HEADER).as_py() >= 0)


def for_use_case(records: pa.Table, use_case: str, seal_key: bytes) -> pa.Table:
    """The records without those that a redrive sent back for another use case."""
    ours = (USE_CASE_HEADER, use_case.encode())
    wanted = [True] * len(records)
    for row, headers in enumerate(headers_of(records)):
        if any(header[0] == USE_CASE_HEADER and header != ours for header in headers):
            topic, partition = (records[name][row].as_py() for name in ("topic", "partition"))
            message = message_of(records, row, headers)
            found = sent_back(message, TopicPartition(topic, partition), seal_key)
            wanted[row] = found is None or found.use_case == use_case
    return records if all(wanted) else records.filter(pa.array(wanted, pa.bool_()))


def headers_of(records: pa.Table) -> Iterator[tuple[Header, ...]]:
    """The headers of each record; of one without any, none."""
    for headers in records["headers"].to_pylist():
        yield tuple((header["key"], header["value"]) for header in headers or ())


def message_of(records: pa.Table, row: int, headers: tuple[Header, ...]) -> Message:
    """One record as a message, with these headers."""
    key, value = (records[name][row].as_py() for name in ("key", "value"))
    return Message(key, value, headers)


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
