"""The client of a cluster: it holds threads, and connections to every node.

It finds nodes that went away again by itself, within seconds, and asks nothing a second time on its
own: whether something may be written again is for the sink to say.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from headrace.connectors.cassandra.addresses import Address
from headrace.connectors.cassandra.library import library, translated
from headrace.connectors.tls_files import context_of
from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

#: seconds for a node to take a connection, and to answer
CONNECT_S, ANSWER_S = 5.0, 10.0
#: seconds between attempts to reach a node that is away
_AGAIN_S: Final = (0.5, 5.0)


class Client:
    """A client, connected when it is first asked for, and the statements that it has prepared."""

    def __init__(self, where: str, address: Address) -> None:
        self._where = where
        self._address = address
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
                told = translated(error, self._where)
                if isinstance(told, SinkRefused):
                    # The statement is ours, and no record is to blame for it.
                    told = TargetMissing(str(told))
                raise told from error
        return self._prepared[statement]

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
            told = translated(error, self._where)
            if isinstance(told, SinkUnavailable):
                told = SinkUnavailable(f"{told} (datacenter {self._address.datacenter})")
            raise told from error

    def _client(self, lib: Any) -> Any:
        at, policies = self._address, lib.policies
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
                ssl_context=context_of(dict(at.files), self._where) if at.tls else None,
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
            raise translated(error, self._where) from error
