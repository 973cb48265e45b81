"""A real OpenSearch of one node on this machine.

It is OpenSearch itself, from jars that are fetched once: some 50 MB, and as much memory as its heap
and a little more. It keeps its data in a folder, comes back on the same folder with all of it, and
never outlives the process that started it.

It listens on 127.0.0.1 only, without a password: the part that asks for one is not among the jars.
It refuses to run as root, so root's node runs as the user ``postgres`` or ``nobody``, who must be
able to reach the folder.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.embedded.opensearch_home import LOG4J, make_home, settings_text
from headrace.embedded.server import OneProcess, unwritable
from headrace.embedded.stand_in import StandIn, stand_in

log = structlog.get_logger(__name__)

#: how long it may take to write what it has in memory when asked to stop
_ENDING: Final = Ending(grace_s=30.0)


class EmbeddedOpenSearch(OneProcess):
    """A node in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/``, ``home/`` (jars and settings) and ``opensearch.log`` (of the last
    start).
    """

    _name = "OpenSearch"
    _look_every_s = 0.1

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        heap_mb: int = 512,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Say what node; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            heap_mb: Java heap.
            settings: those of opensearch.yml, over the ones chosen here.
        """
        super().__init__(folder, port)
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """Its address, as ``connections`` of the YAML file take it; known once it has started."""
        assert self.port is not None, "the server has not started"
        return f"http://{HOST}:{self.port}"

    def start(self, timeout_s: float = 180.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: Java is missing, jars cannot be had, the port is taken, the folder is in
                use or cannot be written or reached, or the server ends or does not answer; the
                message shows the end of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        java, class_path = str(find_java()), jars("opensearch")
        with self._place_of_its_own() as lock:
            user = stand_in(self._name, self.folder)

            def launch() -> GuardedProcess:
                self._configure(class_path, user)
                return self._launch(java, lock, user)

            self._begin(launch, timeout_s)
        log.info(
            "opensearch is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    @property
    def _home(self) -> Path:
        return self.folder / "home"

    def _configure(self, class_path: list[Path], user: StandIn | None) -> None:
        port, inner = free_ports(2)
        self.port = self._asked_port or port
        try:
            make_home(self._home, class_path)
            config = self._home / "config"
            said = settings_text(self.folder, self.port, inner, self._settings)
            for name, text in (("opensearch.yml", said), ("log4j2.properties", LOG4J)):
                (config / name).write_text(text, "utf-8")
                (config / name).chmod(0o644)
            for name in ("data", "tmp"):
                (self.folder / name).mkdir(exist_ok=True)
            if user is not None:
                for path in (self.folder / "data", self.folder / "tmp", config):
                    os.chown(path, user.uid, user.gid)
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _launch(self, java: str, lock: FolderLock, user: StandIn | None) -> GuardedProcess:
        command = [
            java,
            f"-Xms{self._heap_mb}m",
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-Djava.security.manager=allow",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            f"-Dopensearch.path.home={self._home}",
            f"-Dopensearch.path.conf={self._home / 'config'}",
            "-Dopensearch.distribution.type=tar",
            "-Dopensearch.bundled_jdk=false",
            "-Dlog4j2.disable.jmx=true",
            "-Dlog4j.shutdownHookEnabled=false",
            "-cp",
            f"{self._home / 'lib'}/*",
            "org.opensearch.bootstrap.OpenSearch",
        ]
        return GuardedProcess(
            command, self.folder / "opensearch.log", [lock.descriptor], _ENDING, user=user
        )

    def _ready(self) -> bool:
        assert self.port is not None
        if not answers(self.port):
            return False
        asked = f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=1s"
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310 - our own
                told: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return False
        return told.get("status") in ("green", "yellow")
