"""HTTP over one connection, with an end to every wait.

uvicorn ends a connection that is idle between two requests, and nothing else: a client that sends
one byte of a header each second keeps its place for ever, a header may be as long as memory, and
one that does not read its answer holds what is left of it for ever, and so does one that was
answered before its body was whole and sends the rest of it late, and requests that are sent without
waiting for answers are read without end. So the protocol is uvicorn's, with
a deadline for the header, a limit of its length, a deadline for the rest of a body that nobody
reads, one for a write that makes no progress, a limit of connections, no reading while requests
wait, and a limit of how many of what was read at once do. All that are begun or wait are told when
the connection is gone; uvicorn tells the newest alone.

What stands behind a chunked body, its *trailers*, is no header of the request: uvicorn puts both in
one list, and whoever is let in by a header that a proxy has checked would be let in by a trailer
that it has passed on. They are left out, and what comes without a byte of a body is bounded like a
header. Nobody here speaks another protocol (``upgrades``); a tunnel that was asked for by
``CONNECT`` ends with its refusal.

The clock of a header runs from the first moment a client may send it, which for a kept connection
is its first byte: the quiet time before is uvicorn's keep-alive, after which it is looked once more
whether something came: to close with a request unread resets the connection. Bodies that are read
are bounded in ``bounds``.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from headrace.doors.crowds import Connection, Crowd
from headrace.doors.problems import Problem
from headrace.doors.upgrades import RequestParser


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """How long, and how much, a client may take."""

    #: until a header is whole
    header_s: float = 10.0
    #: bytes of a header, with the request line
    header_bytes: int = 32 * 1024
    #: without anything between two requests
    idle_s: float = 5.0
    #: until the rest of a body is there that was answered unread
    rest_s: float = 5.0
    #: until an answer that is ready is taken, at least a buffer of it
    write_s: float = 30.0
    #: connections at once; beyond that somebody gives way (``crowds``)
    most_connections: int = 2000
    #: requests of one connection that wait for answers; the connection ends with the last of them
    most_waiting: int = 100


_TOO_LONG = Problem(431, "header-too-large", "the header of the request is too long")
_NOT_HTTP = Problem(400, "bad-request", "this is not HTTP")
_CRUMBS = Problem(400, "pieces-too-small", "the body comes in too many and too small pieces")
#: pieces of a body that may be as small as they like, and how many bytes the others have each
_SMALL_PIECES = 1000
_PIECE_BYTES = 16
#: in which a loop looks at least once what came
_LOOK_S = 0.01


class _HeaderTooLong(Exception):
    """Ends the parsing of a header."""


class _PiecesTooSmall(Exception):
    """Ends the parsing of a body."""


class _TooManyWait(Exception):
    """Ends the parsing of requests."""


class _Flow(FlowControl):
    """Reads nothing more while requests wait, though who reads a body asks for more.

    Behind a body there is a request only if the body is whole, so nobody waits for nothing.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class DoorProtocol(HttpToolsProtocol):
    """uvicorn's protocol on httptools, with deadlines."""

    #: set by ``with_patience``, the second one anew for each server
    patience = ClientTimeouts()
    crowd: Crowd[Connection] = Crowd(patience.most_connections)

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take what uvicorn gives."""
        super().__init__(*args, **options)
        self.parser: RequestParser = RequestParser(self, self._read_again)
        self._header_timer: TimerHandle | None = None
        self._rest_timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None
        self._in_header = True
        self._header_bytes = 0
        #: bytes behind the header since the last of a body
        self._barren_bytes = 0
        #: of the body that is being read
        self._pieces = 0
        self._body_bytes = 0
        self._is_too_long = False
        self._is_full = False
        #: what is answered now; uvicorn's ``cycle`` is what was read last
        self._begun: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a header, unless there are too many connections."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)
        leaving = self.crowd.enter(self._address, self)
        if leaving is not None:
            leaving.give_way()
        if leaving is not self:
            self._await_header()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return not self._is_answering

    def give_way(self) -> None:
        """End at once, for somebody else's sake."""
        self.crowd.leave(self._address, self)
        self.transport.abort()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        self.crowd.leave(self._address, self)
        self._stop_header_clock()
        self._stop_rest_clock()
        self._stop_write_clock()
        self.pipeline.clear()
        if self._begun is not None and not self._begun.response_complete:
            self._begun.disconnected = True
            self._begun.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and count it if it is still the header."""
        if self._is_full:
            return
        if self._in_header:
            if self._header_timer is None:
                self._await_header()
            self._header_bytes += len(data)
        else:
            self._barren_bytes += len(data)
        super().data_received(data)
        unbounded = self._header_bytes if self._in_header else self._barren_bytes
        if unbounded > self.patience.header_bytes:
            self._is_too_long = True
            self.send_400_response("")
        self._await_anything()

    def on_message_begin(self) -> None:
        """A request begins, unless too many wait."""
        if len(self.pipeline) >= self.patience.most_waiting:
            self._is_full = True
            raise _TooManyWait
        super().on_message_begin()
        self._in_header = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the header, or of what stands behind the body."""
        if self._in_header:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A piece of the body; what it costs to read is not in its bytes."""
        self._barren_bytes = 0
        self._pieces += 1
        self._body_bytes += len(body)
        if self._is_in_crumbs:
            raise _PiecesTooSmall
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """The header is there, and in time."""
        if self.parser.asks:
            return
        self._in_header = False
        self._barren_bytes = self._pieces = self._body_bytes = 0
        self._stop_header_clock()
        bytes_total = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if bytes_total > self.patience.header_bytes:
            self._is_too_long = True
            raise _HeaderTooLong
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The body is there: what comes next is a header."""
        if self.parser.asks:
            return
        super().on_message_complete()
        self._stop_rest_clock()
        self._in_header = True
        self._header_bytes = 0

    def _read_again(self, rest: bytes) -> None:
        header = self.parser.without_asking(self.url, self.headers)
        self.parser = RequestParser(self, self._read_again)
        self.parser.feed_data(header)
        self.parser.feed_data(rest)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser could not read, or was not to."""
        if self._is_full:
            # Its answer says so, and a client sends again what was not answered.
            self.cycle.keep_alive = False
            return
        if self._is_in_crumbs:
            self._refuse(_CRUMBS)
        else:
            self._refuse(_TOO_LONG if self._is_too_long else _NOT_HTTP)

    def on_response_complete(self) -> None:
        """Let the client take the rest of the answer, but not for ever."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()
        elif self.cycle.response_complete and self.cycle.more_body:
            after_s = self.patience.rest_s
            self._rest_timer = self.loop.call_later(after_s, self._close_quiet)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless something came in time and was not read yet.

        A loop that has much to do runs its clocks before it looks again what came.
        """
        self.timeout_keep_alive_task = self.loop.call_later(_LOOK_S, self._close_quiet)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer comes."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """It has read most of it."""
        self._stop_write_clock()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close if nothing is being answered, and after the answer otherwise."""
        super().shutdown()
        if self.transport.is_closing():
            self._await_reader()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._begun = cycle
        super()._start_asgi_task(cycle, app)

    def _await_header(self) -> None:
        self._header_timer = self.loop.call_later(self.patience.header_s, self._too_slow)

    def _await_anything(self) -> None:
        # Whatever came has ended the keep-alive, and not all of it begins another wait.
        if self.transport.is_closing() or self._is_answering or self._header_timer is not None:
            return
        if self._rest_timer is None and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    @property
    def _is_in_crumbs(self) -> bool:
        return self._pieces > _SMALL_PIECES + self._body_bytes // _PIECE_BYTES

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_quiet(self) -> None:
        """Close a connection of which nothing more is wanted, also if its answer is not taken."""
        super().timeout_keep_alive_handler()
        self._await_reader()

    def _await_reader(self) -> None:
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.patience.write_s, self.transport.abort)

    def _stop_header_clock(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_rest_clock(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _stop_write_clock(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _too_slow(self) -> None:
        self._header_timer = None
        detail = f"a header has to be there within {self.patience.header_s:g} s"
        self._refuse(Problem(408, "too-slow", detail))

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        if self._is_answering and problem.status_code == 408:
            # The next request is slow; the answer to this one is not to suffer for it.
            self.cycle.keep_alive = False
            return
        if not self._is_answering or self._gave_up():
            response = problem.response()
            headers = [*response.raw_headers, (b"connection", b"close")]
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
            status = STATUS_LINE[problem.status_code]
            self.transport.write(status + lines + b"\r\n" + bytes(response.body))
        self.transport.close()
        self._await_reader()

    def _gave_up(self) -> bool:
        """End the request that is read if nothing is answered of it yet; whether it could be."""
        cycle = self.cycle
        if cycle is not self._begun or cycle.response_started or not cycle.more_body:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        return True


def with_patience(patience: ClientTimeouts) -> type[DoorProtocol]:
    """The protocol with these limits, to be given to uvicorn."""
    crowd: Crowd[Connection] = Crowd(patience.most_connections)
    return type("PatientProtocol", (DoorProtocol,), {"patience": patience, "crowd": crowd})
