"""Where DynamoDB is, as the YAML file says it, and one client of each such connection a process.

How long its answers are waited for is common to Amazon's services (``amazon_clients.py``).
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.dynamodb.library import demand_its_own, library
from headrace.connectors.own_servers import ALONE, OwnServers
from headrace.connectors.tls_files import context_of, options_of
from headrace.errors import ConfigError, TargetMissing
from headrace.ports import Server

_REGION: Final = re.compile(r"[a-z0-9-]+")
_FORM: Final = (
    "write it as dynamodb://eu-central-1, with endpoint=https://host behind a '?' where it is not "
    "Amazon's own, and with user and password apart, both or neither"
)


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``dynamodb://eu-central-1`` says."""

    region: str
    endpoint: str | None = None
    ca_file: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of DynamoDB; nothing of it is quoted but names of options.
    """
    wrong = ConfigError(f"connection {name} is no DynamoDB: {_FORM}")
    try:
        split = urlsplit(server.url)
        given = options_of(split.query, ("endpoint", "ca_file"), name)
        endpoint = given.get("endpoint")
        there = urlsplit(endpoint or "https://amazon")
    except ValueError:
        raise wrong from None
    # A user before a host would be a password that some tools show.
    if split.scheme != "dynamodb" or split.path.strip("/") or not _REGION.fullmatch(split.netloc):
        raise wrong
    if there.scheme not in ("http", "https") or not there.hostname or "@" in there.netloc:
        raise wrong
    if bool(server.user) != bool(server.password):
        raise wrong
    user, password = server.user or None, server.password or None
    return Address(split.netloc, endpoint, given.get("ca_file"), user, password)


class Service(AmazonService):
    """DynamoDB, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address, waits: tuple[float, float] = ALONE) -> None:
        self.address = address
        #: tables that were found to be what their sinks describe
        self.fitted: set[str] = set()
        self._seconds = waits
        super().__init__(f"connection {name}", self._opened, waits)

    def _opened(self) -> Any:
        client = _client(self.address, self._seconds, self.where)
        # What comes back and is no answer of DynamoDB raises ``SinkUnavailable``.
        client.meta.events.register("before-parse.dynamodb", self._look_at)
        return client

    def _look_at(self, response_dict: dict[str, Any], **_: Any) -> None:
        demand_its_own(response_dict, self.where)


def _client(at: Address, waits: tuple[float, float], where: str) -> Any:
    lib = library()
    # What it meets is told by who asked, and what it sends is nobody's to log.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    if at.ca_file is not None:
        context_of({"ca_file": at.ca_file}, where)  # the client says that nobody answers
    config = lib.Config(
        connect_timeout=waits[0],
        read_timeout=waits[1],
        retries={"total_max_attempts": 1, "mode": "standard"},
        parameter_validation=False,
        tcp_keepalive=True,
    )
    settings = lib.settings()
    # Of those clients too that it makes to be given credentials.
    settings.set_default_client_config(config)
    try:
        return lib.Session(botocore_session=settings, region_name=at.region).client(
            "dynamodb",
            endpoint_url=at.endpoint,
            verify=at.ca_file,
            aws_access_key_id=at.user,
            aws_secret_access_key=at.password,
        )
    except ValueError:
        # It may quote what it was given.
        raise TargetMissing(
            f"{where}: the client cannot begin with its region and its endpoint; mend the URL "
            "under 'connections:' and start drivers anew"
        ) from None


_services = OwnServers[Service](
    lambda name, server, waits: Service(name, address_of(server, name), waits),
    lambda given_up: given_up.close(),
)
#: that of a connection's name
service_of = _services.of
