"""Where Kinesis is, as the YAML file says it, and Amazon's client for it.

A connection is written ``kinesis://eu-central-1``. Where it says no user and password, and no
endpoint, the client looks for them where it always does: variables of the environment such as
``AWS_ENDPOINT_URL``, files of the user, the role of the machine. Nothing of it shows in ``repr``.

The client asks nothing twice by itself: when a shard may be asked again is for who reads it to say.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.connectors.client_libraries import not_here
from headrace.connectors.kinesis.client import Kinesis
from headrace.connectors.tls_files import options_of
from headrace.errors import ConfigError
from headrace.ports import Connections, Server

_REGION: Final = re.compile(r"[a-z0-9-]+")
_FORM: Final = (
    "write it as kinesis://eu-central-1, with endpoint=https://host behind a '?' where it is not "
    "Amazon's own, and with user and password apart, both or neither"
)
#: seconds to connect, and for an answer
_CONNECT_S, _READ_S = 5.0, 10.0
#: shards are asked beside each other
_MOST_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``kinesis://eu-central-1`` says."""

    region: str
    endpoint: str | None = None
    ca_file: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of Kinesis; nothing of it is quoted but names of options.
    """
    wrong = ConfigError(f"connection {name} is no Kinesis: {_FORM}")
    try:
        split = urlsplit(server.url)
        given = options_of(split.query, ("endpoint", "ca_file"), name)
        endpoint = given.get("endpoint")
        there = urlsplit(endpoint or "https://amazon")
    except ValueError:
        raise wrong from None
    # A user before a host would be a password that some tools show.
    if split.scheme != "kinesis" or split.path.strip("/") or not _REGION.fullmatch(split.netloc):
        raise wrong
    if there.scheme not in ("http", "https") or not there.hostname or "@" in there.netloc:
        raise wrong
    if bool(server.user) != bool(server.password):
        raise wrong
    user, password = server.user or None, server.password or None
    return Address(split.netloc, endpoint, given.get("ca_file"), user, password)


@dataclass(frozen=True, slots=True)
class KinesisClients:
    """Makes the client of a process, of the connection of this name; contacts nobody."""

    at: str

    def __call__(self, connections: Connections) -> Kinesis:
        """The client.

        Raises:
            ConfigError: there is no such connection, or its URL is none of Kinesis.
            CodeNotLoaded: Amazon's client is not installed on this machine.
        """
        at = address_of(connections.server(self.at), self.at)
        client: Kinesis = client_of(at, f"connection {self.at}")
        return client


def client_of(at: Address, where: str, waits: tuple[float, float] = (_CONNECT_S, _READ_S)) -> Any:
    """The client of an address; contacts nobody.

    Args:
        at: the address.
        where: what messages call it.
        waits: seconds to connect, and for an answer.

    Raises:
        ConfigError: it cannot begin with its region and its endpoint.
        CodeNotLoaded: Amazon's client is not installed on this machine.
    """
    try:
        import boto3  # noqa: PLC0415 - only who speaks to Kinesis needs it
        from botocore.config import Config  # noqa: PLC0415
    except ImportError as error:
        raise not_here("Kinesis needs boto3", "kinesis", error) from error
    # What it meets is told by who asked, and what it sends is nobody's to log.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    config = Config(
        connect_timeout=waits[0],
        read_timeout=waits[1],
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=_MOST_CONNECTIONS,
        tcp_keepalive=True,
    )
    try:
        return boto3.Session(region_name=at.region).client(
            "kinesis",
            endpoint_url=at.endpoint,
            verify=at.ca_file,
            aws_access_key_id=at.user,
            aws_secret_access_key=at.password,
            config=config,
        )
    except ValueError:
        # It may quote what it was given.
        raise ConfigError(
            f"{where}: the client cannot begin with its region and its endpoint; mend the URL "
            "under 'connections:' and start drivers anew"
        ) from None
