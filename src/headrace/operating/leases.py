"""Going on where an application of the Kinesis Client Library stands, by the table that it kept.

Who moves over stops the application, and seeks the stream to its table, before a driver reads it or
while the stream is suspended. Then what was checkpointed is done, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from headrace.connectors.dynamodb.items_there import items_there
from headrace.connectors.kinesis.lease_rows import leases_of
from headrace.connectors.kinesis.leases import places_of
from headrace.connectors.kinesis.shards import Listed
from headrace.errors import ConfigError, Temporary, no_stream
from headrace.model.lane_names import in_order
from headrace.model.places import Place
from headrace.model.streams import StreamId
from headrace.model.topic_lists import reads_several
from headrace.model.topic_names import connection_of
from headrace.ports import Connections, Log, Store

_WORD: Final = "LEASES "


class StreamsLog(Log, Protocol):
    """A log that has streams of Kinesis as well."""

    def listed(self, stream: str) -> Listed | None:
        """A stream as it was listed last; None if it was not. Nobody is asked."""


def asks_for_leases(to: str) -> bool:
    """Whether a person names a table of leases as the place to seek."""
    return to.startswith(_WORD)


def lease_places(
    store: Store, log: StreamsLog, connections: Connections, stream: StreamId, to: str
) -> Mapping[str, Place]:
    """Where all lanes of a stream go on, by a table of leases; what ``planned`` is to be given.

    Args:
        store: knows the stream.
        log: has it.
        connections: the table is at one of them.
        stream: the one to seek.
        to: as a person typed it, such as ``LEASES entities:my-app``.

    Raises:
        UnknownName: there is no such stream.
        ConfigError: it is none of Kinesis, or the table does not say where all of it stands.
        SinkUnavailable: DynamoDB does not answer.
        Temporary: where some of it begins did not show yet.
    """
    at, _, table = to.removeprefix(_WORD).strip().partition(":")
    if not at or not table:
        raise ConfigError("write it as 'LEASES entities:my-app': a connection, and its table")
    found = next((known for known in store.registry.streams() if known.id == stream), None)
    if found is None:
        raise no_stream(str(stream))
    if connection_of(found.topic) is None:
        raise ConfigError(f"{found.topic} is a topic of Kafka, of which no table has leases")
    if reads_several(found.topic):
        raise ConfigError(
            f"stream {stream} reads several streams, {found.topic}, and a table has leases of one; "
            "seek it to a time instead"
        )
    items = items_there(connections, at, table)
    info = log.topics([found.topic]).get(found.topic)
    listed = log.listed(found.topic)
    if info is None or listed is None:
        raise ConfigError(f"stream {found.topic} is not there")
    leases, starts = leases_of(items, listed), log.start_offsets(info.lanes)
    if hidden := in_order({*info.lanes} - starts.keys()):
        raise Temporary(
            f"where {', '.join(hidden)} begins did not show yet; nothing was done, try again"
        )
    open_ = [number for number, shard in listed.shards.items() if not shard.closed]
    return places_of(leases, starts, info.parents, open_)
