"""Where the servers are, and with which credentials."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import ConfigError
from headrace.model.patterns import TENANT


@dataclass(frozen=True)
class Server:
    """A server that ``connections`` of the YAML file names; nothing of it shows in ``repr``.

    Of which kind it is says its URL. A user or password that stands apart is the server's, whatever
    the URL has.
    """

    url: str = field(repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def is_of_a_tenant(self) -> bool:
        """Whether each tenant has its own."""
        return TENANT in self.url or TENANT in (self.user or "")


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
    #: servers of any kind that sinks know by these names
    servers: Mapping[str, Server] = field(default_factory=dict, repr=False)

    @property
    def own_servers(self) -> frozenset[str]:
        """Names that stand for a server of each tenant, by the URL or the user."""
        return frozenset(name for name, server in self.servers.items() if server.is_of_a_tenant)

    def server(self, name: str, *, telling: bool = False) -> Server:
        """The server of this name.

        Args:
            name: as the YAML file has it.
            telling: an error tells which there are. Names may be those of tenants, and a tenant
                reads what its streams met: so for an operator alone.

        Raises:
            ConfigError: there is none.
        """
        if name not in self.servers:
            known = ", ".join(sorted(self.servers)) or "none"
            names = f" names {known}" if telling else " lacks it"
            raise ConfigError(
                f"there is no connection {name!r}: 'connections:' in the YAML file{names}; "
                "add it there, and start drivers that run again, which read that when they start"
            )
        return self.servers[name]

    @property
    def installation(self) -> str:
        """What tells rows of this store's drivers from those of others in a server they share.

        It is made of the store's secret, and says nothing about it; empty where that is not known.
        """
        if not self.seal_key:
            return ""
        return hmac.digest(self.seal_key, b"installation", "sha256").hex()[:16]
