"""What a message is, and what becomes of an error about one: what both Kafka sink writers share.

An effect's rows are checked before any of them is sent, because a refusal of the broker comes
late and one by one. Columns: ``value``, and if wanted ``key``, ``headers``, ``topic``,
``to_partition``, ``timestamp`` and ``place``. Nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError

from headrace.connectors.columns import check_columns
from headrace.connectors.kafka.faults import DENIED, ErrorKind, kind_of
from headrace.connectors.outcomes import going_on, identity, told
from headrace.errors import (
    HeadraceError,
    Permanent,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
)
from headrace.model.patterns import TENANT
from headrace.model.streams import original
from headrace.model.topic_patterns import is_pattern, pattern_of, tenants_in
from headrace.ports import REDRIVE_HEADERS, Effect

#: makes messages of a handler's columns
Encode = Callable[[Effect], Effect]
#: header that names the effect a message belongs to
SLICE_HEADER = "headrace.slice"
#: of messages with a ``place``: headers that say where their records were, which no record brings
SPLIT_HEADERS = "headrace.split."
LANE_HEADER, PLACE_HEADER = f"{SPLIT_HEADERS}lane", f"{SPLIT_HEADERS}place"
MAX_BYTES_DEFAULT = 1_000_000
#: columns that are sent as something else, and through which types they become that
_SENT_AS: dict[str, list[pa.DataType]] = {
    "timestamp": [pa.timestamp("ms", tz="UTC"), pa.int64()],
    "place": [pa.string(), pa.binary()],
}
_REQUIRED = {"value": "bytes or text"}
_OPTIONAL = {
    "key": "bytes or text",
    "headers": "headers",
    "topic": "text",
    "to_partition": "bigint",
    "timestamp": "timestamp",
    "place": "bigint",
}
#: what a message is counted to need besides key, value, headers and its effect's name
_OVERHEAD_BYTES = 128
#: what a header is counted to need besides name and value: the length of each
_HEADER_BYTES = 10
#: what is refused of a message, or of the name of its topic
_REFUSED = {ErrorKind.BAD_NAME, ErrorKind.TOO_LARGE, ErrorKind.REFUSED, ErrorKind.BAD_CALL}


def check(table: pa.Table, topic: str, most_bytes: int, mark_bytes: int = 0) -> None:
    """See that every row can be a message.

    Args:
        table: what a handler returned.
        topic: the sink's, to be named in a message.
        most_bytes: most that a message may have.
        mark_bytes: how long the effect's name is, which may name many lanes.

    Raises:
        WrongSchema: a column is missing, or one too many, or of a wrong type.
        SinkRefused: a message is too large, or a header has no name.
    """
    where = f"topic {topic}"
    check_columns(table.schema, _REQUIRED, where, _OPTIONAL)
    _check_headers(table, where)
    sizes = _binary_lengths(table, "value")
    if "key" in table.schema.names:
        sizes = pc.add(sizes, _binary_lengths(table, "key"))
    if _has_headers(table):
        sizes = pc.add(sizes, _header_lengths(table.column("headers").combine_chunks()))
    beside = _OVERHEAD_BYTES + mark_bytes
    largest = (pc.max(sizes).as_py() or 0) + beside
    if largest > most_bytes:
        row = pc.index(sizes, largest - beside).as_py()
        raise SinkRefused(
            f"{where}: the message of row {row} has {largest} bytes, message.max.bytes allows "
            f"{most_bytes}"
        )


def sendable(
    effects: Mapping[int, Effect], topic: str, most_bytes: int, encode: Encode | None = None
) -> tuple[dict[int, Effect], dict[int, HeadraceError]]:
    """The effects that have messages, all of which can be sent, and what is wrong with others."""
    ready: dict[int, Effect] = {}
    errors: dict[int, HeadraceError] = {}
    for index, given in effects.items():
        try:
            effect = given if encode is None else encode(given)
            if effect.output.num_rows or effect.output.num_columns:
                check(effect.output, topic, most_bytes, len(identity(effect).encode()))
            _refuse_own_input(effect)
        except Exception as error:  # text that is no UTF-8, say; it must not stop the others
            errors[index] = told(error, f"topic {topic}")
        else:
            if effect.output.num_rows:
                ready[index] = effect
    return ready, errors


def _refuse_own_input(effect: Effect) -> None:
    """See that no row names a topic that a pattern lets the same use case read, for any tenant.

    Raises:
        SinkRefused: one does, and what is made of it would come back without end.
    """
    named, read = topics_of(effect, "") - {""}, effect.slices[0].topic
    if named and is_pattern(read) and (matched := sorted(tenants_in(read, named))):
        raise SinkRefused(
            f"topic {matched[0]}: a row names it, and the use case reads it itself, by its pattern "
            f"{pattern_of(read)}: its results would come back without end; write to a topic that "
            "the pattern does not match"
        )


def own_topic(effect: Effect, pattern: str) -> str:
    """Where an effect's rows go that name no topic."""
    return pattern.replace(TENANT, effect.slices[0].lane.tenant)


def topics_of(effect: Effect, own: str) -> set[str]:
    """All topics that an effect's rows go to."""
    if "topic" not in effect.output.schema.names:
        return {own}
    return {name or own for name in effect.output.column("topic").unique().to_pylist()}


