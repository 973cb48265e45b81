"""Making the Spark session a driver needs.

Headrace wants a few settings of Spark to be just so: jobs of several waves side by side under
FAIR pools, workers that are reused (they hold warm Kafka clients), and no speculation, because a
second copy of a task would make its effects twice wherever a sink cannot tell. Everything else is
the user's: any ``spark.*`` key of the YAML file or of ``spark-submit --conf`` passes through.

No secret ever goes into a Spark setting: the UI and the event log show them all.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.sax.saxutils import quoteattr

import psutil
import structlog
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.errors import ConfigError
from headrace.process.daemon_threads import DaemonThreads
from headrace.process.standard_error import ThreadedStream

log = structlog.get_logger(__name__)

#: longest wait for Spark to stop
STOP_S = 5.0
_FIXED = {
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}
_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    # A lost Python worker is retried on the spot, in local mode too.
    "spark.task.maxFailures": "4",
    # Whether a task has begun is told at once, and not up to a heartbeat (10 s) later.
    "spark.ui.liveUpdate.period": "0",
    # Only what is overdue is cancelled, so its Python worker is owed no time to end by itself.
    "spark.python.task.killTimeout": "100ms",
}
_ELASTIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.executor.cores": "1",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "60s",
    # No shuffle service is needed; what a shuffle left behind holds its executor no longer than
    # this, because by then the wave that made it is over.
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "60s",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    # An executor goes when its blocks were looked at once more after its last task.
    "spark.storage.decommission.replicationReattemptInterval": "1s",
}
#: Spark's own chatter is for those who ask for it by ``spark.log.level``.
_QUIET_LOGS = Path(__file__).parent / "log4j2.properties"
_LOCAL = re.compile(r"local\[(\d+|\*)\]")
#: masters that nobody but this machine can reach
_LOOPBACK = re.compile(r"(127(\.\d+){3}|localhost|\[::1\])(:\d+)?")
#: the command of the driver's JVM, at first a script
_LAUNCH = re.compile(r"spark-submit|SparkSubmit|spark-class")
#: where Spark looks first for the secret of a standalone cluster
_AUTH_SECRET = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
_SECRET = re.compile(
    r"(?i)passw|secret|token|credential|(access|account|private)\.?key(?!prov)|\.sas\.|passphrase"
)
#: in a value: a password in an address, or given to a JVM
_SECRET_INSIDE = re.compile(
    r"(?i)//[^/@\s]*:[^/@\s]+@|-D[^=\s]*(passw|secret|token|apikey)[^=\s]*(?<!file)="
)
#: keys whose value only names where a secret is: a file, or one of Kubernetes
_PLACE = re.compile(r"(?i)file$|\.secrets\.|\.secretKeyRef\.")


def build_session(
    app_name: str,
    master: str | None,
    options: Mapping[str, str],
    priorities: Mapping[str, int],
) -> SparkSession:
    """Start or join the Spark session.

    Args:
        app_name: shown in Spark's UI.
        master: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://...``; None leaves it to
            ``spark-submit`` (or ``local[*]`` where nobody says).
        options: ``spark.*`` settings of the user.
        priorities: weight of each use case's FAIR pool.

    Raises:
        ConfigError: an option would break a promise or would show a secret.
    """
    _refuse(options)
    # Workers run the driver's own Python, unless a cluster ships another one.
    os.environ.setdefault("PYSPARK_PYTHON", options.get("spark.pyspark.python", sys.executable))
    if master and on_this_machine(master):
        # Nobody outside this machine has business with this session.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quiet = f"-Dlog4j2.configurationFile={_QUIET_LOGS.as_uri()}"
    chosen = {
        **_DEFAULTS,
        "spark.driver.extraJavaOptions": quiet,
        **_authentication(master),
        **options,
        **_FIXED,
        "spark.scheduler.allocation.file": _pools_file(priorities),
        "spark.app.name": app_name,
        **({"spark.master": _retrying(master)} if master else {}),
    }
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings(), _no_jvm_left_behind():
        # Spark opens a socket pair at start and leaves closing it to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        _launch(chosen)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel(options.get("spark.log.level", "ERROR"))
    return session


def stop_session(session: SparkSession, patience_s: float = STOP_S) -> bool:
    """Stop Spark; whether it did in time.

    One that hangs is left behind: a JVM of this process ends when the process has, and its cluster
    manager takes it away.
    """
    threads = DaemonThreads(1, "stop")
    stopping = threads.submit(session.stop)
    if threads.close(patience_s):
        stopping.result()
        return True
    log.error("Spark is left behind, it does not stop", seconds=patience_s)
    return False


def _launch(chosen: Mapping[str, str]) -> None:
    """Start the JVM so that what it writes, and what its workers write, holds none of them up.

    It would inherit this process's standard error. Where nobody reads that, a log line of the JVM
    or a handler's `print` would wait for ever, and all waves with it.
    """
    if isinstance(sys.stderr, ThreadedStream) and SparkContext._gateway is None:
        conf = SparkConf().setAll(list(chosen.items()))
        with sys.stderr.for_a_program() as number:
            gateway = launch_gateway(conf, {"stderr": number})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


@contextmanager
def _no_jvm_left_behind() -> Iterator[None]:
    """End the JVM if it is not waited for until it answers: it would never end by itself."""
    before = set(psutil.Process().children())
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for child in set(psutil.Process().children()) - before:
                with suppress(psutil.NoSuchProcess):
                    if _LAUNCH.search(" ".join(child.cmdline())):
                        child.kill()
        raise


def on_this_machine(master: str) -> bool:
    """Whether everything of a Spark with this master runs on this machine."""
    if master.startswith("local"):
        return True
    scheme, _, hosts = master.partition("://")
    return scheme == "spark" and all(_LOOPBACK.fullmatch(part) for part in hosts.split(","))


def elastic_options(least: int, most: int) -> dict[str, str]:
    """Settings with which Spark adds and releases executors of one core each.

    Executors come when they are asked for (``spark/executors.py``) and when tasks wait, on a
    standalone cluster, YARN and Kubernetes alike. One that was idle for a minute is
    decommissioned: it takes no new task, ends those it has, and hands on the blocks of frames.

    Args:
        least: executors that stay when nothing is to do; 0 makes the next record wait for one.
        most: executors that are never exceeded.

    Raises:
        ConfigError: the bounds make no sense.
    """
    if not 0 <= least <= most or most < 1:
        raise ConfigError(f"executors: least {least} and most {most} must be 0 <= least <= most")
    return {
        **_ELASTIC,
        "spark.dynamicAllocation.minExecutors": str(least),
        "spark.dynamicAllocation.initialExecutors": str(least),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def _authentication(master: str | None) -> dict[str, str]:
    """Where the environment has the secret of a standalone cluster, use it.

    Spark takes it from there, but wants the setting to be there too, whatever it says. Other
    masters make a secret of their own; None may be any master of ``spark-submit``.
    """
    if not (master or "spark://").startswith("spark://") or _AUTH_SECRET not in os.environ:
        return {}
    return {"spark.authenticate": "true", "spark.authenticate.secret": f"see ${_AUTH_SECRET}"}


def _refuse(options: Mapping[str, str]) -> None:
    for key, value in options.items():
        if not key.startswith("spark."):
            raise ConfigError(f"spark: {key}: every key of the spark map starts with 'spark.'")
        if key in _FIXED and value.lower() != _FIXED[key].lower():
            raise ConfigError(f"spark: {key} must be {_FIXED[key]}: Headrace's promises need it")
        if (_SECRET.search(key) and not _PLACE.search(key)) or _SECRET_INSIDE.search(value):
            raise ConfigError(
                f"spark: {key}: Spark shows its settings in its UI and event log; "
                "give secrets by environment or file instead"
            )


def _retrying(master: str) -> str:
    """Spark's local mode gives up at the first lost task unless told how often to try."""
    match = _LOCAL.fullmatch(master)
    return f"local[{match.group(1)},4]" if match else master


def _pools_file(priorities: Mapping[str, int]) -> str:
    pools = "".join(
        f"<pool name={quoteattr(name)}><schedulingMode>FIFO</schedulingMode>"
        f"<weight>{weight}</weight><minShare>0</minShare></pool>"
        for name, weight in sorted(priorities.items())
    )
    folder = Path(tempfile.mkdtemp(prefix="headrace-pools-"))
    path = folder / "fairscheduler.xml"
    path.write_text(f"<?xml version='1.0'?><allocations>{pools}</allocations>", encoding="utf-8")
    return str(path)
