"""A real Cassandra of one node on this machine.

It is Apache Cassandra itself, from jars that are fetched once: 61 MB, and some 700 MB of memory. It
keeps its data in a folder, comes back on the same folder with all of it, and never outlives the
process that started it. A keyspace is there when it has started.

It listens on 127.0.0.1 only, without a password, with one copy of everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from headrace.connectors.cassandra.addresses import Address
from headrace.connectors.cassandra.library import library
from headrace.connectors.cassandra.servers import Cluster
from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.cassandra_config import DATACENTER, LOGBACK, as_yaml, java_options
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.embedded.server import OneProcess, unwritable
from headrace.errors import CodeNotLoaded, HeadraceError, ServerError

log = structlog.get_logger(__name__)

#: how long it may take to write what it has in memory when asked to stop
_ENDING = Ending(grace_s=30.0)
KEYSPACE: Final = "headrace"


class EmbeddedCassandra(OneProcess):
    """A node in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/``, ``cassandra.yaml``, ``logback.xml`` and ``cassandra.log`` (of the
    last start).
    """

    _name = "Cassandra"
    _look_every_s = 0.1

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        heap_mb: int = 512,
        durable: bool = True,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Say what node; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            heap_mb: Java heap.
            durable: False is quicker, and as Cassandra is on many machines: what is written within
                10 s before a kill may be lost.
            settings: those of cassandra.yaml, over the ones chosen here.
        """
        super().__init__(folder, port)
        self._heap_mb = heap_mb
        self._durable = durable
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """Its address, as ``connections`` of the YAML file take it; known once it has started."""
        assert self.port is not None, "the server has not started"
        return f"cassandra://{HOST}:{self.port}/{KEYSPACE}?datacenter={DATACENTER}"

    def start(self, timeout_s: float = 180.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: Java or the client is missing, jars cannot be had, the port is taken, the
                folder is in use or cannot be written, or the server ends or does not answer; the
                message shows the end of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        _demand_client()
        java, class_path = str(find_java()), jars("cassandra")
        with self._place_of_its_own() as lock:

            def launch() -> GuardedProcess:
                self._configure()
                return self._launch(java, class_path, lock)

            self._begin(launch, timeout_s)
        log.info(
            "cassandra is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    def _configure(self) -> None:
        port, storage_port = free_ports(2)
        self.port = self._asked_port or port
        written = as_yaml(self.port, storage_port, durable=self._durable, more=self._settings)
        try:
            (self.folder / "cassandra.yaml").write_text(written, "utf-8")
            (self.folder / "logback.xml").write_text(LOGBACK, "utf-8")
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _launch(self, java: str, class_path: list[Path], lock: FolderLock) -> GuardedProcess:
        agent = next(jar for jar in class_path if "__jamm__" in jar.name)
        command = [java, *java_options(self.folder, self._heap_mb, agent)]
        command += ["-cp", os.pathsep.join(map(str, class_path))]
        command.append("org.apache.cassandra.service.CassandraDaemon")
        return GuardedProcess(command, self.folder / "cassandra.log", [lock.descriptor], _ENDING)

    def _ready(self) -> bool:
        assert self.port is not None
        if not answers(self.port):
            return False
        cluster = Cluster("the embedded Cassandra", self._as_owner(self.port))
        try:
            cluster.asked(
                f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
                f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': 1}}"
            )
        except HeadraceError:
            return False
        finally:
            cluster.close()
        return True

    def _as_owner(self, port: int) -> Address:
        return Address(((HOST, port),), KEYSPACE, DATACENTER, tls=False)


def _demand_client() -> None:
    """Look before Java is begun; without it nobody could tell whether the node answers."""
    try:
        library()
    except CodeNotLoaded as error:
        raise ServerError(str(error)) from error
