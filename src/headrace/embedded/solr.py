"""A real Solr of one node on this machine, without ZooKeeper: it has cores, and no collections.

It is Solr itself, from jars that are fetched once: some 65 MB, and as much memory as its heap and a
little more. It keeps its data in a folder, comes back on the same folder with all of it, and never
outlives the process that started it.

It listens on 127.0.0.1 only, without a password. Cores are made of its configuration ``headrace``.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import structlog

from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.embedded.server import OneProcess, unwritable
from headrace.embedded.solr_home import make_home

log = structlog.get_logger(__name__)

#: how long it may take to write what it has in memory when asked to stop
_ENDING: Final = Ending(grace_s=30.0)


class EmbeddedSolr(OneProcess):
    """A node in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``home/`` (cores and their configuration) and ``solr.log`` (of the last start).
    """

    _name = "Solr"
    _look_every_s = 0.1

    def __init__(self, folder: Path | str, port: int | None = None, *, heap_mb: int = 512) -> None:
        """Say what node; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            heap_mb: Java heap.
        """
        super().__init__(folder, port)
        self._heap_mb = heap_mb

    @property
    def url(self) -> str:
        """Its address, as ``connections`` of the YAML file take it; known once it has started."""
        assert self.port is not None, "the server has not started"
        return f"http://{HOST}:{self.port}/solr"

    def start(self, timeout_s: float = 180.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Its cores may still be loading then, and answer that they are (503). After a kill they
        answer while they replay what was not committed, and find less until that is over.

        Raises:
            ServerError: Java is missing, jars cannot be had, the port is taken, the folder is in
                use or cannot be written, or the server ends or does not answer; the message shows
                the end of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        java, class_path = str(find_java()), jars("solr")
        with self._place_of_its_own() as lock:

            def launch() -> GuardedProcess:
                self.port = self._asked_port or free_ports(1)[0]
                try:
                    make_home(self.folder, self.port)
                except OSError as exc:
                    raise unwritable(self.folder, exc) from exc
                return self._launch(java, class_path, lock)

            self._begin(launch, timeout_s)
        log.info(
            "solr is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    def _launch(self, java: str, class_path: list[Path], lock: FolderLock) -> GuardedProcess:
        command = [
            java,
            f"-Xms{self._heap_mb}m",
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"-Dsolr.solr.home={self.folder / 'home'}",
            f"-Dsolr.install.dir={self.folder}",
            f"-Dsolr.log.dir={self.folder}",
            "-cp",
            os.pathsep.join(map(str, class_path)),
            "org.eclipse.jetty.xml.XmlConfiguration",
            str(self.folder / "jetty.xml"),
        ]
        return GuardedProcess(command, self.folder / "solr.log", [lock.descriptor], _ENDING)

    def _ready(self) -> bool:
        assert self.port is not None
        if not answers(self.port):
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/admin/info/system", timeout=5) as answer:  # noqa: S310 - our own
                told: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return False
        return "lucene" in told
