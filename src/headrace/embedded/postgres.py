"""A real PostgreSQL on this machine.

A store that several machines share is PostgreSQL, and its locks, its time-outs and its way to crash
are not SQLite's; so trying it, and testing it, needs the real one (``postgres_programs``). It is up
in about a second, keeps its data in a folder, comes back on the same folder with all of it, and
never outlives the process that started it.

It listens on 127.0.0.1 only and wants a password, made up once and kept in a file that only its
owner can read; it is on no command line. PostgreSQL refuses to run as root, so root's server runs
as the user ``postgres`` or ``nobody``, who must be able to reach the folder.

It is one server without a standby or a backup. An older server's data is not brought to a new major
version.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import psycopg
import structlog

from headrace.embedded.addresses import HOST, answers, free_ports
from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.guarded import Ending, GuardedProcess, last_lines
from headrace.embedded.postgres_programs import major_version, programs_for
from headrace.embedded.server import OneProcess, unwritable
from headrace.embedded.stand_in import StandIn, handed_over, stand_in
from headrace.errors import ServerError

log = structlog.get_logger(__name__)

#: how long it may take to write its last checkpoint when asked to stop
_GRACE_S = 60.0
_USER = "headrace"
_DATABASE = "headrace"
#: commits still reach the kernel, so that a kill of the server loses none
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedPostgres(OneProcess):
    """A server in a folder. Use it as a context manager, or call ``start`` and ``stop``.

    The folder holds ``data/``, ``password`` and ``postgres.log`` (of the last start).
    """

    _name = "PostgreSQL"
    _port_taken = "could not bind"

    def __init__(
        self,
        folder: Path | str,
        port: int | None = None,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Say what server; nothing is touched before ``start``.

        Args:
            folder: where it keeps everything; made if need be.
            port: where it listens on 127.0.0.1; a free one when None.
            durable: False is quicker, and may lose data when the machine stops; a kill of the
                server alone loses nothing either way.
            settings: those of postgresql.conf, over the ones chosen here; no secrets, since they
                go on its command line.
        """
        super().__init__(folder, port)
        self._durable = durable
        self._settings = {**({} if durable else _NOT_DURABLE), **(settings or {})}
        self._password = ""
        self._programs = Path()

    def __repr__(self) -> str:
        return f"EmbeddedPostgres({self.folder})"

    @property
    def url(self) -> str:
        """SQLAlchemy URL of its database, with the password; known once it has started."""
        assert self.port is not None, "the server has not started"
        return f"postgresql://{_USER}:{self._password}@{HOST}:{self.port}/{_DATABASE}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start and wait until it answers. A free port is chosen anew at each start.

        Raises:
            ServerError: the port is taken, the folder is in use, of another version, or cannot be
                written or reached, or the server ends or does not answer; the message shows the
                end of its log.
        """
        assert not self.running, "the server is running"
        began_s = time.monotonic()
        with self._place_of_its_own() as lock:
            user = stand_in(self._name, self.folder)
            self._programs = programs_for(user, self.folder)
            self._make_ready(user)
            self._begin(lambda: self._launch(user, lock), timeout_s)
        log.info(
            "postgresql is up",
            port=self.port,
            folder=str(self.folder),
            seconds=round(time.monotonic() - began_s, 1),
        )

    def kill(self) -> None:
        """End it at once, as a crash would. ``start`` brings it back with what was committed."""
        if self._process is not None:
            family = _children(self._process.pid)
            self._process.kill()
            # they notice, but one of them may be about to answer a commit
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            # each of them holds the lock too
            FolderLock(self.folder, _GRACE_S, wait_for_living=True).close()
            self._process = None

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_ready(self, user: StandIn | None) -> None:
        try:
            self._password = self._kept_password()
            if self._data.is_dir():
                self._refuse_other_version()
                return
            # in a folder aside, so that one that was made half is made again
            aside = self.folder / "data.part"
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(mode=0o700)
            if user is not None:
                os.chown(aside, user.uid, user.gid)
            with handed_over(self.folder / "password.part", self._password, user) as password:
                self._initialise(aside, password, user)
            aside.rename(self._data)
        except OSError as exc:
            raise unwritable(self.folder, exc) from exc

    def _initialise(self, data: Path, password: Path, user: StandIn | None) -> None:
        command = [str(self._programs / "initdb"), "-D", str(data), "-U", _USER]
        command += [f"--pwfile={password}", "--auth=scram-sha-256"]
        command += ["--encoding=UTF8", "--no-locale", *([] if self._durable else ["--no-sync"])]
        try:
            done = subprocess.run(  # noqa: S603 - the command is ours
                command,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                cwd=data,
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else [],
            )
        except subprocess.TimeoutExpired as exc:
            raise ServerError(f"folder {self.folder} could not be made ready: {exc}") from exc
        if done.returncode != 0:
            said = last_lines(done.stdout + done.stderr)
            raise ServerError(f"folder {self.folder} could not be made ready:\n{said}")

    def _kept_password(self) -> str:
        path = self.folder / "password"
        if path.is_file():
            return path.read_text("ascii")
        if self._data.is_dir():
            raise ServerError(
                f"{path} is gone, and without it nobody gets at the data beside it: put it back, "
                "or choose another folder"
            )
        password = secrets.token_urlsafe(24)
        aside = path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(password)
        aside.rename(path)
        return password

    def _refuse_other_version(self) -> None:
        path = self._data / "PG_VERSION"
        kept = path.read_text("ascii").strip() if path.is_file() else "unknown"
        if kept != major_version():
            raise ServerError(
                f"folder {self.folder} holds data of PostgreSQL {kept}, and this is "
                f"{major_version()}: dump it with the older server, or choose another folder"
            )

    def _launch(self, user: StandIn | None, lock: FolderLock) -> GuardedProcess:
        self.port = self._asked_port or free_ports(1)[0]
        chosen = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "32MB",
            "logging_collector": "off",
            **self._settings,
        }
        settings = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        return GuardedProcess(
            [str(self._programs / "postgres"), "-D", str(self._data), *settings],
            self.folder / "postgres.log",
            [lock.descriptor],
            # SIGTERM would wait for the clients to leave
            Ending(_GRACE_S, signal.SIGINT),
            user=user,
        )

    def _ready(self) -> bool:
        assert self.port is not None
        if not answers(self.port):
            return False
        try:
            with psycopg.connect(
                host=HOST,
                port=self.port,
                user=_USER,
                password=self._password,
                dbname="postgres",
                connect_timeout=5,
                autocommit=True,
            ) as connection:
                if connection.execute(
                    "SELECT FROM pg_database WHERE datname = %s", (_DATABASE,)
                ).rowcount:
                    return True
                connection.execute(f'CREATE DATABASE "{_DATABASE}"')
        except psycopg.OperationalError:
            return False
        return True


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
