"""A service of two use cases, four tenants and drivers that somebody supervises; and who sends."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter

from confluent_kafka import Producer
from typed import typed

from headrace.connectors.kafka import create_topics, producer_config
from headrace.fleet import state_file

TENANTS = ("acme", "bolt", "corp", "dune")
USE_CASES = """
import pyarrow as pa
from headrace import use_case
from headrace.sinks import SqlTable

TOPIC = "{{tenant}}.{topic}"
COLUMNS = {{"tenant": "text", "value": "text", "version": "text"}}

def seen(table, context):
    values = [value.decode() for value in table["value"].to_pylist()]
    version = context.options.get("version", "1")
    return pa.table({{
        "tenant": pa.array([context.tenant] * len(values), pa.string()),
        "value": pa.array(values, pa.string()),
        "version": pa.array([version] * len(values), pa.string()),
    }})

@use_case(topic=TOPIC, sink=SqlTable("kept", columns=COLUMNS), guarantee="exactly-once")
def keep(table, context):
    return seen(table, context)

@use_case(topic=TOPIC, sink=SqlTable("noted", columns=COLUMNS), guarantee="exactly-once")
def note(table, context):
    return seen(table, context)
"""


class Feeder(threading.Thread):
    """Sends to every tenant until told to stop; ``sent`` counts, per tenant."""

    def __init__(self, config, topic):
        super().__init__(daemon=True)
        self._producer = Producer(producer_config(config))
        self._topic = topic
        self.sent = 0
        self.stop = threading.Event()

    def run(self):
        while not self.stop.wait(0.05):
            for tenant in TENANTS:
                self._producer.produce(f"{tenant}.{self._topic}", str(self.sent).encode())
            self.sent += 1
        assert self._producer.flush(30) == 0


class Fleet:
    """A folder with a YAML file, and a supervisor."""

    def __init__(self, folder, bootstrap_servers):
        self.folder, self.topic = folder, f"t{time.time_ns()}"
        self.config = {"bootstrap.servers": bootstrap_servers}
        (folder / "use_cases.py").write_text(USE_CASES.format(topic=self.topic))
        self.configure("1")
        self.state = folder / ".headrace" / "fleet" / "headrace"

    def deploy(self):
        """Its use cases and tenants."""
        self.headrace("use-cases", "deploy")
        for tenant in TENANTS:
            self.headrace("tenants", "add", tenant)
            create_topics(self.config, {f"{tenant}.{self.topic}": 1})

    def configure(self, version):
        """What ``keep`` is to write from the next start of a driver on."""
        settings = {
            "module": "use_cases.py",
            "kafka": self.config,
            "database_url": f"sqlite:///{self.folder}/store.db",
            "master": "local[1]",
            "driver": {"lease": "5s"},
            "use_cases": {"keep": {"options": {"version": version}}},
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(settings))

    def begin(self, *words):
        """A command, begun."""
        return subprocess.Popen(
            [sys.executable, "-m", "headrace", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "300"},
        )

    def end(self, command):
        """What it said, once it is done."""
        said, _ = command.communicate(timeout=200)
        assert command.returncode == 0, said + self.logs()
        return said

    def headrace(self, *words):
        done = typed(self.folder, *words)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def supervise(self, drivers, *around):
        """Begin a supervisor; ``around`` is a command that takes the rest as one."""
        command = [*around, sys.executable, "-m", "headrace", "supervise", "--name", "d"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--drivers", str(drivers)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def logs(self):
        paths = [self.folder / "log", *sorted(self.state.glob("logs/*.log"))]
        return "\n".join(f"{path}:\n{path.read_text()[-6000:]}" for path in paths if path.exists())

    def drivers(self):
        view = state_file.read(self.state)
        return view.drivers if view else ()

    def holders(self):
        """How many streams each driver holds."""
        return Counter(
            name
            for (name,) in self.query("SELECT holder FROM headrace_streams")
            if name is not None
        )

    def rows(self, table):
        return Counter(self.query(f"SELECT tenant, value FROM {table}"))

    def query(self, text):
        connection = sqlite3.connect(f"file:{self.folder}/store.db?mode=ro", uri=True)
        try:
            return connection.execute(text).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def until(self, condition, timeout_s=90.0):
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{self.drivers()}\n{self.logs()}"
            time.sleep(0.2)

    def until_ready(self, drivers):
        self.until(lambda: [driver.state for driver in self.drivers()] == ["ready"] * drivers)

    def until_done(self, feeder):
        """Stop sending, and wait until every record has its effects."""
        feeder.stop.set()
        feeder.join()
        total = feeder.sent * len(TENANTS)
        self.until(lambda: all(len(self.rows(table)) == total for table in ("kept", "noted")))

    def is_whole(self, feeder):
        """Whether each record has its effect once, in each use case."""
        wanted = Counter((name, str(number)) for name in TENANTS for number in range(feeder.sent))
        return self.rows("kept") == self.rows("noted") == wanted

    def until_newer(self, table, number):
        """Wait until each tenant has an effect of a later record."""

        def newest(tenant):
            values = (int(value) for name, value in self.rows(table) if name == tenant)
            return max(values, default=-1)

        self.until(lambda: min(map(newest, TENANTS)) > number)
