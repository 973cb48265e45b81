"""One client for the streams of all connections, each called by its connection and its own name.

Topics are told apart by the connection in front of their names (``model/topic_names.py``), and a
driver and its workers read those of several. So this one is called as Amazon's client is, asks that
of the connection with the stream's own name, and marks what a later call needs: an iterator, or a
page of a list, says by itself where it came from.

A client is made when a stream of its connection is first asked about, and contacts nobody before.
"""

# The client's own names.
# ruff: noqa: N803

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from headrace.connectors.kinesis.client import Answer, Kinesis
from headrace.connectors.kinesis.clients import KinesisClients
from headrace.errors import ConfigError
from headrace.model.topic_names import connection_of, own_name, within
from headrace.ports import Connections

_MARKED = ("NextToken", "ShardIterator", "NextShardIterator")


@dataclass(slots=True)
class KinesisByConnection:
    """``Kinesis`` on all connections; safe in several threads."""

    connections: Connections = field(repr=False)
    _clients: dict[str, Kinesis] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def describe_stream_summary(self, *, StreamName: str) -> Answer:
        """When a stream was made, and how long it keeps records."""
        return self._client(StreamName).describe_stream_summary(StreamName=own_name(StreamName))

    def list_shards(self, **asked: Any) -> Answer:
        """Its shards, a page at a time."""
        (said,) = {"StreamName", "NextToken"} & asked.keys()
        marked = asked[said]
        told = self._client(marked).list_shards(**{**asked, said: own_name(marked)})
        return _marked(told, marked)

    def get_shard_iterator(
        self, *, StreamName: str, ShardId: str, ShardIteratorType: str, **where: Any
    ) -> Answer:
        """Where to read a shard from."""
        told = self._client(StreamName).get_shard_iterator(
            StreamName=own_name(StreamName),
            ShardId=ShardId,
            ShardIteratorType=ShardIteratorType,
            **where,
        )
        return _marked(told, StreamName)

    def get_records(self, *, ShardIterator: str, Limit: int) -> Answer:
        """Records from there."""
        told = self._client(ShardIterator).get_records(
            ShardIterator=own_name(ShardIterator), Limit=Limit
        )
        return _marked(told, ShardIterator)

    def close(self) -> None:
        """Give up all connections."""
        with self._lock:
            clients, self._clients = [*self._clients.values()], {}
        for client in clients:
            close = getattr(client, "close", None)
            if close is not None:
                close()

    def _client(self, marked: str) -> Kinesis:
        """The client of the connection that stands in front.

        Raises:
            ConfigError: there is no such connection, or it is none of Kinesis.
            CodeNotLoaded: Amazon's client is not installed on this machine.
        """
        name = connection_of(marked)
        if name is None:
            raise ConfigError(f"{marked} names no connection, so it is no stream of Kinesis")
        with self._lock:
            if name not in self._clients:
                self._clients[name] = KinesisClients(name)(self.connections)
            return self._clients[name]


def _marked(told: Answer, by: str) -> Mapping[str, Any]:
    """An answer whose iterators and tokens say which connection they are of."""
    name = connection_of(by) or ""
    marks = {key: within(name, told[key]) for key in _MARKED if told.get(key)}
    return {**told, **marks}
