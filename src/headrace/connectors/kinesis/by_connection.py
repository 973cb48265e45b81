"""One client for the streams of all connections, each called by its connection and its own name.

Topics are told apart by the connection in front of their names (``model/topic_names.py``), and a
driver and its workers read those of several. So this one is called as Amazon's client is, asks that
of the connection with the stream's own name, and marks what a later call needs: an iterator, or a
page of a list, says by itself where it came from.

A client is made when a stream of its connection is first asked about, and contacts nobody before.

Where each tenant has its own connection, by its role for instance, it has its own client too. Whose
a stream is says its name, up to the first dot, which no tenant's name has; so does what a later
call needs. Of these clients some are given up where there are many.
"""

# The client's own names.
# ruff: noqa: N803

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from headrace.connectors.kinesis.client import Answer, Kinesis
from headrace.connectors.kinesis.clients import KinesisClients, address_of, in_time
from headrace.connectors.own_servers import OwnServers
from headrace.errors import ConfigError
from headrace.model.topic_names import connection_of, own_name, within
from headrace.ports import Connections

_MARKED = ("NextToken", "ShardIterator", "NextShardIterator")


def _of_tenants() -> OwnServers[Any]:
    return OwnServers(
        lambda name, server, _: in_time(address_of(server, name), f"connection {name}"),
        _close,
    )


@dataclass(slots=True)
class KinesisByConnection:
    """``Kinesis`` on all connections; safe in several threads."""

    connections: Connections = field(repr=False)
    _clients: dict[str, Kinesis] = field(default_factory=dict, repr=False)
    #: of connections of which each tenant has its own
    _own: OwnServers[Any] = field(default_factory=_of_tenants, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def describe_stream_summary(self, *, StreamName: str) -> Answer:
        """When a stream was made, and how long it keeps records."""
        client, _ = self._at(StreamName)
        return client.describe_stream_summary(StreamName=own_name(StreamName))

    def list_shards(self, **asked: Any) -> Answer:
        """Its shards, a page at a time."""
        (said,) = {"StreamName", "NextToken"} & asked.keys()
        given = asked[said]
        client, mark = self._at(given)
        own = own_name(given) if said == "StreamName" else given.removeprefix(mark)
        return _marked(client.list_shards(**{**asked, said: own}), mark)

    def get_shard_iterator(
        self, *, StreamName: str, ShardId: str, ShardIteratorType: str, **where: Any
    ) -> Answer:
        """Where to read a shard from."""
        client, mark = self._at(StreamName)
        told = client.get_shard_iterator(
            StreamName=own_name(StreamName),
            ShardId=ShardId,
            ShardIteratorType=ShardIteratorType,
            **where,
        )
        return _marked(told, mark)

    def get_records(self, *, ShardIterator: str, Limit: int) -> Answer:
        """Records from there."""
        client, mark = self._at(ShardIterator)
        own = ShardIterator.removeprefix(mark)
        return _marked(client.get_records(ShardIterator=own, Limit=Limit), mark)

    def close(self) -> None:
        """Give up all connections."""
        with self._lock:
            clients, self._clients = [*self._clients.values()], {}
        own, self._own = self._own, _of_tenants()
        for client in [*clients, *(client for client, _ in own.held.values())]:
            _close(client)

    def _at(self, name: str) -> tuple[Kinesis, str]:
        """The client of the connection that stands in front, and how what it gives is marked.

        Args:
            name: of a stream, or what was marked so.

        Raises:
            ConfigError: there is no such connection, or it is none of Kinesis.
            CodeNotLoaded: Amazon's client is not installed on this machine.
        """
        at = connection_of(name)
        if at is None:
            raise ConfigError(f"{name} names no connection, so it is no stream of Kinesis")
        server = self.connections.servers.get(at)
        if server is not None and server.is_of_a_tenant:
            tenant, _, _ = own_name(name).partition(".")
            return self._own.of(self.connections, at, tenant), within(at, f"{tenant}.")
        with self._lock:
            if at not in self._clients:
                self._clients[at] = KinesisClients(at)(self.connections)
            return self._clients[at], within(at, "")


def _marked(told: Answer, mark: str) -> Mapping[str, Any]:
    """An answer whose iterators and tokens say which connection they are of, and whose."""
    return {**told, **{key: f"{mark}{told[key]}" for key in _MARKED if told.get(key)}}


def _close(client: Any) -> None:
    close = getattr(client, "close", None)
    if close is not None:
        close()
