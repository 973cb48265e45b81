"""A Kinesis on this machine, played by kinesis-mock: to try streams without an account of Amazon's.

It runs on Node (`kinesis_program.py`), is up within a second or two, and never outlives the process
that started it. It writes what it has into its folder every second and comes back with that: what
came in the last second before a kill may be gone, and it keeps records for ever.

It listens on 127.0.0.1 only, and takes any credentials.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import structlog

from headrace.embedded.addresses import HOST, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.kinesis_program import kinesis_program, node
from headrace.embedded.server import OneProcess, unwritable

log = structlog.get_logger(__name__)

_ENDING: Final = Ending(grace_s=5.0)
_REGION: Final = "eu-central-1"
#: how long it takes at most to make, divide or delete a stream
_SETTLES: Final = "20ms"


class EmbeddedKinesis(OneProcess):
    """A server in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/`` and ``kinesis.log`` (of the last start).
    """

    _name = "Kinesis"
    _look_every_s = 0.05

    def __init__(
        self, folder: Path | str, port: int | None = None, *, durable: bool = True
    ) -> None:
        """Say what server; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            durable: False: it has everything in memory alone.
        """
        super().__init__(folder, port)
        self._durable = durable

    @property
    def endpoint(self) -> str:
        """Its address, as Amazon's clients take it."""
        assert self.port is not None, "the server has not started"
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The same, as ``connections`` of the YAML file take it; known once it has started."""
        return f"kinesis://{_REGION}?endpoint={quote(self.endpoint, safe='')}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: Node is not here, the program cannot be fetched, the port is taken, the
                folder is in use or cannot be written, or the server ends or does not answer; the
                message shows the end of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        program = kinesis_program()
        with self._place_of_its_own() as lock:
            self._make_folder()
            self._begin(lambda: self._launch(program, lock), timeout_s)
        log.info(
            "kinesis is up",
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
        plain, encrypted = free_ports(2)
        self.port = self._asked_port or plain
        settings = {
            "KINESIS_MOCK_PLAIN_PORT": str(self.port),
            "KINESIS_MOCK_TLS_PORT": str(encrypted),
            "KINESIS_MOCK_CERT_PATH": str(program / "server.json"),
            "AWS_REGION": _REGION,
            "SHARD_LIMIT": "10000",
            "LOG_LEVEL": "ERROR",
            "SHOULD_PERSIST_DATA": str(self._durable).lower(),
            "PERSIST_PATH": str(self.folder / "data"),
            "PERSIST_INTERVAL": "1s",
        }
        for what in ("CREATE_STREAM", "DELETE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS"):
            settings[f"{what}_DURATION"] = _SETTLES
        command = [str(node()), str(program / "main.js")]
        written = self.folder / "kinesis.log"
        return GuardedProcess(command, written, [lock.descriptor], _ENDING, settings)

    def _ready(self) -> bool:
        assert self.port is not None
        try:
            with socket.create_connection((HOST, self.port), timeout=1):
                return True
        except OSError:
            return False