def misdirected(effect: Effect, topic: str, own: str, why: HeadraceError | None) -> HeadraceError:
    """What is said of an effect whose topic is not there, with the commands that mend it.

    Args:
        effect: what was to be written.
        topic: the one that is missing.
        own: the sink's own for the effect's tenant.
        why: what brokers said when it was to be made; None if that was not wanted.
    """
    if why is not None and not isinstance(why, Permanent):
        return why
    lane = effect.slices[0].lane
    if topic != own:
        return SinkRefused(
            f"topic {topic}: it is not there, and a row names it; make it, and {going_on(effect)}"
        )
    told = "it is not there" if why is None else f"it is not there ({why})"
    make = f"'headrace topics create {original(lane.use_case)} --tenant {lane.tenant}' makes it"
    return TargetMissing(f"topic {topic}: {told}; {make}, and {going_on(effect)}")


def messages(effect: Effect, own: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Topic, value, and key, headers and time of each row, in order; marked with the effect's name.

    Headers that Headrace wrote on a record, and a handler passes on, are left out. Those of
    ``SPLIT_HEADERS`` are kept where nothing says them anew.
    """
    mark = (SLICE_HEADER, identity(effect).encode())
    table = _as_sent(effect.output)
    names = ("topic", "to_partition", "key", "value", "headers", "place", "timestamp")
    columns = [_values(table, name) for name in names]
    lane = (LANE_HEADER, effect.slices[0].lane.name.encode())
    for topic, partition, key, value, headers, place, stamp in zip(*columns, strict=True):
        pairs = _pairs(headers) if headers else []
        if place is not None:
            pairs = [pair for pair in pairs if not pair[0].startswith(SPLIT_HEADERS)]
            pairs += (lane, (PLACE_HEADER, place))
        pairs.append(mark)
        message: dict[str, Any] = {"key": key, "headers": pairs}
        if partition is not None:
            message["partition"] = partition
        if stamp is not None and stamp > 0:  # a record without a time has -1
            message["timestamp"] = stamp
        yield topic or own, value, message


def translated(error: KafkaError, topic: str, own: str | None = None) -> HeadraceError:
    """An error about a message: it passes, or its record is to blame, or a right is missing.

    Args:
        error: what Kafka says.
        topic: where the message was to go.
        own: the sink's own topic for its tenant; any other one was named by a row.
    """
    message = f"topic {topic}: {error.str()}"
    kind = kind_of(error)
    if kind in DENIED and not error.fatal():
        if own is not None and topic != own:
            return SinkRefused(message)
        return TargetMissing(f"{message}; grant Write and Describe on it")
    if kind in _REFUSED and not error.fatal():
        return SinkRefused(message)
    # A topic that is gone was there when it was looked for, and is looked for again. The producer's
    # own time-outs and a fatal state end with a new try or a new producer.
    return SinkUnavailable(message)


def _values(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist() if _has(table, name) else [None] * table.num_rows


def _has(table: pa.Table, name: str) -> bool:
    return name in table.schema.names


def _as_sent(table: pa.Table) -> pa.Table:
    """The table with times in milliseconds since 1970, and with places as they are told."""
    for name, steps in _SENT_AS.items():
        at = table.schema.get_field_index(name)
        if at >= 0:
            column = table.column(at)
            for kind in steps:
                column = column.cast(kind, safe=False)
            table = table.set_column(at, name, column)
    return table


def _pairs(headers: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]]:
    # A slice that was itself read from such a topic brings a mark; only the newest counts. For whom
    # a record was sent back is said of that record alone, not of what is made of it.
    found = ((header["key"], header["value"]) for header in headers or ())
    return [header for header in found if not _is_own(header[0])]


def _is_own(name: str) -> bool:
    return name == SLICE_HEADER or name.startswith(REDRIVE_HEADERS)


def _check_headers(table: pa.Table, where: str) -> None:
    """See that each header is there and has a name; the client would end a name at a NUL."""
    if not _has_headers(table):
        return
    headers = table.column("headers").combine_chunks()
    names = pc.struct_field(pc.list_flatten(headers), "key")
    bad = pc.or_kleene(pc.is_null(names), pc.match_substring(names, "\0"))
    place = pc.index(bad, pa.scalar(value=True)).as_py()
    if place >= 0:
        row = pc.list_parent_indices(headers)[place].as_py()
        raise SinkRefused(
            f"{where}: row {row} has a header without a name, or with a NUL in its name"
        )


def _has_headers(table: pa.Table) -> bool:
    return "headers" in table.schema.names and not pa.types.is_null(
        table.schema.field("headers").type
    )


def _header_lengths(headers: Any) -> Any:
    """What the headers of each row need."""
    flat = pc.list_flatten(headers)
    parts = (pc.binary_length(pc.struct_field(flat, name)) for name in ("key", "value"))
    names, values = (pc.fill_null(part.cast(pa.int64()), 0) for part in parts)
    needed = pc.add(pc.add(names, values), _HEADER_BYTES)
    # Bytes of all headers up to each; where a row's end, less where they begin, are its own.
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(needed)])
    counts = pc.fill_null(pc.list_value_length(headers), 0).cast(pa.int64())
    ends = pc.cumulative_sum(counts)
    return pc.subtract(sums.take(ends), sums.take(pc.subtract(ends, counts)))


def _binary_lengths(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    if pa.types.is_null(column.type):
        return pa.array([0] * table.num_rows, pa.int64())
    return pc.fill_null(pc.binary_length(column).cast(pa.int64()), 0)
