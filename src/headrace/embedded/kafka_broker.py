"""A real Kafka broker on this machine.

A demo, a test or a first look needs Kafka, and a Kafka that is nearly Kafka teaches the wrong
lessons. So this is Apache Kafka itself, one process that is broker and controller, from jars that
are fetched once. It is up in about three seconds, keeps its data in a folder, comes back on the
same folder with all of it, and never outlives the process that started it.

It listens on 127.0.0.1 only, without a password, with one copy of everything.
"""

from __future__ import annotations

import base64
import errno
import os
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import structlog

from headrace.connectors.kafka import told_ports
from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.broker_properties import as_text, broker_properties
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess, last_lines
from headrace.embedded.jars import jars
from headrace.embedded.java import find_java
from headrace.embedded.server import Missed, OneProcess, unwritable
from headrace.errors import ServerError

log = structlog.get_logger(__name__)

#: how long a broker may take to close its files when asked to stop, mostly one or two seconds; one
#: that is killed loses nothing, it looks through its files at the next start
_ENDING = Ending(grace_s=20.0)


class EmbeddedKafka(OneProcess):
    """A broker in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/`` (the topics), ``server.properties`` and ``broker.log`` (of the last
    start).
    """

    _name = "the Kafka broker"

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        heap_mb: int = 512,
        quick_start: bool = False,
        properties: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """Say what broker; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            heap_mb: Java heap.
            quick_start: keep Java's second compiler off, which gets it up sooner and keeps two
                cores freer, but lowers its throughput. Not for measuring.
            properties: broker properties that override those chosen here.
            cluster_id: of a new folder, for a broker that is to be one of several.
        """
        super().__init__(folder, port)
        self._heap_mb = heap_mb
        self._quick_start = quick_start
        self._properties = dict(properties or {})
        self._cluster_id = cluster_id or new_cluster_id()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients; known once it has started."""
        assert self.port is not None, "the broker has not started"
        return f"{HOST}:{self.port}"

    def start(self, timeout_s: float = 90.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: Java is missing or too old, jars cannot be had, the port is taken, the
                folder is in use or cannot be written, or the broker ends or does not answer; the
                message shows the end of its log.
        """
        assert not self.running, "the broker is running"
        began_s = time.monotonic()
        java, class_path = str(find_java()), _class_path()
        with self._place_of_its_own() as lock:

            def launch() -> GuardedProcess:
                self._configure()
                self._format(java, class_path)
                return self._launch(java, class_path, lock)

            self._begin(launch, timeout_s)
        log.info(
            "kafka is up",
            bootstrap_servers=self.bootstrap_servers,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    @property
    def _config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _configure(self) -> None:
        port, controller_port = free_ports(2)
        self.port = self._asked_port or port
        chosen = broker_properties(self._data, self.port, controller_port, self._properties)
        try:
            self._config.write_text(as_text(chosen), encoding="ascii")
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _format(self, java: str, class_path: str) -> None:
        if (self._data / "meta.properties").exists():
            return
        # the tool's parser takes a leading dash for an option
        command = [java, *_QUICK, "-cp", class_path, "kafka.tools.StorageTool", "format"]
        command += [f"--cluster-id={self._cluster_id}", "--config", str(self._config)]
        try:
            done = subprocess.run(  # noqa: S603 - the command is ours
                command, capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise ServerError(f"folder {self.folder} could not be made ready: {exc}") from exc
        if done.returncode != 0:
            said = last_lines(done.stdout + done.stderr)
            raise ServerError(f"folder {self.folder} could not be made ready for Kafka:\n{said}")

    def _launch(self, java: str, class_path: str, lock: FolderLock) -> GuardedProcess:
        # the JVM raises its own limit of open files as far as it may
        flags = [f"-Xms{min(self._heap_mb, 128)}m", f"-Xmx{self._heap_mb}m"]
        flags += ["-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        flags += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        flags += ["-XX:+ExitOnOutOfMemoryError", *(_QUICK if self._quick_start else ())]
        command = [java, *flags, "-cp", class_path, "kafka.Kafka", str(self._config)]
        return GuardedProcess(command, self.folder / "broker.log", [lock.descriptor], _ENDING)

    def _ready(self) -> bool:
        assert self.port is not None
        if not answers(self.port):
            return False
        # open ports are not enough: a broker answers this once the controller let it in
        return self._told_port in told_ports(self.bootstrap_servers, timeout_s=2.0)

    @property
    def _told_port(self) -> int | None:
        """Where clients are told to come, which may be a proxy."""
        told = self._properties.get("advertised.listeners")
        return self.port if told is None else int(told.rpartition(":")[2])

    def _told(self, missed: Missed, tail: str) -> str:
        if missed is Missed.SILENT:
            return super()._told(missed, tail)
        if os.strerror(errno.ENOSPC) in tail:
            return f"the disk of {self.folder} is full; the Kafka broker ended"
        return (
            f"the Kafka broker ended while starting; the end of {self.folder}/broker.log:\n{tail}"
        )


def new_cluster_id() -> str:
    """An id as Kafka makes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


#: for short-lived or small JVMs
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def _class_path() -> str:
    return os.pathsep.join(map(str, jars("kafka")))
