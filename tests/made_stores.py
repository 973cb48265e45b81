"""Stores whose tables are there already: each is a copy of one for which the migrations ran.

The contracts want a thousand stores, and nine tenths of the time of most of them were migrations.
What these do has tests of its own, which begin with an empty database.
"""

import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from headrace.store import open_store

_MADE = "headrace_made"


class MadeFile:
    """Of SQLite; ``folder`` keeps the first one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "made.db"
        open_store(f"sqlite:///{self._path}").close()

    def copied(self, path: Path) -> str:
        """The URL of a new one."""
        shutil.copyfile(self._path, path)
        return f"sqlite:///{path}"


class MadeDatabases:
    """Of a PostgreSQL, which others use as well."""

    def __init__(self, server_url: str) -> None:
        self._url = make_url(server_url).set(drivername="postgresql+psycopg")
        self._connection = psycopg.connect(server_url, autocommit=True)
        self._connection.execute(f"CREATE DATABASE {_MADE}")
        open_store(self._at(_MADE)).close()

    def _at(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)

    @contextmanager
    def copied(self):
        """The URL of a new one, which is gone behind it."""
        name = f"headrace_test_{uuid.uuid4().hex}"
        how = f"TEMPLATE {_MADE} STRATEGY file_copy"
        self._connection.execute(f"CREATE DATABASE {name} {how}")
        yield self._at(name)
        self._connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """The databases go with their server."""
        self._connection.close()
