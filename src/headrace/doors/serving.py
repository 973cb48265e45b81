"""Serving an application: a socket, TLS, deadlines, and an end that loses nothing.

SIGTERM and Ctrl-C drain: nobody new is let in, requests that run are answered for at most
``drain_s``, then they are cancelled. The same server runs in a thread for those who have
something else to do in the foreground (``serving``).

A connection is a file to the system, and many systems allow a process 1,024 of them unless it asks
for more, so it asks.

The socket is bound before anything starts, so that an address which is taken is an error with a
name, and port 0 can be told.
"""

from __future__ import annotations

import errno
import gc
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from starlette.types import ASGIApp

from headrace.doors.handshakes import Handshakes
from headrace.doors.protocol import ClientTimeouts, DoorProtocol, with_patience
from headrace.doors.seldom import calm_server_log
from headrace.embedded.addresses import taken_by
from headrace.errors import ConfigError, ServerError

log = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_START_WAIT_S = 30.0
#: files of a process besides its connections
_OTHER_FILES = 512


@dataclass(frozen=True, slots=True)
class Tls:
    """What a server shows and proves who it is with, as PEM files."""

    #: its certificate, then those above it
    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how a server listens."""

    host: str
    #: 0 chooses a free one
    port: int
    tls: Tls | None = None
    #: how long requests that run may go on once the server is to end
    drain_s: float = 10.0
    patience: ClientTimeouts = field(default_factory=ClientTimeouts)
    #: of the YAML file, where host and port stand; empty: they stand in none
    section: str = ""


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and has no say in how TLS begins."""

    def __init__(self, config: uvicorn.Config, context: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._handshakes = None if context is None else Handshakes(self._made, context)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._handshakes is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            for listener in sockets or []:
                self._handshakes.begin(listener, self.config.backlog)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._handshakes is not None:
            await self._handshakes.end()
        await super().shutdown(sockets)

    def _made(self) -> DoorProtocol:
        # As uvicorn makes it for a connection.
        made: DoorProtocol = self.config.http_protocol_class(  # type: ignore[call-arg, assignment]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


def serve(
    app: ASGIApp, listening: Listening, on_bound: Callable[[str], object] = lambda _: None
) -> None:
    """Serve until SIGTERM or Ctrl-C, then drain.

    Args:
        app: what answers.
        listening: where.
        on_bound: told the base URL once the address is ours, before anybody is answered.

    Raises:
        ConfigError: the address or the TLS files cannot be used.
        ServerError: the application could not start.
    """
    server = _server(app, listening)
    listener = _bound(listening)
    on_bound(base_url(listening, listener.getsockname()[1]))
    # uvicorn raises a signal again when it is done, for handlers that were there before it.
    before = {number: signal.signal(number, _done) for number in _SIGNALS}
    _settle()
    try:
        _run(server, listener)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if not server.started:
        raise ServerError("the server could not start; the log says why")


@contextmanager
def serving(app: ASGIApp, listening: Listening) -> Iterator[str]:
    """Serve in a thread meanwhile; yields the base URL, such as ``https://127.0.0.1:8600``.

    Raises:
        ConfigError: the address or the TLS files cannot be used.
        ServerError: the application could not start.
    """
    server = _server(app, listening)
    listener = _bound(listening)
    url = base_url(listening, listener.getsockname()[1])

    def run() -> None:
        # That it could not start is told below, where somebody hears it.
        with suppress(ServerError):
            _run(server, listener)
        server.ready.set()

    thread = threading.Thread(target=run, name=f"door-{listening.port}", daemon=True)
    thread.start()
    try:
        if not server.ready.wait(_START_WAIT_S) or not server.started:
            raise ServerError(f"the server at {url} could not start; the log says why")
        yield url
    finally:
        server.should_exit = True
        thread.join()


def base_url(listening: Listening, port: int) -> str:
    """The address of a server as a browser on this machine takes it."""
    scheme = "http" if listening.tls is None else "https"
    host = listening.host
    try:
        address = ip_address(host)
    except ValueError:
        return f"{scheme}://{host}:{port}"
    if address.is_unspecified:
        return f"{scheme}://localhost:{port}"
    return f"{scheme}://{f'[{address}]' if address.version == 6 else address}:{port}"


def _run(server: _Server, listener: socket.socket) -> None:
    try:
        server.run(sockets=[listener])
    except SystemExit as exc:
        # uvicorn's way to say that the application did not start.
        raise ServerError("the server could not start; the log says why") from exc
    finally:
        listener.close()


def _server(app: ASGIApp, listening: Listening) -> _Server:
    _make_room(listening.patience.most_connections + _OTHER_FILES)
    calm_server_log()
    context = None if listening.tls is None else _context(listening.tls)
    config = uvicorn.Config(
        app,
        http=with_patience(listening.patience),
        ws="none",
        # Logs are set up by whoever runs this; proxies are believed by our own rules.
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=round(listening.patience.idle_s),
        timeout_graceful_shutdown=max(1, round(listening.drain_s)),
    )
    return _Server(config, context)


def _settle() -> None:
    """What is loaded by now stays: to look through it for garbage would hold up requests."""
    gc.collect()
    gc.freeze()


def _make_room(files: int) -> None:
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if now == unlimited or now >= files:
        return
    wanted = files if most == unlimited else min(files, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    if wanted < files:
        log.warning("fewer connections are possible than allowed", files=wanted, wanted=files)


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"TLS: {tls.certificate_file} and {tls.key_file} cannot be used ({exc}); name a "
            "certificate and its key, both in PEM, that this user may read"
        ) from exc
    return context


def _bound(listening: Listening) -> socket.socket:
    where = f"{listening.host}:{listening.port}"
    try:
        found = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as exc:
        raise ConfigError(f"{where} is no address to listen on: {exc}") from exc
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as exc:
        listener.close()
        taken = exc.errno == errno.EADDRINUSE
        why = f"{taken_by(listening.port)} listens there already" if taken else str(exc)
        keys = f" ({section}.port and {section}.host)" if (section := listening.section) else ""
        raise ConfigError(f"{where}: {why}; choose another port or address{keys}") from exc
    return listener


def _done(_signal: int, _frame: FrameType | None) -> None:
    """Nothing is left to do for a signal that has ended the server."""
