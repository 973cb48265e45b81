"""Where DynamoDB is, as the YAML file says it, and one client of each such connection a process.

A client holds a few connections, which all writers of the process share. Nothing is asked a second
time by the client on its own: whether something may be written again, and when, is for the sink to
say. All of an answer has so many seconds, also where it comes byte by byte, and no more than what
those have who wait for it.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.connectors.dynamodb.library import demand_its_own, library
from headrace.connectors.own_servers import ALONE, OwnServers
from headrace.connectors.tls_files import context_of, options_of
from headrace.databases.deadline import Deadline
from headrace.databases.sockets import SocketInTime
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


class Service:
    """DynamoDB, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address, waits: tuple[float, float] = ALONE) -> None:
        self.where = f"connection {name}"
        self.address = address
        #: tables that were found to be what their sinks describe
        self.fitted: set[str] = set()
        self._waits = waits
        self._deadline = Deadline()
        self._made: Any = None
        self._making = threading.Lock()

    def __repr__(self) -> str:
        return f"Service({self.where})"

    def asked(self, operation: str, request: dict[str, Any], until_s: float = math.inf) -> Any:
        """The answer to a request.

        Args:
            operation: as the client calls it, such as ``put_item``.
            request: its parameters.
            until_s: second of the steady clock until which others wait.

        Raises:
            Exception: whatever the client does; see ``library.translated``.
            SinkUnavailable: what came back is no answer of DynamoDB.
        """
        end_s = min(until_s, time.monotonic() + self._waits[1])
        with self._deadline.until(end_s):
            try:
                return getattr(self._client(), operation)(**request)
            except library().errors.NoCredentialsError:
                # They may be there the next time.
                self.close()
                raise

    def close(self) -> None:
        """Give the connections up."""
        with self._making:
            client, self._made = self._made, None
        if client is not None:
            client.close()

    def _client(self) -> Any:
        if (made := self._made) is not None:
            return made
        # Credentials may be asked for by then, of whoever gives this machine its role.
        kept: _Kept = self._deadline.connected(self._make)
        return kept.client

    def _make(self) -> _Kept:
        with self._making:
            if self._made is None:
                self._made = _client(self.address, self._waits, self.where)
                _hurry(self._made._endpoint.http_session, self._deadline)
                self._made.meta.events.register("before-parse.dynamodb", self._look_at)
            return _Kept(self._made)

    def _look_at(self, response_dict: dict[str, Any], **_: Any) -> None:
        demand_its_own(response_dict, self.where)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A client; one that comes too late is kept for the next time."""

    client: Any

    def close(self) -> None:
        """Nobody waits for it now."""


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


def _hurry(session: Any, deadline: Deadline) -> None:
    """Have all waits of a client's connections end with the time of their thread."""
    pools = session._pool_classes_by_scheme
    for scheme, pool in list(pools.items()):
        kind = _in_time(pool.ConnectionCls, deadline)
        pools[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": kind})


def _in_time(kind: Any, deadline: Deadline) -> Any:
    class InTime(kind):  # type: ignore[misc]
        sock: Any

        def connect(self) -> None:
            self.sock = SocketInTime(deadline.connected(self._connected), deadline)

        def _connected(self) -> Any:
            super().connect()
            return self.sock

    return InTime


_services = OwnServers[Service](
    lambda name, server, waits: Service(name, address_of(server, name), waits),
    lambda given_up: given_up.close(),
)
#: that of a connection's name
service_of = _services.of
