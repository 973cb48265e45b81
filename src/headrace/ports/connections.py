"""Where the servers are, and with which credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connections:
    """Addresses and credentials of the servers, as driver and tasks need them.

    They travel to the tasks inside the job itself, never in Spark's configuration, and do not show
    in ``repr``.
    """

    #: librdkafka client properties, credentials included
    kafka: Mapping[str, str] = field(repr=False)
    #: SQLAlchemy URL of the store
    database_url: str = field(repr=False)
    #: ``smtp://user:password@host:port``
    smtp_url: str | None = field(default=None, repr=False)
    #: root folder for files: an absolute path, of a file system that driver and executors share
    warehouse: str | None = None
    #: where the schema registry is, and its credentials, by Confluent's keys; empty: there is none
    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: what seals records that are sent back, from the store; empty: no seal is made or believed
    seal_key: bytes = field(default=b"", repr=False)
