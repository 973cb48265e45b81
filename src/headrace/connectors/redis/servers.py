"""Servers that the YAML file names: what their addresses say, and one client of each a process.

A client holds a few connections, which all writers of the process share. Nothing is asked a second
time by the client on its own: whether something may be written again is for the sink to say. All of
what is asked at once has so many seconds, also where answers come byte by byte.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.connectors.made_once import MadeOnce
from headrace.connectors.own_servers import ALONE, OwnServers
from headrace.connectors.redis.library import library, translated
from headrace.connectors.tls_files import FILES, context_of, files_of, options_of
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.sockets import SocketInTime
from headrace.errors import ConfigError
from headrace.ports import Server

_PORT: Final = 6379
#: scheme -> whether it is TLS
_SCHEMES: Final = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
_FORM: Final = "write it as rediss://host:6379/0?ca_file=/etc/ssl/ca.pem"


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``redis://cache.example.org:6379/0`` says."""

    host: str
    port: int
    database: int
    tls: bool
    files: tuple[tuple[str, str], ...] = ()
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of such a server; nothing of it is quoted but names of options.
    """
    wrong = ConfigError(f"connection {name} is no Redis or Valkey: {_FORM}")
    try:
        split = urlsplit(server.url)
        host, port = split.hostname, split.port
        user, password = split.username, split.password
    except ValueError:
        raise wrong from None
    database = split.path.strip("/") or "0"
    if split.scheme not in _SCHEMES or not host or not database.isascii() or not database.isdigit():
        raise wrong
    given = options_of(split.query, FILES, name)
    tls = _SCHEMES[split.scheme]
    if given and not tls:
        raise ConfigError(f"connection {name}: files of TLS need rediss:// in place of redis://")
    return Address(
        host,
        port or _PORT,
        int(database),
        tls,
        files_of(given),
        server.user if server.user is not None else unquote(user or "") or None,
        server.password if server.password is not None else unquote(password or "") or None,
    )


class Cache:
    """A server, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address, waits: tuple[float, float] = ALONE) -> None:
        self.where = f"connection {name}"
        self.address = address
        self._waits = waits
        self._deadline = Deadline(ANSWER_BYTES)
        made = partial(_client, address, waits, self.where, self._deadline)
        self._client = MadeOnce[Any](made, lambda client: client.close())

    def __repr__(self) -> str:
        return f"Cache({self.where})"

    def asked(self, *command: Any) -> Any:
        """The answer to a command.

        Raises:
            HeadraceError: there is none, or it is an error.
        """
        client = self._client.had()
        try:
            with self._in_time():
                return client.execute_command(*command)
        except Exception as error:
            raise translated(error, self.where) from error

    def each(self, commands: Sequence[tuple[Any, ...]], until_s: float = math.inf) -> list[Any]:
        """The answers to commands that are sent at once; an error of the server is one of them.

        Args:
            commands: each with its arguments.
            until_s: second of the steady clock at which the connection is given up.

        Raises:
            HeadraceError: the connection failed, so nobody knows what of them was done.
        """
        pipeline = self._client.had().pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            with self._in_time(until_s):
                answers: list[Any] = pipeline.execute(raise_on_error=False)
        except Exception as error:
            raise translated(error, self.where) from error
        read_only = library().exceptions.ReadOnlyError
        if any(isinstance(found, read_only) for found in answers):
            # The name may lead to another server by now, and connections stay with this one.
            self.close()
        return [
            translated(found, self.where) if isinstance(found, Exception) else found
            for found in answers
        ]

    def close(self) -> None:
        """Give the connections up that nobody uses."""
        self._client.close()

    def _in_time(self, until_s: float = math.inf) -> AbstractContextManager[None]:
        """What this thread asks in the block is answered by then, and in the time for an answer."""
        return self._deadline.until(min(until_s, time.monotonic() + self._waits[1]))


def _client(at: Address, waits: tuple[float, float], where: str, deadline: Deadline) -> Any:
    lib = library()
    files = dict(at.files)
    if at.tls:
        context_of(files, where)  # its client says of a file that is missing that nobody answers
    tls = {
        "ssl": True,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
        "ssl_ca_certs": files.get("ca_file"),
        "ssl_certfile": files.get("certificate_file"),
        "ssl_keyfile": files.get("key_file"),
    }
    client = lib.Redis(
        host=at.host,
        port=at.port,
        db=at.database,
        username=at.user,
        password=at.password,
        protocol=2,
        socket_connect_timeout=waits[0],
        socket_timeout=waits[1],
        retry=lib.retry.Retry(lib.backoff.NoBackoff(), 0),
        **(tls if at.tls else {}),
    )
    pool = client.connection_pool
    pool.connection_class = _in_time(pool.connection_class, deadline)
    return client


def _in_time(kind: Any, deadline: Deadline) -> Any:
    """Connections like these, all of whose waits end with the time of their thread."""

    class InTime(kind):  # type: ignore[misc]
        def _connect(self) -> SocketInTime:
            return SocketInTime(deadline.connected(super()._connect), deadline)

    return InTime


_caches = OwnServers[Cache](
    lambda name, server, waits: Cache(name, address_of(server, name), waits),
    lambda given_up: given_up.close(),
)
#: that of a connection's name
cache_of = _caches.of
