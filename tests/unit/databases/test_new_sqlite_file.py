"""A new file that several open at once."""

import sqlite3
import threading

from headrace.databases.addresses import parse
from headrace.databases.engines import Waits, engine_of


def test_who_opens_a_new_file_while_another_writes_waits(tmp_path):
    path = tmp_path / "new.db"
    engine = engine_of(parse(f"sqlite:///{path}"), Waits(lock_s=20.0), "store")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    waking = threading.Timer(0.3, other.execute, ("COMMIT",))
    waking.start()
    try:
        with engine.begin() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    finally:
        waking.join()
        other.close()
        engine.dispose()
