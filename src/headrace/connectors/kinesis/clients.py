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
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.client_libraries import not_here
from headrace.connectors.kinesis.in_time import KinesisInTime
from headrace.connectors.kinesis.roles import in_role, is_role, session_of
from headrace.connectors.own_servers import filled
from headrace.connectors.tls_files import options_of
from headrace.errors import ConfigError
from headrace.ports import Connections, Server

_REGION: Final = re.compile(r"[a-z0-9-]+")
_FORM: Final = (
    "write it as kinesis://eu-central-1, with endpoint=https://host behind a '?' where it is not "
    "Amazon's own, role=arn:aws:iam::123456789012:role/name where one is to be assumed, and with "
    "user and password apart, both or neither"
)
#: seconds to connect, and between bytes of an answer
_CONNECT_S, _READ_S = 5.0, 10.0
#: for all of an answer, which may be of 10 MB
_ANSWER_S = 30.0
#: shards are asked beside each other
_MOST_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``kinesis://eu-central-1`` says."""

    region: str
    endpoint: str | None = None
    ca_file: str | None = None
    #: to be assumed
    role: str | None = None
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
        given = options_of(split.query, ("endpoint", "ca_file", "role"), name)
        endpoint = given.get("endpoint")
        there = urlsplit(endpoint or "https://amazon")
    except ValueError:
        raise wrong from None
    # A user before a host would be a password that some tools show.
    if split.scheme != "kinesis" or split.path.strip("/") or not _REGION.fullmatch(split.netloc):
        raise wrong
    if there.scheme not in ("http", "https") or not there.hostname or "@" in there.netloc:
        raise wrong
    role = given.get("role")
    if bool(server.user) != bool(server.password) or not (role is None or is_role(role)):
        raise wrong
    user, password = server.user or None, server.password or None
    return Address(split.netloc, endpoint, given.get("ca_file"), role, user, password)


@dataclass(frozen=True, slots=True)
class KinesisClients:
    """Makes the client of a process, of the connection of this name; contacts nobody.

    Where each tenant has its own, the client is that of one, whose name does not matter.
    """

    at: str

    def __call__(self, connections: Connections) -> KinesisInTime:
        """The client.

        Raises:
            ConfigError: there is no such connection, or its URL is none of Kinesis.
        """
        at = address_of(filled(connections.server(self.at), "tenant"), self.at)
        return in_time(at, f"connection {self.at}")


def in_time(at: Address, where: str) -> KinesisInTime:
    """The client of an address, for who reads; its library is looked for at the first request."""
    return KinesisInTime(
        AmazonService(where, partial(client_of, at, where), (_CONNECT_S, _ANSWER_S))
    )


def client_of(at: Address, where: str, waits: tuple[float, float] = (_CONNECT_S, _READ_S)) -> Any:
    """The client of an address; contacts nobody.

    Args:
        at: the address.
        where: what messages call it.
        waits: seconds to connect, and between bytes of an answer.

    Raises:
        ConfigError: it cannot begin with its region and its endpoint.
        CodeNotLoaded: Amazon's client is not installed on this machine.
    """
    try:
        from botocore.config import Config  # noqa: PLC0415 - only who speaks to Kinesis needs it

        session = session_of(at.user, at.password)
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
        if at.role is not None:
            session = in_role(session, at.role, at.region, config)
        return session.create_client(
            "kinesis",
            region_name=at.region,
            endpoint_url=at.endpoint,
            verify=at.ca_file,
            config=config,
        )
    except ValueError:
        # It may quote what it was given.
        raise ConfigError(
            f"{where}: the client cannot begin with its region and its endpoint; mend the URL "
            "under 'connections:' and start drivers anew"
        ) from None
