"""Clusters that the YAML file names: what their addresses say, and one client of each a process.

A client holds connections, which all writers of the process share. Nothing is asked a second time
by the client on its own: whether something may be written again is for the sink to say.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from headrace.connectors.http_addresses import Address, Form, http_address
from headrace.connectors.kept_servers import KeptServers, key_of
from headrace.connectors.made_once import MadeOnce
from headrace.connectors.search.library import library, translated
from headrace.connectors.tls_files import context_of
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.sockets import connecting_in_time
from headrace.ports import Connections, Server

#: seconds for an answer, all of it
_ANSWER_S: Final = 15.0
_PORT: Final = 9200
_FORM: Final = "write it as https://host1,host2:9200?ca_file=/etc/ssl/ca.pem, with the user apart"


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of a cluster; nothing of it is quoted but names of options.
    """
    return http_address(server, name, Form("OpenSearch or Elasticsearch", _FORM, _PORT))


class Cluster:
    """A cluster, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address) -> None:
        self.where = f"connection {name}"
        self.address = address
        #: indexes that were found to be what their sinks describe
        self.fitted: set[object] = set()
        self._deadline = Deadline(ANSWER_BYTES)
        made = partial(_client, address, self.where, self._deadline)
        self._client = MadeOnce[Any](made, lambda client: client.close())

    def __repr__(self) -> str:
        return f"Cluster({self.where})"

    def asked(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request.

        Raises:
            HeadraceError: there is none, or it is an error.
        """
        try:
            return self.raw(method, path, body)
        except Exception as error:
            raise translated(error, self.where) from error

    def raw(self, method: str, path: str, body: object = None) -> Any:
        """The same; raises whatever the client does."""
        transport = self._client.had().transport
        with self.until(time.monotonic() + _ANSWER_S):
            return transport.perform_request(method, path, params={}, body=body)

    @contextmanager
    def until(self, until_s: float) -> Iterator[None]:
        """What this thread asks in the block is answered by then, and by the end around it."""
        with self._deadline.until(min(until_s, self._deadline.until_s)):
            yield

    def close(self) -> None:
        """Give the connections up."""
        self._client.close()


def _client(at: Address, where: str, deadline: Deadline) -> Any:
    lib = library()
    # What it meets is told by who asked, and tried again.
    logging.getLogger("opensearch").setLevel(logging.CRITICAL)
    tls = {"use_ssl": True, "ssl_context": context_of(dict(at.files), where)} if at.tls else {}
    return lib.OpenSearch(
        hosts=[{"host": host, "port": port} for host, port in at.hosts],
        http_auth=None if at.user is None else (at.user, at.password or ""),
        http_compress=False,
        connection_class=_in_time(lib.Urllib3HttpConnection, deadline),
        timeout=_ANSWER_S,
        max_retries=0,
        retry_on_timeout=False,
        retry_on_status=(),
        **tls,
    )


def _in_time(node: Any, deadline: Deadline) -> Any:
    """Connections to a node, all of whose waits end with the time of their thread.

    What comes is counted, and a few bytes may be unpacked to any size: so nothing is unpacked.
    """

    class InTime(node):  # type: ignore[misc]
        def _create_urllib3_pool(self) -> None:
            super()._create_urllib3_pool()
            self.pool.ConnectionCls = connecting_in_time(self.pool.ConnectionCls, deadline)
            self.pool.urlopen = partial(self.pool.urlopen, decode_content=False)

    return InTime


_clusters = KeptServers[Cluster]()


def cluster_of(connections: Connections, at: str, *, telling: bool = False) -> Cluster:
    """The cluster of this name; made at the first call in this process, which contacts nobody.

    Raises:
        ConfigError: there is no such connection, or its URL is none of a cluster.
    """
    server = connections.server(at, telling=telling)
    return _clusters.had(key_of(at, "", server), lambda: Cluster(at, address_of(server, at)))
