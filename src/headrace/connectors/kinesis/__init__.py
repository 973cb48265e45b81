"""Kinesis as a log: streams are topics, shards are lanes that split and merge."""

from headrace.connectors.kinesis.by_connection import KinesisByConnection
from headrace.connectors.kinesis.clients import address_of, client_of
from headrace.connectors.kinesis.log import KinesisLog
from headrace.connectors.kinesis.reader import KinesisReader, KinesisReaderFactory
from headrace.connectors.own_servers import filled
from headrace.ports import Connections

__all__ = [
    "KinesisLog",
    "KinesisReaderFactory",
    "require_client",
    "streams_log",
    "streams_reader",
]


def require_client(connection: str, connections: Connections) -> None:
    """See that a connection is one of Kinesis, and that its client can begin; contacts nobody.

    Raises:
        ConfigError: it is not, or cannot.
        CodeNotLoaded: Amazon's client is not installed on this machine.
    """
    server = filled(connections.server(connection), "tenant")
    client_of(address_of(server, connection), f"connection {connection}").close()


def streams_log(connections: Connections, *, asks_once: bool = False) -> KinesisLog:
    """What is in the streams of all connections; it connects when it is asked."""
    asked, own = KinesisByConnection(connections), connections.own_servers
    return KinesisLog(asked, asks_once=asks_once, of_tenants=own)


def streams_reader(connections: Connections) -> KinesisReader:
    """A reader of them; it connects at its first read."""
    return KinesisReader(KinesisByConnection(connections))
