"""A real mail server on this machine that keeps what it gets.

Whoever tries out a use case that sends mail must not send any, yet wants to see each one. This
server speaks SMTP on 127.0.0.1, delivers nothing, and keeps every message as an ``.eml`` file
before it says so: a message that was answered with 250 survives the death of any process.

File names are counted, not taken from the Message-ID, so that a message sent twice is seen twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import os
from email.message import EmailMessage
from pathlib import Path
from typing import Self, cast
from weakref import WeakSet

import structlog
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from headrace.embedded.addresses import HOST, free_ports, refuse_taken_port
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError

log = structlog.get_logger(__name__)


class EmbeddedSmtp:
    """A mail server in a folder. Use it as a context manager, or call ``start`` and ``stop``."""

    def __init__(self, folder: Path | str, port: int | None = None) -> None:
        """Keep mail in ``folder``; listen on ``port``, or on a free one."""
        self.folder = Path(folder).resolve()
        self.port = port
        self._asked_port = port
        self._controller: _Door | None = None
        self._lock: FolderLock | None = None

    @property
    def url(self) -> str:
        """``smtp://host:port``; known once it has started."""
        assert self.port is not None, "the mail server has not started"
        return f"smtp://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> None:
        """Start and wait until it answers.

        Raises:
            ServerError: the port is taken, or the folder is in use or cannot be written.
        """
        assert self._controller is None, "the mail server is running"
        if self._asked_port is not None:
            refuse_taken_port(self._asked_port, "the mail server")
        self.port = self._asked_port or free_ports(1)[0]
        lock = FolderLock(self.folder)
        controller = _Door(_Keeper(self.folder), self.port)
        try:
            controller.start()
        except (OSError, TimeoutError) as exc:
            with contextlib.suppress(AssertionError):
                controller.stop()
            lock.close()
            raise ServerError(f"the mail server cannot start on {self.url}: {exc}") from exc
        self._controller, self._lock = controller, lock
        log.info("mail server is up", url=self.url, folder=str(self.folder))

    def stop(self) -> None:
        """Stop; nothing happens if it does not run."""
        if self._controller is not None and self._lock is not None:
            self._controller.hang_up()
            self._controller.stop()
            self._lock.close()
            self._controller = self._lock = None

    def messages(self) -> list[EmailMessage]:
        """Every message ever kept in the folder, in the order of arrival."""
        kept = []
        for path in kept_files(self.folder):
            with path.open("rb") as file:
                kept.append(email.message_from_binary_file(file, policy=email.policy.default))
        return kept


def kept_files(folder: Path) -> list[Path]:
    """The ``.eml`` files of a mail folder, in the order of arrival."""
    return sorted(folder.glob("*.eml"))


class _Door(Controller):
    """aiosmtpd's own thread and loop, which by itself forgets its clients when it stops."""

    def __init__(self, keeper: _Keeper, port: int) -> None:
        super().__init__(keeper, hostname=HOST, port=port)
        self._clients: WeakSet[SMTP] = WeakSet()

    def factory(self) -> SMTP:
        """Called by aiosmtpd for each client that connects."""
        made: SMTP = super().factory()  # type: ignore[no-untyped-call]
        self._clients.add(made)
        return made

    def hang_up(self) -> None:
        """Take no more clients and close the connections of those that are here."""
        asyncio.run_coroutine_threadsafe(self._hang_up(), self.loop).result(10)

    async def _hang_up(self) -> None:
        assert self.server is not None, "the mail server has started"
        self.server.close()
        # one turn of the loop lets in who was at the door, another closes the sockets
        await asyncio.sleep(0)
        for client in list(self._clients):
            if isinstance(client.transport, asyncio.WriteTransport):
                client.transport.abort()
        await asyncio.sleep(0)


class _Keeper:
    """What aiosmtpd calls for each message, always from its one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kept = kept_files(folder) if folder.is_dir() else []
        self._next = int(kept[-1].stem) + 1 if kept else 1

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        """Keep the message, then take responsibility for it."""
        try:
            self._keep(envelope)
        except OSError as exc:
            log.error("mail could not be kept", folder=str(self._folder), error=exc.strerror)
            return "452 4.3.1 the message could not be kept"
        return "250 2.0.0 kept"

    def _keep(self, envelope: Envelope) -> None:
        final = self._folder / f"{self._next:012d}.eml"
        aside = final.with_suffix(".part")
        with aside.open("wb") as file:
            file.write(_trace_of(envelope))
            # bytes, because the server was not told to decode
            file.write(cast("bytes", envelope.content))
            file.flush()
            os.fsync(file.fileno())
        aside.rename(final)
        _sync(self._folder)
        self._next += 1


def _trace_of(envelope: Envelope) -> bytes:
    """Who it was really for: the envelope, which the message's own headers need not tell."""
    lines = [f"X-Envelope-From: {envelope.mail_from}\r\n"]
    lines += [f"X-Envelope-To: {recipient}\r\n" for recipient in envelope.rcpt_tos]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
