"""Named sets of jars, pinned by checksum and kept in the user's cache.

A broker made of 46 jars must be the same on every machine, and it must not be fetched twice. So
each set has a lock file beside this module, one ``group:artifact:version sha256`` a line, and a
folder in the cache named by the lock's own hash. A folder appears there whole and checked, or not
at all: jars are fetched into a folder aside, compared with the lock, and renamed. Two processes
that want the same set wait for each other.

``python -m headrace.embedded fetch kafka`` fills the cache;
``python -m headrace.embedded lock kafka`` makes the lock anew from ``ROOTS``.

Jars in the cache are not compared again at each start: who can change them there can change this
program too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.ivy import Coordinates, retrieve
from headrace.embedded.progress import Progress
from headrace.errors import ServerError


@dataclass(frozen=True, slots=True)
class Roots:
    """What a lock is made from."""

    jars: tuple[Coordinates, ...]
    #: what the jars depend on goes into the lock too
    transitive: bool


ROOTS = {
    "kafka": Roots(
        (
            Coordinates("org.apache.kafka", "kafka_2.13", "4.3.0"),
            # the broker logs through slf4j and names no logger of its own
            Coordinates("org.slf4j", "slf4j-simple", "1.7.36"),
        ),
        transitive=True,
    ),
    "cassandra": Roots(
        (Coordinates("org.apache.cassandra", "cassandra-all", "5.0.6"),), transitive=True
    ),
    "hbase": Roots(
        # 2.6.1 is the last whose gateway for Thrift is published with all that it needs
        (Coordinates("org.apache.hbase", "hbase-thrift", "2.6.1"),),
        transitive=True,
    ),
    "opensearch": Roots(
        (
            Coordinates("org.opensearch", "opensearch", "2.19.1"),
            Coordinates("org.opensearch", "opensearch-plugin-classloader", "2.19.1"),
            Coordinates("org.apache.logging.log4j", "log4j-core", "2.21.0"),
            # what speaks HTTP is a module of its own; 3.x is compiled for Java 21
            Coordinates("org.opensearch.plugin", "transport-netty4-client", "2.19.1"),
        ),
        transitive=True,
    ),
    "solr": Roots(
        (
            # 10 is compiled for Java 21
            Coordinates("org.apache.solr", "solr-core", "9.10.1"),
            # what it runs in, put together by an XML file
            Coordinates("org.eclipse.jetty", "jetty-servlet", "10.0.26"),
            Coordinates("org.eclipse.jetty", "jetty-xml", "10.0.26"),
            Coordinates("org.apache.logging.log4j", "log4j-core", "2.25.3"),
        ),
        transitive=True,
    ),
    # Kafka's commands, to see with them what others will see; they need the jars of "kafka" as well
    "kafka-tools": Roots(
        (Coordinates("org.apache.kafka", "kafka-tools", "4.3.0"),), transitive=False
    ),
    # Spark's own Kafka source, for comparison; Spark brings lz4, snappy and zstd
    "spark-kafka": Roots(
        (
            Coordinates("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
            Coordinates("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
            Coordinates("org.apache.kafka", "kafka-clients", "3.9.2"),
            Coordinates("org.apache.commons", "commons-pool2", "2.12.1"),
        ),
        transitive=False,
    ),
    # Spark's `from_avro`, for comparison; Spark brings Avro itself
    "spark-avro": Roots(
        (Coordinates("org.apache.spark", "spark-avro_2.13", "4.2.0"),), transitive=False
    ),
    # Delta's own writer and reader, to see with them what Spark will see of our tables
    "spark-delta": Roots(
        (
            Coordinates("io.delta", "delta-spark_4.2_2.13", "4.4.0"),
            Coordinates("io.delta", "delta-storage", "4.4.0"),
        ),
        transitive=False,
    ),
}


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One line of a lock file."""

    coordinates: Coordinates
    sha256: str


def jars(name: str) -> list[Path]:
    """The jars of a set, fetched now if they are not in the cache.

    Raises:
        ServerError: the set has no lock, a jar cannot be had, or one is not what the lock says.
    """
    lock = lock_path(name)
    locked = read_lock(lock)
    folder = cache_folder() / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _install(name, locked, folder)
    return [folder / jar.coordinates.file_name for jar in locked]


def lock_path(name: str) -> Path:
    """The lock file of a set.

    Raises:
        ServerError: there is no set of that name.
    """
    if name not in ROOTS:
        raise ServerError(f"there is no jar set {name}; there is {', '.join(ROOTS)}")
    return Path(__file__).with_name(f"{name}.lock")


def read_lock(lock: Path) -> list[LockedJar]:
    """The lines of a lock file; ``#`` starts a comment.

    Raises:
        ServerError: the file is missing or a line is not ``group:artifact:version sha256``.
    """
    try:
        lines = lock.read_text().splitlines()
    except OSError as exc:
        raise ServerError(f"lock file {lock} cannot be read: {exc.strerror}") from exc
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        parts = words[0].split(":")
        if len(words) != 2 or len(parts) != 3 or len(words[1]) != 64:
            raise ServerError(f"{lock}:{number}: not 'group:artifact:version sha256'")
        found.append(LockedJar(Coordinates(*parts), words[1]))
    return found


def check(locked: Sequence[LockedJar], folder: Path) -> None:
    """Compare the jars in ``folder`` with the lock.

    Raises:
        ServerError: one is missing or has another checksum.
    """
    for jar in locked:
        path = folder / jar.coordinates.file_name
        if not path.is_file():
            raise ServerError(f"{jar.coordinates} was not delivered")
        found = _sha256(path)
        if found != jar.sha256:
            raise ServerError(
                f"{jar.coordinates} is not what the lock says: sha256 {found}, expected "
                f"{jar.sha256}; nothing was installed. Try again, and if it stays so, do not "
                "trust the network or the mirror"
            )


def cache_folder() -> Path:
    """Where jars are kept: ``headrace/jars`` in the user's cache (``XDG_CACHE_HOME``)."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "headrace" / "jars"


def make_lock(name: str) -> None:
    """Resolve the roots of a set and write its lock file.

    Raises:
        ServerError: a jar cannot be had.
    """
    path = lock_path(name)
    roots = ROOTS[name]
    with tempfile.TemporaryDirectory(prefix="headrace-lock-") as scratch:
        with Progress(f"resolving {name}") as progress:
            retrieve(roots.jars, Path(scratch), progress.step, roots.transitive)
        # Code of one kind of machine is left out: whoever has it can do without.
        lines = [
            f"{':'.join(path.stem.split('__'))} {_sha256(path)}"
            for path in sorted(Path(scratch).glob("*.jar"))
            if path.stem.count("__") == 2
        ]
    head = f"# made by: python -m headrace.embedded lock {name}\n"
    path.write_text(head + "\n".join(lines) + "\n")


def _install(name: str, locked: Sequence[LockedJar], folder: Path) -> None:
    with FolderLock(folder.parent / f".{name}", wait_s=600, wait_for_living=True):
        if folder.is_dir():
            return
        aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
        try:
            with Progress(f"fetching {name} jars", len(locked)) as progress:
                retrieve([jar.coordinates for jar in locked], aside, progress.step)
            check(locked, aside)
            aside.chmod(0o755)
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
