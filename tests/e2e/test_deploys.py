"""A deployment is told as it is: by the command, by the list, and by what the drivers then do."""

import json
import sys
import time

import psycopg
import pytest
from service import Service, ended, told_by_up

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

#: hangs in drivers alone
HANGS = """
import sys, time
if "run" in sys.argv:
    time.sleep(600)
"""


def drivers_of(service):
    """Who runs what was deployed, or why not."""
    listed = service.headrace("use-cases", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    drivers = [driver for row in json.loads(listed.stdout) for driver in row["drivers"]]
    return [(driver["stand"], driver["error"]) for driver in drivers]


def until_drivers(service, process, stand):
    deadline = time.monotonic() + 60
    while drivers_of(service) != stand:
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.2)


def test_a_file_that_hangs_where_drivers_import_it_stops_nothing(tmp_path, kafka):
    service = Service(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    assert "no driver runs" in service.headrace("use-cases", "deploy").stdout
    service.headrace("tenants", "add", "acme")
    service.send("acme", b"a")
    process = service.run()
    service.until(1)
    done = service.headrace("use-cases", "deploy")
    assert done.returncode == 0
    assert "nothing changed, and runs on" in done.stdout

    service.write(version=2)
    path = service.folder / "use_cases.py"
    path.write_text(HANGS + path.read_text())
    done = service.headrace("use-cases", "deploy", "--wait-s", "5")
    assert done.returncode == 1, done.stdout
    assert "has not answered yet; it goes on with" in done.stdout
    service.send("acme", b"b")
    assert ("acme", "b", 1) in service.until(2), "the version before goes on"

    service.write(version=3)
    done = service.headrace("use-cases", "deploy")
    assert done.returncode == 0, done.stdout
    assert "runs it" in done.stdout
    service.send("acme", b"c")
    assert ("acme", "c", 3) in service.until(3)
    ended(process, service)


def up(service, *words):
    servers = service.folder / ".headrace" / "up" / "servers.json"
    servers.unlink(missing_ok=True)
    command = (sys.executable, "-m", "headrace", "up", "--no-console", "-c", "headrace.yaml")
    process = service.run(*command, *words)
    told = told_by_up(service, process)
    service.config = {"bootstrap.servers": told["bootstrap.servers"]}
    return process, told["database_url"]


def query(url, text):
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(text)
        return found.fetchall() if found.description else []


def test_a_table_that_is_not_as_it_was_locks_nobody_out(open_folder):
    """The table's server runs only while ``up`` does: so ``up`` starts without the use case."""
    folder = open_folder / "columns"
    folder.mkdir()
    service = Service(folder, "", "visits")
    (folder / "headrace.yaml").write_text("module: use_cases.py\nmaster: local[2]\n")
    process, url = up(service, "--store", "postgres")
    service.headrace("tenants", "add", "acme")
    until_drivers(service, process, [("runs", None)])
    query(url, "ALTER TABLE seen RENAME COLUMN version TO other")
    ended(process, service)

    process, url = up(service)
    lacks = "table seen is there without column 'version': add it, or name another table"
    until_drivers(service, process, [("refused", lacks)])
    listed = service.headrace("use-cases", "list").stdout
    assert f"refuses it: {lacks} (it tries again by itself); it runs no version of it" in listed
    done = service.headrace("use-cases", "deploy")
    assert done.returncode != 0
    assert lacks in done.stdout + done.stderr
    service.send("acme", b"a")

    query(url, "ALTER TABLE seen ADD COLUMN version bigint")
    until_drivers(service, process, [("runs", None)])
    deadline = time.monotonic() + 60
    while query(url, "SELECT value, version FROM seen") != [("a", 1)]:
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.2)
    ended(process, service)
