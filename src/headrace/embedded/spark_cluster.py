"""A real Spark cluster on this machine.

``local[N]`` is Spark in one process: no executor ever comes, goes or dies in it. Whether streams
survive that, and whether executors follow the load, shows only on a cluster. So this is Spark's own
standalone cluster, one master and one worker, from the Spark that pip installed. It is up in a few
seconds and never outlives the process that started it; its executors are children of the worker
and end with it.

It listens on 127.0.0.1 only. Everybody who joins needs a secret, made anew at each start, because
whoever may submit to a cluster may run any code as its owner. The secret travels in ``environment``
alone; it is in no file, on no command line and in no setting that Spark shows.

Not here: sessions (`spark/session.py`), and any cluster of more than one machine.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog

from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.java import find_java
from headrace.embedded.server import Missed, begin, until_ready, unwritable
from headrace.errors import ServerError

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.1
#: how long a worker may take to end its executors when asked to stop
_GRACE_S = 15.0
#: what Spark says when a port is taken and it may not try the next
_PORT_TAKEN = "BindException"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
#: these two only pass messages: small and soon up
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
_PROPERTIES = {
    "spark.authenticate": "true",
    # a server that quietly took the next port would never be found
    "spark.port.maxRetries": "0",
    # two more doors that nobody needs here
    "spark.master.rest.enabled": "false",
    "spark.ui.killEnabled": "false",
}


class EmbeddedSparkCluster:
    """A master and a worker in a folder. Use it as a context manager, or ``start`` and ``stop``.

    The folder holds ``master.log`` and ``worker.log`` of the last start, ``work/`` (what executors
    said), ``local/`` (their scratch files) and ``cluster.properties``.
    """

    def __init__(self, folder: Path | str, cores: int = 4, memory: str = "4g") -> None:
        """Say what cluster; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            cores: cores that the worker offers; more than the machine has is allowed.
            memory: memory that it offers, such as ``4g``, for all executors together.
        """
        self.folder = Path(folder).resolve()
        self._cores = cores
        self._memory = memory
        self._ports = (0, 0)
        self._secret = ""
        self._master: GuardedProcess | None = None
        self._worker: GuardedProcess | None = None

    @property
    def master_url(self) -> str:
        """``spark://127.0.0.1:port``; known once it has started."""
        assert self._ports[0], "the cluster has not started"
        return f"spark://{HOST}:{self._ports[0]}"

    @property
    def environment(self) -> dict[str, str]:
        """What a driver's environment needs so that it may join; holds the secret.

        It must be there before the driver's Java starts: in ``os.environ`` before
        ``build_session``, or in the environment of a child process.
        """
        assert self._secret, "the cluster has not started"
        return {"_SPARK_AUTH_SECRET": self._secret, "SPARK_LOCAL_IP": HOST}

    @property
    def master_pid(self) -> int:
        """Process id of the master."""
        assert self._master is not None, "the cluster is not running"
        return self._master.pid

    @property
    def worker_pid(self) -> int:
        """Process id of the worker; the executors are its children."""
        assert self._worker is not None, "the cluster is not running"
        return self._worker.pid

    @property
    def running(self) -> bool:
        """Whether master and worker run."""
        both = (self._master, self._worker)
        return all(process is not None and process.running for process in both)

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop it."""
        self.stop()

    def start(self, timeout_s: float = 60.0) -> None:
        """Start and wait until the worker has joined the master.

        Raises:
            ServerError: Java or Spark is missing, the folder is in use or cannot be written, or a
                server ends or does not answer; the message shows the end of its log.
        """
        assert self._master is None, "the cluster is running"
        find_java()
        began_s = time.monotonic()
        with FolderLock(self.folder) as lock:
            begin(lambda: self._attempt(lock, began_s + timeout_s), _PORT_TAKEN)
        log.info(
            "spark cluster is up",
            master=self.master_url,
            cores=self._cores,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    def stop(self) -> None:
        """End the worker with its executors, then the master; nothing happens if none runs."""
        for process in (self._worker, self._master):
            if process is not None:
                process.stop()
        self._worker = self._master = None

    @property
    def _properties(self) -> Path:
        return self.folder / "cluster.properties"

    def _configure(self) -> None:
        port, page = free_ports(2)
        self._ports = (port, page)
        self._secret = secrets.token_hex(32)
        text = "".join(f"{key} {value}\n" for key, value in _PROPERTIES.items())
        try:
            self._properties.write_text(text, encoding="ascii")
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _attempt(self, lock: FolderLock, deadline_s: float) -> str | None:
        """Start both; if that fails, stop what runs and return what went wrong."""
        self._configure()
        port, page = self._ports
        problem: str | None = "interrupted"
        try:
            master = ["--port", str(port), "--webui-port", str(page)]
            self._master = self._launch("master", [_MASTER, *master], lock)
            problem = _await(lambda: answers(port), self._master, "master", deadline_s)
            if problem is None:
                worker = ["--cores", str(self._cores), "--memory", self._memory]
                worker += ["--port", "0", "--webui-port", "0", "--work-dir", f"{self.folder}/work"]
                self._worker = self._launch("worker", [_WORKER, *worker, self.master_url], lock)
                problem = _await(lambda: _joined(page), self._worker, "worker", deadline_s)
        finally:
            if problem is not None:
                self.stop()
        return problem

    def _launch(self, name: str, command: list[str], lock: FolderLock) -> GuardedProcess:
        main, *arguments = command
        home = _spark_home()
        shared = ["--host", HOST, "--properties-file", str(self._properties)]
        environment = {
            **self.environment,
            "SPARK_HOME": str(home),
            # no spark-env.sh of a cluster that somebody set up for another purpose
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK,
        }
        return GuardedProcess(
            [str(home / "bin" / "spark-class"), main, *shared, *arguments],
            self.folder / f"{name}.log",
            [lock.descriptor],
            Ending(_GRACE_S),
            environment,
        )


def _await(
    ready: Callable[[], bool], process: GuardedProcess, name: str, deadline_s: float
) -> str | None:
    """Wait until it is ready; return what went wrong if it does not get there."""
    missed = until_ready(ready, process, deadline_s, _LOOK_EVERY_S)
    if missed is None:
        return None
    what = "ended while starting" if missed is Missed.ENDED else "does not answer"
    return f"the Spark {name} {what}; the end of its log:\n{process.tail()}"


def _joined(page: int) -> bool:
    """Whether the master's own page lists a worker that lives."""
    connection = http.client.HTTPConnection(HOST, page, timeout=2)
    try:
        connection.request("GET", "/json/")
        return bool(json.load(connection.getresponse())["aliveworkers"])
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return False
    finally:
        connection.close()


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServerError("pyspark is not installed; install it with: pip install pyspark")
    return Path(found.origin).parent
