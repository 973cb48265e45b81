"""A service of one use case in a folder of its own, and the commands that a person types there."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from typed import in_a_shell, typed

from headrace.cli.kept_ports import KeptPorts
from headrace.connectors.kafka import create_topics, producer_config
from headrace.model.statistics import Report
from headrace.store import open_store

USE_CASES = """
import pyarrow as pa
import release
from headrace import use_case
from headrace.sinks import SqlTable

@use_case(
    topic="{{tenant}}.{topic}",
    sink=SqlTable("seen", columns={{"tenant": "text", "value": "text", "version": "bigint"}}),
    guarantee="exactly-once",
)
def keep(table, context):
    values = [value.decode() for value in table["value"].to_pylist()]
    rows = len(values)
    return pa.table({{
        "tenant": pa.array([context.tenant] * rows, pa.string()),
        "value": pa.array(values, pa.string()),
        "version": pa.array([release.VERSION] * rows, pa.int64()),
    }})
"""


def own_console_port(folder: Path) -> None:
    """Give a folder's console a port of its own before its first `up`.

    Else that takes 8600 if it is free and keeps it; while it is down, another folder takes it.
    """
    KeptPorts(folder / ".headrace" / "up").take("console")


class Service:
    """A folder with a YAML file, and the commands a person would type in it."""

    def __init__(self, folder: Path, bootstrap_servers: str, topic: str) -> None:
        self.folder, self.topic = folder, topic
        self.config = {"bootstrap.servers": bootstrap_servers}
        self.log = folder / "log"
        self.write(version=1)
        (folder / "headrace.yaml").write_text(
            f"module: use_cases.py\n"
            f"kafka:\n  bootstrap.servers: {bootstrap_servers}\n"
            f"database_url: sqlite:///{folder}/store.db\n"
            f"master: local[2]\n"
        )

    def write(self, version: int) -> None:
        (self.folder / "use_cases.py").write_text(USE_CASES.format(topic=self.topic))
        (self.folder / "release.py").write_text(f"VERSION = {version}\n")

    def headrace(self, *words: str) -> subprocess.CompletedProcess[str]:
        return typed(self.folder, *words, "-c", "headrace.yaml")

    def in_a_shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        return in_a_shell(self.folder, *words, "-c", "headrace.yaml")

    def run(self, *command: str) -> subprocess.Popen[bytes]:
        words = command or (sys.executable, "-m", "headrace", "run", "-c", "headrace.yaml")
        with self.log.open("ab") as output:
            return subprocess.Popen(
                words,
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def send(self, tenant: str, *values: bytes) -> None:
        create_topics(self.config, {f"{tenant}.{self.topic}": 1})
        producer = Producer(producer_config(self.config))
        for value in values:
            producer.produce(f"{tenant}.{self.topic}", value)
        assert producer.flush(30) == 0

    def rows(self) -> list[tuple[str, str, int]]:
        return self.read("SELECT tenant, value, version FROM seen")

    def read(self, question: str) -> list[tuple[Any, ...]]:
        """What is in the store's database; nothing as long as the table is not there."""
        try:
            connection = sqlite3.connect(f"file:{self.folder}/store.db?mode=ro", uri=True)
            found = connection.execute(question).fetchall()
        except sqlite3.OperationalError:
            return []
        connection.close()
        return found

    def told(self, enough: Callable[[Report], bool]) -> Report:
        """What the driver tells, as soon as it tells enough."""
        deadline = time.monotonic() + 90
        with closing(open_store(f"sqlite:///{self.folder}/store.db")) as store:
            while True:
                for report in store.statistics.reports():
                    if enough(report):
                        return report
                assert time.monotonic() < deadline, store.statistics.reports()
                time.sleep(0.1)

    def log_lines(self) -> list[dict[str, object]]:
        """The lines of the log that are JSON: Spark's are not."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"')]

    def until(self, rows: int, timeout_s: float = 120.0) -> list[tuple[str, str, int]]:
        deadline = time.monotonic() + timeout_s
        while len(self.rows()) < rows:
            assert time.monotonic() < deadline, f"{self.rows()}\n{self.log.read_text()}"
            time.sleep(0.1)
        return self.rows()


def ended(process: subprocess.Popen[bytes], service: Service) -> None:
    os.kill(process.pid, signal.SIGTERM)
    # One that hangs is gone after 60 s, and has said where.
    assert process.wait(75) == 0, service.log.read_text()


def told_by_up(service: Service, process: subprocess.Popen[bytes]) -> dict[str, str]:
    """The addresses of the servers that `up` has started."""
    addresses = service.folder / ".headrace" / "up" / "servers.json"
    deadline = time.monotonic() + 120
    while not addresses.exists() or not addresses.read_text().endswith("}\n"):
        assert process.poll() is None, service.log.read_text()
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.1)
    return json.loads(addresses.read_text())
