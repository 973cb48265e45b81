"""A real HBase on this machine, with its Thrift server: two processes, without HDFS.

It is Apache HBase itself, from jars that are fetched once: 110 MB, and some 400 MB of memory. It
keeps its data in a folder, comes back on the same folder with all of it, and never outlives the
process that started it.

It listens on 127.0.0.1 only, without a password, with one copy of everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import structlog

from headrace.connectors.hbase.addresses import Address
from headrace.connectors.hbase.library import library
from headrace.connectors.hbase.servers import Cluster
from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.hbase_home import Ports, java_options, make_home
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.embedded.server import OneProcess, unwritable
from headrace.errors import CodeNotLoaded, HeadraceError, ServerError

log = structlog.get_logger(__name__)

#: how long each may take to write what it has in memory when asked to stop
_ENDING: Final = Ending(grace_s=30.0)
_MASTER: Final = "org.apache.hadoop.hbase.master.HMaster"
_THRIFT: Final = "org.apache.hadoop.hbase.thrift.ThriftServer"
_THRIFT_HEAP_MB: Final = 128
#: how its Thrift server wants to be spoken to
_FRAMED: Final = "hbase.regionserver.thrift.framed"
_COMPACT: Final = "hbase.regionserver.thrift.compact"
_USUAL: Final = ("buffered", "binary")


@dataclass(frozen=True, slots=True)
class _Both:
    """HBase itself, and the Thrift server that stands before it: neither is of use alone."""

    master: GuardedProcess
    thrift: GuardedProcess

    @property
    def pid(self) -> int:
        return self.master.pid

    @property
    def running(self) -> bool:
        return self.master.running and self.thrift.running

    def stop(self) -> None:
        self.thrift.stop()
        self.master.stop()

    def kill(self) -> None:
        self.thrift.kill()
        self.master.kill()

    def tail(self) -> str:
        if self.thrift.running:
            return self.master.tail()
        return f"(of its Thrift server)\n{self.thrift.tail()}"


class EmbeddedHBase(OneProcess):
    """An HBase in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/``, ``zookeeper/``, ``conf/``, ``hbase.log`` and ``thrift.log`` (of the
    last start).
    """

    _name = "HBase"
    _look_every_s = 0.2
    _process: _Both | None = None

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        heap_mb: int = 400,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Say what server; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where its Thrift server listens on 127.0.0.1; a free one when None.
            heap_mb: Java heap of HBase itself.
            settings: those of hbase-site.xml, over the ones chosen here.
        """
        super().__init__(folder, port)
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        """Its address, as ``connections`` of the YAML file take it; known once it has started."""
        assert self.port is not None, "the server has not started"
        options = {"transport": self._transport, "protocol": self._protocol}
        told = urlencode({name: said for name, said in options.items() if said not in _USUAL})
        return f"hbase://{HOST}:{self.port}{'?' if told else ''}{told}"

    @property
    def thrift_pid(self) -> int:
        """The process id of its Thrift server."""
        assert self._process is not None, "the server is not running"
        return self._process.thrift.pid

    def start(self, timeout_s: float = 240.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: Java or the client is missing, jars cannot be had, the port is taken, the
                folder is in use or cannot be written, or the server ends or does not answer; the
                message shows the end of its log.
        """
        assert not self.running, "the server is running"
        # Where one of the two has ended, the other still has the folder and its port.
        self.stop()
        began_s = time.monotonic()
        try:
            library()
        except CodeNotLoaded as error:
            raise ServerError(str(error)) from error
        java, class_path = str(find_java()), jars("hbase")
        with self._place_of_its_own() as lock:

            def launch() -> _Both:
                self._configure()
                return self._launched(java, class_path, lock)

            self._begin(launch, timeout_s)
        log.info(
            "hbase is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    @property
    def _transport(self) -> str:
        return "framed" if self._settings.get(_FRAMED) == "true" else "buffered"

    @property
    def _protocol(self) -> str:
        return "compact" if self._settings.get(_COMPACT) == "true" else "binary"

    def _configure(self) -> None:
        free = Ports(*free_ports(4))
        ports = free._replace(thrift=self._asked_port or free.thrift)
        self.port = ports.thrift
        try:
            make_home(self.folder, ports, self._settings)
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _launched(self, java: str, class_path: list[Path], lock: FolderLock) -> _Both:
        path = ["-cp", os.pathsep.join(map(str, [self.folder / "conf", *class_path]))]
        master = [java, *java_options(self._heap_mb), *path, _MASTER, "start"]
        thrift = [java, *java_options(_THRIFT_HEAP_MB), *path, _THRIFT, "start"]
        log_file = self.folder / "hbase.log"
        process = GuardedProcess(master, log_file, [lock.descriptor], _ENDING)
        try:
            stands_before = GuardedProcess(
                thrift, self.folder / "thrift.log", [lock.descriptor], _ENDING
            )
        except BaseException:
            process.stop()
            raise
        return _Both(process, stands_before)

    def _ready(self) -> bool:
        assert self.port is not None
        # Another HBase may have taken the port.
        if not self.running or not answers(self.port):
            return False
        address = Address(
            HOST, self.port, tls=False, transport=self._transport, protocol=self._protocol
        )
        cluster = Cluster("the embedded HBase", address)
        try:
            # Behind that table come all others; before it is there, lists of tables are empty.
            row = cluster.asked(lambda line: line.table("hbase:namespace").row(b"default"))
        except HeadraceError:
            return False
        finally:
            cluster.close()
        return bool(row)
