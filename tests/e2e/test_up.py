"""``headrace up`` starts the servers that a YAML file does not name, and finds its data again."""

import sys
import time

import psycopg
import pytest
from service import Service, ended, own_console_port, told_by_up

from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.servers import Cluster
from headrace.errors import HeadraceError
from headrace.ports import Server
from headrace.store.migrations import newest_version

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def test_up_starts_what_the_yaml_file_does_not_name(tmp_path):
    service = Service(tmp_path, "", "visits")
    (tmp_path / "headrace.yaml").write_text(
        f"module: use_cases.py\ndatabase_url: sqlite:///{tmp_path}/store.db\nmaster: local[2]\n"
    )
    own_console_port(tmp_path)
    process = service.run(sys.executable, "-m", "headrace", "up", "-c", "headrace.yaml")
    service.config = {"bootstrap.servers": told_by_up(service, process)["bootstrap.servers"]}
    service.headrace("use-cases", "deploy")
    assert service.headrace("tenants", "add", "acme").returncode == 0
    service.send("acme", b"a")
    service.until(1)
    assert "acme.visits" in service.headrace("streams", "list").stdout
    assert service.headrace("verify").returncode == 0
    ended(process, service)


def test_up_keeps_positions_in_a_postgresql_if_asked_and_goes_on_with_it(open_folder):
    folder = open_folder / "service"
    folder.mkdir()
    service = Service(folder, "", "visits")
    (folder / "headrace.yaml").write_text("module: use_cases.py\nmaster: local[2]\n")
    own_console_port(folder)
    for words, value in ((("--store", "postgres"), b"a"), ((), b"b")):
        process = service.run(sys.executable, "-m", "headrace", "up", "-c", "headrace.yaml", *words)
        told = told_by_up(service, process)
        service.config = {"bootstrap.servers": told["bootstrap.servers"]}
        service.headrace("use-cases", "deploy")
        service.headrace("tenants", "add", "acme")
        service.send("acme", value)
        deadline = time.monotonic() + 60
        while value.decode() not in values_in(told["database_url"]):
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.1)
        found = values_in(told["database_url"])
        shown = service.headrace("store", "version").stdout
        assert shown.count(newest_version()) == 2
        ended(process, service)
        (folder / ".headrace" / "up" / "servers.json").unlink()
    assert found == ["a", "b"]
    assert "postgresql://" not in service.log.read_text()


def test_up_starts_a_cassandra_if_asked_which_sinks_and_the_next_up_know(tmp_path, cassandra_jars):
    service = Service(tmp_path, "", "visits")
    (tmp_path / "headrace.yaml").write_text("module: use_cases.py\nmaster: local[2]\n")
    (tmp_path / "use_cases.py").write_text(KEEPS)
    own_console_port(tmp_path)
    urls, found = set(), []
    for words, value in ((("--with", "cassandra"), b"a"), ((), b"b")):
        process = service.run(sys.executable, "-m", "headrace", "up", "-c", "headrace.yaml", *words)
        deadline = time.monotonic() + 200
        while "cassandra_url" not in (told := told_by_up(service, process)):
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.1)
        service.config = {"bootstrap.servers": told["bootstrap.servers"]}
        service.headrace("use-cases", "deploy")
        service.headrace("tenants", "add", "acme")
        service.send("acme", value)
        urls.add(told["cassandra_url"])
        deadline = time.monotonic() + 120
        while value.decode() not in (found := kept_in(told["cassandra_url"])):
            assert time.monotonic() < deadline, service.log.read_text()
            time.sleep(0.1)
        ended(process, service)
        (tmp_path / ".headrace" / "up" / "servers.json").unlink()
    assert (len(urls), found) == (1, ["a", "b"])


KEEPS = """
import pyarrow as pa
from headrace import use_case
from headrace.sinks import CassandraTable

SEEN = CassandraTable(
    "seen",
    {"tenant": "text", "record": "bigint", "value": "text", "newness": "version"},
    key=("tenant", "record"), newest_by="newness", key_in_one_lane=True, at="cassandra",
)

@use_case(topic="{tenant}.visits", sink=SEEN, guarantee="exactly-once")
def seen(visits, context):
    rows = visits.num_rows
    return pa.table({
        "tenant": pa.array([context.tenant] * rows, pa.string()),
        "record": visits["offset"],
        "value": visits["value"].cast(pa.string()),
    })
"""


def kept_in(url: str) -> list[str]:
    cluster = Cluster("test", address_of(Server(url), "test"))
    try:
        rows = cluster.asked("SELECT value FROM headrace.seen")
    except HeadraceError:
        return []
    finally:
        cluster.close()
    return sorted(value for (value,) in rows)


def values_in(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        try:
            return sorted(row[0] for row in connection.execute("SELECT value FROM seen"))
        except psycopg.errors.UndefinedTable:
            return []
