"""SQLite's locks hold for a whole process, and opening the file beside it must not lose them.

A POSIX lock is gone as soon as the process closes *any* descriptor of the file (sqlite.org,
"How To Corrupt An SQLite Database File", 2.2). Who comes next then takes itself for the only one,
and removes the log of changes under the feet of those who are there.
"""

import subprocess
import sys
from pathlib import Path

from headrace.model.streams import Tenant
from headrace.store import open_store

ANOTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("UPDATE headrace_revision SET revision = revision + 1")
connection.commit()
connection.close()
"""


def test_a_store_that_is_opened_twice_in_a_process_keeps_its_locks(tmp_path):
    file = tmp_path / "store.db"
    first = open_store(f"sqlite:///{file}")
    first.registry.add_tenant(Tenant("acme"))
    second = open_store(f"sqlite:///{file}")
    subprocess.run([sys.executable, "-c", ANOTHER, str(file)], check=True)
    assert Path(f"{file}-wal").exists(), "the other process believed that it was the last one"
    second.registry.add_tenant(Tenant("bolt"))
    assert [tenant.name for tenant in first.registry.tenants()] == ["acme", "bolt"]
    first.close()
    second.close()
