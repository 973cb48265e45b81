"""TLS, with every connection in the crowd before its handshake.

asyncio's servers tell nobody of a connection before its handshake has ended, for which they wait a
minute. So whoever opened connections and said nothing on them held all that a process may have, in
no crowd. Therefore connections are accepted here: each enters the crowd at once, has its handshake
in the time that a header has, and is the door's from then on.

What a handshake costs the processor is not bounded here.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import Task
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLContext

from headrace.doors.protocol import DoorProtocol

#: while there is no room for another file
_NO_ROOM_WAIT_S = 0.1


class Handshakes:
    """Accepts connections and begins a handshake on each. For one event loop."""

    def __init__(self, made: Callable[[], DoorProtocol], context: SSLContext) -> None:
        """Take what makes the protocol of a connection."""
        self._made = made
        self._context = context
        self._going: dict[Handshake, Task[None]] = {}
        self._accepting: Task[None] | None = None

    def begin(self, listener: socket.socket, backlog: int) -> None:
        """Accept from now on; the socket is bound."""
        listener.listen(backlog)
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(listener))

    async def end(self) -> None:
        """Accept nobody more, and let those go with whom nothing was said yet."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        for handshake in list(self._going):
            handshake.give_way()

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                plain, address = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:
                # No file is free, or the client went away meanwhile.
                await asyncio.sleep(_NO_ROOM_WAIT_S)
                continue
            self._let_in(Handshake(plain, address[0], self._made()))
            # Others are to have their turn, however many come.
            await asyncio.sleep(0)

    def _let_in(self, handshake: Handshake) -> None:
        if handshake.enter():
            task = asyncio.create_task(handshake.shake(self._context))
            self._going[handshake] = task
            task.add_done_callback(lambda _: self._going.pop(handshake))


class Handshake(asyncio.Protocol):
    """A connection until it is safe to speak on it."""

    #: for the crowd: nothing of it is being answered
    is_idle = True

    def __init__(self, plain: socket.socket, address: str, door: DoorProtocol) -> None:
        """Take the protocol that goes on behind it."""
        self._plain = plain
        self._address = address
        self._door = door

    def enter(self) -> bool:
        """Enter the crowd; whether there is room for it."""
        leaving = self._door.crowd.enter(self._address, self)
        if leaving is self:
            self._leave()
            self._plain.close()
        elif leaving is not None:
            leaving.give_way()
        return leaving is not self

    async def shake(self, context: SSLContext) -> None:
        """Have the handshake, and hand over to the door."""
        # It took too long, the client went, or this is no TLS or another than ours.
        with suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self,
                self._plain,
                ssl=context,
                ssl_handshake_timeout=self._door.patience.header_s,
            )
        self._leave()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The handshake is done: what comes now is the door's."""
        self._leave()
        transport.set_protocol(self._door)
        self._door.connection_made(transport)

    def give_way(self) -> None:
        """End at once, for somebody else's sake."""
        self._leave()
        with suppress(OSError):
            # To the handshake it is as if the client had gone.
            self._plain.shutdown(socket.SHUT_RDWR)

    def _leave(self) -> None:
        self._door.crowd.leave(self._address, self)
