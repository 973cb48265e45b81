"""Clusters that the YAML file names: what their addresses say, and one client of each a process.

A client holds threads and connections to every node, so a process has one for each cluster, which
all writers share; it finds nodes that went away again by itself, within seconds. A child that was
forked has none of its parent's. Nothing is asked a second time by the client on its own: whether
something may be written again is for the sink to say.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.connectors.cassandra.library import library, translated
from headrace.errors import (
    ConfigError,
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
)
from headrace.ports import Connections, Server

#: seconds for a node to take a connection, and to answer
CONNECT_S, ANSWER_S = 5.0, 10.0
#: seconds between attempts to reach a node that is away
_AGAIN_S: Final = (0.5, 5.0)
_PORT: Final = 9042
_OPTIONS: Final = ("datacenter", "tls", "ca_file", "certificate_file", "key_file")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``cassandra://a,b:9042/history?datacenter=dc1`` says."""

    hosts: tuple[tuple[str, int], ...]
    keyspace: str
    datacenter: str
    tls: bool
    files: tuple[tuple[str, str], ...] = ()
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of a cluster; nothing of it is quoted but names of options.
    """
    form = "write it as cassandra://host1,host2:9042/keyspace?datacenter=dc1"
    split = urlsplit(server.url)
    if split.scheme != "cassandra":
        raise ConfigError(f"connection {name} is no Cassandra: {form}")
    given = dict(parse_qsl(split.query))
    for option in given.keys() - set(_OPTIONS):
        known = ", ".join(_OPTIONS)
        raise ConfigError(f"connection {name}: option {option!r} is none of {known}")
    user, _, hosts = split.netloc.rpartition("@")
    keyspace = split.path.strip("/")
    if not hosts or not _NAME.fullmatch(keyspace) or not given.get("datacenter"):
        raise ConfigError(f"connection {name}: hosts, keyspace or datacenter are missing: {form}")
    if given.get("tls", "on") not in ("on", "off"):
        raise ConfigError(f"connection {name}: tls is on or off")
    files = tuple((key, given[key]) for key in _OPTIONS[2:] if key in given)
    name_in_url, _, password_in_url = user.partition(":")
    return Address(
        _hosts(hosts, name, form),
        keyspace,
        given["datacenter"],
        given.get("tls", "on" if files else "off") == "on",
        files,
        server.user if server.user is not None else unquote(name_in_url) or None,
        server.password if server.password is not None else unquote(password_in_url) or None,
    )


def _hosts(said: str, name: str, form: str) -> tuple[tuple[str, int], ...]:
    pairs = [host.rpartition(":") if ":" in host else (host, "", "") for host in said.split(",")]
    last = pairs[-1][2]
    made = [(host, port or last or str(_PORT)) for host, _, port in pairs]
    if not all(host and port.isdigit() and 0 < int(port) < 65536 for host, port in made):
        raise ConfigError(f"connection {name}: a host or a port is wrong: {form}")
    return tuple((host, int(port)) for host, port in made)


class Cluster:
    """A cluster, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address) -> None:
        self.where = f"connection {name}"
        self.address = address
        self._session: Any = None
        self._prepared: dict[str, Any] = {}
        self._connecting = threading.Lock()

    def session(self) -> Any:
        """The client, connected.

        Raises:
            SinkUnavailable: no node answers.
            TargetMissing: the user is not taken, or a file of TLS is not there.
        """
        with self._connecting:
            if self._session is None:
                self._session = self._connected()
            return self._session

    def prepared(self, statement: str) -> Any:
        """A statement that the cluster has read; kept.

        Raises:
            HeadraceError: it cannot be read, since there is no such table, say.
        """
        if statement not in self._prepared:
            session = self.session()
            try:
                self._prepared[statement] = session.prepare(statement)
            except Exception as error:
                told = translated(error, self.where)
                if isinstance(told, SinkRefused):
                    # The statement is ours, and no record is to blame for it.
                    told = TargetMissing(str(told))
                raise told from error
        return self._prepared[statement]

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

    def close(self) -> None:
        """Give the client up."""
        with self._connecting:
            session, self._session = self._session, None
            self._prepared.clear()
        if session is not None:
            session.cluster.shutdown()

    def _connected(self) -> Any:
        lib = library()
        cluster = self._client(lib)
        try:
            return cluster.connect()
        except Exception as error:
            cluster.shutdown()
            told = translated(error, self.where)
            if isinstance(told, SinkUnavailable):
                told = SinkUnavailable(f"{told} (datacenter {self.address.datacenter})")
            raise told from error

    def _client(self, lib: Any) -> Any:
        at, policies = self.address, lib.policies
        local = policies.DCAwareRoundRobinPolicy(local_dc=at.datacenter)
        profile = lib.cluster.ExecutionProfile(
            load_balancing_policy=policies.TokenAwarePolicy(local),
            retry_policy=policies.FallthroughRetryPolicy(),
            consistency_level=lib.ConsistencyLevel.LOCAL_QUORUM,
            request_timeout=ANSWER_S,
            row_factory=lib.query.tuple_factory,
        )
        login = at.user is not None
        try:
            return lib.cluster.Cluster(
                contact_points=list(at.hosts),
                port=at.hosts[0][1],
                # The newest that is spoken since Cassandra 2.2; not to ask for it costs two tries.
                protocol_version=4,
                auth_provider=lib.auth.PlainTextAuthProvider(at.user, at.password or "")
                if login
                else None,
                ssl_context=_tls(dict(at.files)) if at.tls else None,
                execution_profiles={lib.cluster.EXEC_PROFILE_DEFAULT: profile},
                reconnection_policy=policies.ExponentialReconnectionPolicy(*_AGAIN_S, None),
                connect_timeout=CONNECT_S,
                control_connection_timeout=CONNECT_S,
                idle_heartbeat_interval=10,
                idle_heartbeat_timeout=CONNECT_S,
            )
        except HeadraceError:
            raise
        except Exception as error:  # a name that no server of names knows
            raise translated(error, self.where) from error


def _tls(files: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.get("ca_file"))
        if "certificate_file" in files:
            context.load_cert_chain(files["certificate_file"], files.get("key_file"))
    except OSError as error:
        raise TargetMissing(f"a file of TLS cannot be used: {error.strerror or error}") from error
    return context


_clusters: dict[tuple[int, str, Server], Cluster] = {}
_making = threading.Lock()


def cluster_of(connections: Connections, at: str, *, telling: bool = False) -> Cluster:
    """The cluster of this name; made at the first call in this process, which contacts nobody.

    Raises:
        ConfigError: there is no such connection, or its URL is none of a cluster.
    """
    server = connections.server(at, telling=telling)
    with _making:
        key = (os.getpid(), at, server)
        if key not in _clusters:
            _clusters[key] = Cluster(at, address_of(server, at))
        return _clusters[key]
