"""Solrs that the YAML file names: what their addresses say, and one client of each a process.

A client holds connections, which all writers of the process share. Nothing is asked a second time
by the client on its own: whether something may be written again is for the sink to say. Where a
node does not answer, the next request goes to the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from headrace.connectors.http_addresses import Address, Form, http_address
from headrace.connectors.kept_servers import KeptServers, key_of
from headrace.connectors.made_once import MadeOnce
from headrace.connectors.solr.library import answer_of, demand_done, library, unanswered
from headrace.connectors.tls_files import context_of
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.sockets import connecting_in_time
from headrace.ports import Connections, Server

#: seconds for an answer, all of it
_ANSWER_S: Final = 15.0
#: a status from which on the node itself is in trouble
_UNWELL: Final = 500
_FORM: Final = Form(
    "Solr",
    "write it as https://host1,host2:8983/solr?ca_file=/etc/ssl/ca.pem, with the user apart",
    port=8983,
    path="solr",
)
#: connections that stay open, to each node
_KEPT: Final = 4


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of a Solr; nothing of it is quoted but names of options.
    """
    return http_address(server, name, _FORM)


class Solr:
    """A Solr, as this process speaks to it; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address) -> None:
        self.where = f"connection {name}"
        self.address = address
        #: collections that were found to be what their sinks describe
        self.fitted: set[object] = set()
        self._deadline = Deadline(ANSWER_BYTES)
        self._turn = 0
        made = partial(_nodes, address, self.where, self._deadline)
        self._nodes = MadeOnce[list[Any]](made, _close)

    def __repr__(self) -> str:
        return f"Solr({self.where})"

    def asked(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        """The answer to a look, or to documents that are posted.

        Raises:
            HeadraceError: there is none, or it is an error.
        """
        return answer_of(self.read(path, body), self.where)

    def read(self, path: str, body: bytes | None = None) -> bytes:
        """The same as it stands there; raises the same."""
        with self.until(time.monotonic() + _ANSWER_S):
            status, content = self._exchanged(path, body)
        demand_done(status, content, self.where)
        return content

    @contextmanager
    def until(self, until_s: float) -> Iterator[None]:
        """What this thread asks in the block is answered by then, and by the end around it."""
        with self._deadline.until(min(until_s, self._deadline.until_s)):
            yield

    def close(self) -> None:
        """Give the connections up."""
        self._nodes.close()

    def _exchanged(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            nodes = self._nodes.had()
            answer = nodes[self._turn % len(nodes)].request(
                "GET" if body is None else "POST",
                f"/solr{path}",
                body=body,
                timeout=self._deadline.left_s(_ANSWER_S),
                redirect=False,
                retries=False,
                # What comes is counted, and a few bytes may be unpacked to any size.
                decode_content=False,
            )
        except Exception as error:
            self._turn += 1
            raise unanswered(error, self.where) from error
        if answer.status >= _UNWELL:
            self._turn += 1
        return answer.status, answer.data


def _close(nodes: Iterable[Any]) -> None:
    for node in nodes:
        node.close()


def _nodes(at: Address, where: str, deadline: Deadline) -> list[Any]:
    lib = library()
    # What it meets is told by who asked, and tried again.
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)
    login = None if at.user is None else f"{at.user}:{at.password or ''}"
    headers = {"Content-Type": "application/json", **lib.make_headers(basic_auth=login)}
    tls = {"ssl_context": context_of(dict(at.files), where)} if at.tls else {}
    kind = lib.HTTPSConnectionPool if at.tls else lib.HTTPConnectionPool
    nodes = [kind(host, port, maxsize=_KEPT, headers=headers, **tls) for host, port in at.hosts]
    for node in nodes:
        node.ConnectionCls = connecting_in_time(node.ConnectionCls, deadline)
    return nodes


_solrs = KeptServers[Solr]()


def solr_of(connections: Connections, at: str, *, telling: bool = False) -> Solr:
    """The Solr of this name; made at the first call in this process, which contacts nobody.

    Raises:
        ConfigError: there is no such connection, or its URL is none of a Solr.
    """
    server = connections.server(at, telling=telling)
    return _solrs.had(key_of(at, "", server), lambda: Solr(at, address_of(server, at)))
