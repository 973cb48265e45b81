"""Clusters that the YAML file names: one client of each in a process.

A client (`clients.py`) holds threads and connections to every node, so a process has one for each
cluster, which all writers share. A child that was forked has none of its parent's.

With ``{tenant}`` in its name, its URL or its user a connection is a cluster, or a keyspace of one,
for each tenant. Keyspaces of one name, with one user, share a client; of the clients of tenants
those that were not asked for the longest are given up where there are many. To make one ready may
take long, so whoever has no time to wait leaves that to a thread, and finds it done the next time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.connectors.cassandra.addresses import Address, address_of
from headrace.connectors.cassandra.clients import Client
from headrace.connectors.cassandra.library import translated
from headrace.connectors.kept_servers import KeptServers, Key, key_of
from headrace.errors import SinkUnavailable
from headrace.model.patterns import TENANT
from headrace.ports import Connections


class Cluster:
    """A cluster, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address, client: Client | None = None) -> None:
        self.where = f"connection {name}"
        self.address = address
        self.client = client or Client(self.where, address)
        self._ready: dict[Hashable, Future[None]] = {}
        self._beginning = threading.Lock()

    def session(self) -> Any:
        """The client, connected.

        Raises:
            SinkUnavailable: no node answers.
            TargetMissing: the user is not taken, or a file of TLS is not there.
        """
        return self.client.session()

    def prepared(self, statement: str) -> Any:
        """A statement that the cluster has read; kept.

        Raises:
            HeadraceError: it cannot be read, since there is no such table, say.
        """
        return self.client.prepared(statement)

    def asked(self, statement: str, *values: object) -> list[Any]:
        """The rows that a statement answers with.

        Raises:
            HeadraceError: it cannot be done, or not now.
        """
        session = self.session()
        try:
            return list(session.execute(statement, values or None))
        except Exception as error:
            raise translated(error, self.where) from error

    def make_ready(self, what: Hashable, make: Callable[[], None], until_s: float) -> None:
        """Do once what has to be done before something is written; go on with it for the next time.

        Args:
            what: for what, such as a table.
            make: raises one of ours where it cannot be done; it is tried again then.
            until_s: second of the steady clock until which it is waited for.

        Raises:
            SinkUnavailable: it takes longer.
            HeadraceError: what ``make`` raises.
        """
        with self._beginning:
            attempt = self._ready.get(what)
            if attempt is None or (attempt.done() and attempt.exception() is not None):
                attempt = self._ready[what] = _begun(make)
        left_s = None if until_s == math.inf else max(0.0, until_s - time.monotonic())
        try:
            attempt.result(left_s)
        except TimeoutError:
            raise SinkUnavailable(f"{self.where}: it does not answer in time") from None

    def forget(self) -> None:
        """Look again at what was made ready."""
        with self._beginning:
            self._ready = {what: one for what, one in self._ready.items() if not one.done()}

    def close(self) -> None:
        """Give the client up."""
        self.client.close()


def _begun(do: Callable[[], None]) -> Future[None]:
    """Begin something in a thread of its own, which nobody has to wait for."""
    future = Future[None]()

    def run() -> None:
        try:
            do()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="cassandra-ready", daemon=True).start()
    return future


def cluster_of(
    connections: Connections, at: str, tenant: str = "", *, telling: bool = False
) -> Cluster:
    """The cluster of this name; made at the first call in this process, which contacts nobody.

    Args:
        connections: all of them.
        at: as the sink says it.
        tenant: whose, where each has its own.
        telling: an error says which connections there are.

    Raises:
        ConfigError: there is no such connection, or its URL is none of a cluster.
    """
    name = at.replace(TENANT, tenant)
    server = connections.server(name, telling=telling)
    key = key_of(name, tenant, server)
    return _clusters.had(key, partial(_cluster, key))


def _cluster(key: Key) -> Cluster:
    address = address_of(key.server, key.name, key.tenant)
    return Cluster(key.name, address, _client_like(key, address))


def _client_like(key: Key, address: Address) -> Client | None:
    """The client of another keyspace of this name, where only the keyspace is another one."""
    for known, (cluster, _) in _clusters.held.items():
        one = replace(cluster.address, keyspace=address.keyspace)
        if (known.pid, known.name, one) == (key.pid, key.name, address):
            return cluster.client
    return None


def _close_unless_shared(given_up: Cluster) -> None:
    client = given_up.client
    if all(cluster.client is not client for cluster, _ in _clusters.held.values()):
        # It may be about to connect, which nobody waits for.
        threading.Thread(target=client.close, name="cassandra-given-up", daemon=True).start()


_clusters = KeptServers[Cluster](_close_unless_shared)
