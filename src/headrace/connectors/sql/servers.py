"""Databases that ``connections`` names: a pool for each, in each process.

A name is one server with one user, so two names never share a pool, whatever they stand for. A
commit whose answer is lost is told as ``OutcomeUnknown``, as the store does; what else a statement
meets is the caller's to translate.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headrace.databases.addresses import Address, parse, parse_elsewhere
from headrace.databases.engines import Waits, engine_of, writer_of
from headrace.errors import ConfigError, OutcomeUnknown, SinkUnavailable
from headrace.ports import Connections, Server


class Target:
    """A database that is not the store. Safe in several threads; not to be taken over a fork."""

    def __init__(self, name: str, address: Address) -> None:
        self.address = address
        self._where = f"connection {name} ({address.shown})"
        self._writer = writer_of(engine_of(address, Waits(), f"connection {name}"))

    def __repr__(self) -> str:
        return f"Target({self._where})"

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: commits on leaving, rolls back on an exception.

        Raises:
            SinkUnavailable: the server is not reached.
            OutcomeUnknown: on leaving; the commit may or may not have happened.
        """
        connection = self._connected()
        try:
            transaction = connection.begin()
            yield connection
            try:
                transaction.commit()
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                raise OutcomeUnknown(
                    f"{self._where}: the answer to a commit was lost; it may have happened or not"
                ) from error
        finally:
            # Rolls back what was not committed.
            connection.close()

    def _connected(self) -> Connection:
        try:
            return self._writer.connect()
        except PoolTimeout as error:
            raise SinkUnavailable(
                f"{self._where}: all connections of this process are in use"
            ) from error
        except DBAPIError as error:
            # A driver may quote what it was given; the chain of causes would show it all the same.
            said = self.address.without_password(" ".join(str(error.orig).split()))
            raise SinkUnavailable(f"{self._where}: it is not reached: {said}") from None


_targets: dict[tuple[int, str, Server], Target] = {}
_making = threading.Lock()


def target_of(connections: Connections, name: str) -> Target:
    """The database of this name; made at the first call in this process, which contacts nobody.

    Raises:
        ConfigError: there is no such connection, its URL is none of a database that is known, or
            it is the store's own file.
        CodeNotLoaded: the client of such databases is not installed.
    """
    server = connections.server(name)
    key = (os.getpid(), name, server)
    with _making:
        if key not in _targets:
            address = _address(server, name)
            _refuse_own_file(address, connections.database_url, name)
            _targets[key] = Target(name, address)
        return _targets[key]


def _address(server: Server, name: str) -> Address:
    found = parse_elsewhere(server.url, f"connection {name}")
    url = found.url
    url = url.set(username=server.user) if server.user is not None else url
    url = url.set(password=server.password) if server.password is not None else url
    return Address(url, found.shown)


def _refuse_own_file(address: Address, store_url: str, name: str) -> None:
    """SQLite has one writer a file: asking the store while a sink writes would wait for itself."""
    if not (address.is_sqlite and store_url.startswith("sqlite")):
        return
    own = parse(store_url).url.database or ""
    if Path(own).resolve() == Path(address.url.database or "").resolve():
        raise ConfigError(f"connection {name} is the store's own file: leave out at={name!r}")
