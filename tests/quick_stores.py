"""Thousands of tests want an empty store, and each would wait for every migration and for the disk.

So the migrations run once, and each store of a file that is new begins as a copy of what they made;
and what these stores write is not waited for on the disk, since no power fails in a test. Tests of
the store's own room, and all that have a process of its own, are left with the real thing.
"""

import shutil
from pathlib import Path

from sqlalchemy import event

from headrace.databases import engines
from headrace.store import open_store, sql_store

_upgrade, _sqlite_engine = sql_store.upgrade, engines._sqlite_engine


class QuickStores:
    """What takes the place of making tables and opening files; ``folder`` keeps the first one."""

    def __init__(self, folder: Path) -> None:
        self._made = folder / "made.db"
        open_store(f"sqlite:///{self._made}").close()

    def begin(self, monkeypatch) -> None:
        """Let stores that are opened from now on be quick."""
        monkeypatch.setattr(sql_store, "upgrade", self._copy_or_upgrade)
        monkeypatch.setattr(engines, "_sqlite_engine", _hurried)

    def _copy_or_upgrade(self, database) -> None:
        if database.address.is_sqlite:
            path = Path(database.address.url.database)
            if path.is_file() and path.stat().st_size == 0:
                shutil.copyfile(self._made, path)
        _upgrade(database)


def _hurried(address, *rest):
    engine = _sqlite_engine(address, *rest)

    @event.listens_for(engine, "connect")
    def hurry(connection, _record) -> None:
        connection.execute("PRAGMA synchronous=OFF").close()

    return engine
