"""Thrift servers of HBase that the YAML file names: lines to each, which a process keeps.

A Thrift server serves a connection one request after the other, and each request has one timestamp
for all of its rows. So a process has a few lines to it, over each of which some requests are on
their way at once. They are kept for the next who writes. Nothing is asked a second time on its own:
whether something may be written again is for the sink to say.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headrace.connectors.hbase.addresses import Address, address_of
from headrace.connectors.hbase.frames import most_bytes
from headrace.connectors.hbase.library import library, translated
from headrace.connectors.own_servers import ALONE, OwnServers
from headrace.connectors.tls_files import context_of
from headrace.databases.deadline import ANSWER_BYTES, Deadline
from headrace.databases.sockets import SocketInTime

#: lines that one writer has, and requests that are on their way over each: their answers, which may
#: be pages, have to fit into what is read ahead, else both sides wait for each other
LINES, AT_ONCE = 4, 16
#: how long a line is kept that nobody uses; the server hangs up after a minute
_KEPT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be done with some rows, at one timestamp for all of them."""

    table: bytes
    rows: Sequence[Any]
    timestamp: int


class Cluster:
    """A cluster behind its Thrift server; contacts nobody before it is asked for something."""

    def __init__(self, name: str, address: Address, waits: tuple[float, float] = ALONE) -> None:
        self.where = f"connection {name}"
        #: tables that were made, or looked at
        self.fitted: set[str] = set()
        #: of rows in one request
        self.most_bytes = most_bytes(address.transport)
        self._address = address
        self._waits = waits
        self._deadline = Deadline(ANSWER_BYTES)
        #: with the second of the steady clock at which each was used last, the latest one last
        self._idle: list[tuple[Any, float]] = []
        self._choosing = threading.Lock()

    def __repr__(self) -> str:
        return f"Cluster({self.where})"

    def asked(self, ask: Callable[[Any], Any], until_s: float = math.inf) -> Any:
        """What ``ask`` makes of a connection of happybase.

        Raises:
            HeadraceError: there is no answer, or it is an error.
        """
        with self._in_time(until_s):
            return self._with_lines(1, lambda lines: ask(lines[0]))

    def done(
        self, requests: Sequence[Request], until_s: float = math.inf
    ) -> list[Exception | None]:
        """What became of each request; an error that the server answers is one of them.

        Args:
            requests: they are on their way at once, in any order.
            until_s: second of the steady clock at which the lines are given up.

        Raises:
            HeadraceError: a line failed, so nobody knows what of them was done.
        """
        if not requests:
            return []
        with self._deadline.until(until_s):
            count = min(LINES, len(requests))
            told: list[Exception | None] = self._with_lines(
                count, lambda lines: self._through(lines, requests)
            )
        return told

    def close(self) -> None:
        """Give the lines up that nobody uses."""
        with self._choosing:
            idle, self._idle = self._idle, []
        for line, _ in idle:
            line.close()

    def _with_lines(self, count: int, use: Callable[[list[Any]], Any]) -> Any:
        lines: list[Any] = []
        try:
            lines += self._taken(count)
            with self._in_time():
                while len(lines) < count:
                    lines.append(self._line())
            found = use(lines)
        except library().answers as error:
            self._give_back(lines)
            raise translated(error, self.where) from error
        except BaseException as error:
            # What is still on its way would be taken for the answer to what is asked next.
            for line in lines:
                line.close()
            self.close()
            if not isinstance(error, Exception):
                raise
            raise translated(error, self.where) from error
        self._give_back(lines)
        return found

    @contextmanager
    def _in_time(self, until_s: float = math.inf) -> Iterator[None]:
        """What this thread asks in the block is answered by then, and in the time for an answer."""
        end_s = min(until_s, self._deadline.until_s, time.monotonic() + self._waits[1])
        with self._deadline.until(end_s):
            yield

    def _through(self, lines: Sequence[Any], requests: Sequence[Request]) -> list[Exception | None]:
        """What became of requests that are sent over several lines, some at a time over each."""
        told: list[Exception | None] = []
        at_once = AT_ONCE * len(lines)
        for first in range(0, len(requests), at_once):
            with self._in_time():
                told += _exchanged(lines, requests[first : first + at_once])
        return told

    def _taken(self, count: int) -> list[Any]:
        with self._choosing:
            taken, self._idle = self._idle[-count:], self._idle[:-count]
        now_s = time.monotonic()
        for line, used_s in taken:
            if now_s - used_s > _KEPT_S:
                line.close()
        return [line for line, used_s in taken if now_s - used_s <= _KEPT_S]

    def _give_back(self, lines: list[Any]) -> None:
        with self._choosing:
            now_s = time.monotonic()
            kept = [*self._idle, *((line, now_s) for line in lines)]
            old, self._idle = kept[:-LINES], kept[-LINES:]
        for line, _ in old:
            line.close()

    def _line(self) -> Any:
        lib, at = library(), self._address
        line = lib.Connection(at.host, at.port, autoconnect=False)
        connected = SocketInTime(self._deadline.connected(self._connected), self._deadline)
        line.transport = lib.transports[at.transport](lib.TSocket(sock=connected))
        protocol = lib.protocols[at.protocol](line.transport, decode_response=False)
        line.client = lib.TClient(lib.hbase.Hbase, protocol)
        return line

    def _connected(self) -> socket.socket:
        at, (connect_s, answer_s) = self._address, self._waits
        # A file of TLS that cannot be used is told as that, whoever is there.
        context = context_of(dict(at.files), self.where) if at.tls else None
        made = socket.create_connection((at.host, at.port), timeout=connect_s)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                made = context.wrap_socket(made, server_hostname=at.host)
        except BaseException:
            made.close()
            raise
        made.settimeout(answer_s)
        return made


def _exchanged(lines: Sequence[Any], requests: Sequence[Request]) -> list[Exception | None]:
    """What became of requests that are all on their way before the first is answered."""
    for number, request in enumerate(requests):
        # Neither happybase nor thriftpy2 has a name for sending without waiting.
        lines[number % len(lines)].client._send(
            "mutateRowsTs",
            tableName=request.table,
            rowBatches=request.rows,
            timestamp=request.timestamp,
            attributes={},
        )
    return [_answer(lines[number % len(lines)].client) for number in range(len(requests))]


def _answer(client: Any) -> Exception | None:
    try:
        client._recv("mutateRowsTs")
    except library().answers as error:
        return error  # type: ignore[no-any-return]
    return None


_clusters = OwnServers[Cluster](
    lambda name, server, waits: Cluster(name, address_of(server, name), waits),
    lambda given_up: given_up.close(),
)
#: that of a connection's name
cluster_of = _clusters.of
