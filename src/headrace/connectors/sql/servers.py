"""Databases that ``connections`` names: a pool for each, in each process.

A name is one server with one user, so two names never share a pool, whatever they stand for. With
``{tenant}`` in the name, or in the URL or user that it stands for, it is one for each tenant; where
there are many of these, some are given up. A commit whose answer is lost is told as
``OutcomeUnknown``, as the store does; what else a statement meets is the caller's to translate.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import closing, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headrace.connectors.kept_servers import KeptServers, Key, key_of
from headrace.connectors.own_servers import filled
from headrace.databases.addresses import Address, parse, parse_elsewhere
from headrace.databases.commits import commit
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.engines import Waits, engine_of, writer_of
from headrace.errors import (
    ConfigError,
    HeadraceError,
    SinkUnavailable,
    TargetMissing,
    words_of,
)
from headrace.model.patterns import TENANT
from headrace.ports import Connections, Server

#: what a PostgreSQL may answer in a transaction: its client may keep forty times that, of answers
#: of six bytes each
_POSTGRESQL_BYTES: Final = 8 * 2**20


class Target:
    """A database that is not the store. Safe in several threads; not to be taken over a fork."""

    def __init__(self, name: str, address: Address, waits: Waits, fitted: set[Hashable]) -> None:
        self.address = address
        #: tables that were found to be what their sinks describe
        self.fitted = fitted
        self._where = f"connection {name} ({address.shown})"
        self._until_s = math.inf
        self._deadline = Deadline(ANSWER_BYTES if address.is_mysql else _POSTGRESQL_BYTES)
        self._writer = writer_of(engine_of(address, waits, f"connection {name}", self._deadline))

    def __repr__(self) -> str:
        return f"Target({self._where})"

    def until(self, until_s: float) -> Target:
        """The same, for transactions that are over by this second of the steady clock."""
        hurried = copy(self)
        hurried._until_s = until_s
        return hurried

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: commits on leaving, rolls back on an exception.

        Raises:
            SinkUnavailable: the server is not reached.
            TargetMissing: its client cannot begin with what it was told.
            OutcomeUnknown: on leaving; the commit may or may not have happened.
        """
        with self._deadline.until(self._until_s), closing(self._connected()) as connection:
            # What was not committed is rolled back.
            transaction = connection.begin()
            yield connection
            commit(transaction, self._where)

    def close(self) -> None:
        """Give up the connections that nobody uses."""
        self._writer.dispose()

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
        except Exception as error:
            # Of a file that is not there, an option that is none: it is never asked at all.
            said = self.address.without_password(words_of(error))
            raise TargetMissing(f"{self._where}: its client cannot begin: {said}") from None


_targets = KeptServers[Target](lambda target: target.close())
_fitted: dict[Key, set[Hashable]] = {}


def target_of(connections: Connections, at: str, tenant: str = "") -> Target:
    """The database of this name; made at the first call in this process, which contacts nobody.

    Args:
        connections: all of them.
        at: as the sink says it.
        tenant: whose, where each has its own.

    Raises:
        ConfigError: there is no such connection, its URL is none of a database that is known, or
            it is the store's own file; or a tenant's is the store's, or has a name that is cut.
        CodeNotLoaded: the client of such databases is not installed.
    """
    name = at.replace(TENANT, tenant)
    server = filled(connections.server(name), tenant)
    key = key_of(name, tenant, server)
    return _targets.had(key, partial(_target, key, connections.database_url))


def check_address(connections: Connections, at: str) -> None:
    """See that the databases of tenants can be spoken to, as far as that shows without one.

    Raises:
        ConfigError: they cannot.
    """
    if TENANT not in at:
        _address(filled(connections.server(at), "tenant"), at)


def _target(key: Key, store_url: str) -> Target:
    name = key.name
    address = _address(key.server, name)
    _refuse_own_file(address, store_url, name)
    if key.tenant:
        address.refuse_long_names(f"connection {name}")
        _refuse_the_stores(address, store_url, name)
    # To look at tables costs more than to connect; so that outlives the connections.
    return _made(name, address, Waits(), _fitted.setdefault(key, set()))


def _made(name: str, address: Address, waits: Waits, fitted: set[Hashable]) -> Target:
    try:
        return Target(name, address, waits, fitted)
    except HeadraceError:
        raise
    except Exception as error:
        said = address.without_password(words_of(error))
        raise ConfigError(f"connection {name}: an option of its URL is wrong: {said}") from None


def _address(server: Server, name: str) -> Address:
    found = parse_elsewhere(server.url, f"connection {name}")
    url = found.url
    url = url.set(username=server.user) if server.user is not None else url
    url = url.set(password=server.password) if server.password is not None else url
    return Address(url, found.shown)


def _refuse_the_stores(address: Address, store_url: str, name: str) -> None:
    """A tenant that is called as the store's database would have its rows beside everybody's."""
    if address.places & parse(store_url).places:
        raise ConfigError(
            f"connection {name} is the store's own database: no tenant has its rows there"
        )


def _refuse_own_file(address: Address, store_url: str, name: str) -> None:
    """SQLite has one writer a file: asking the store while a sink writes would wait for itself."""
    if not (address.is_sqlite and store_url.startswith("sqlite")):
        return
    own = parse(store_url).url.database or ""
    if Path(own).resolve() == Path(address.url.database or "").resolve():
        raise ConfigError(f"connection {name} is the store's own file: leave out at={name!r}")
