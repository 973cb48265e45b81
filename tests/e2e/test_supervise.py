"""Two real drivers under a supervisor: one is killed, then both are rolled to new settings.

The settings change what one use case does; the other one is to go on through all of it.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter

import psutil
import pytest
from confluent_kafka import Producer

from headrace.fleet import state_file
from headrace.kafka import create_topics, producer_config

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(420)]

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
        return self.end(self.begin(*words))

    def supervise(self):
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "headrace", "supervise", "--drivers", "2", "--name", "d"],
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

    def until_newer(self, table, number):
        """Wait until each tenant has an effect of a later record."""

        def newest(tenant):
            values = (int(value) for name, value in self.rows(table) if name == tenant)
            return max(values, default=-1)

        self.until(lambda: min(map(newest, TENANTS)) > number)


@pytest.fixture
def fleet(tmp_path, kafka):
    made = Fleet(tmp_path, kafka.bootstrap_servers)
    made.headrace("use-cases", "deploy")
    for tenant in TENANTS:
        made.headrace("tenants", "add", tenant)
        create_topics(made.config, {f"{tenant}.{made.topic}": 1})
    process = made.supervise()
    yield made, process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def test_a_killed_driver_and_a_roll_lose_nothing_and_double_nothing(fleet):
    fleet, supervisor = fleet
    feeder = Feeder(fleet.config, fleet.topic)
    feeder.start()
    fleet.until(lambda: [each.state for each in fleet.drivers()] == ["ready", "ready"])
    fleet.until(lambda: set(fleet.holders()) == {"d-0", "d-1"})

    # one dies with its JVM; its tenants go on, and it comes back
    victim = fleet.drivers()[0].pid
    children = psutil.Process(victim).children(recursive=True)
    assert any("java" in each.name() for each in children)
    os.kill(victim, signal.SIGKILL)
    fleet.until_newer("kept", feeder.sent)
    fleet.until(lambda: [each.state for each in fleet.drivers()] == ["ready", "ready"])
    assert fleet.drivers()[0].restarts == 1
    assert not any(each.is_running() for each in children)

    # a roll to new settings of one use case: both are replaced, one after the other
    pids = [each.pid for each in fleet.drivers()]
    fleet.configure("2")
    roll = fleet.begin("roll")
    for number, pid in enumerate(pids):
        fleet.until(lambda number=number, pid=pid: fleet.drivers()[number].pid not in (None, pid))
        # its replacement has yet to start, and the other use case goes on
        fleet.until_newer("noted", feeder.sent)
        assert roll.poll() is None
    assert "all drivers are replaced" in fleet.end(roll)
    assert not set(pids) & {each.pid for each in fleet.drivers()}
    fleet.until_newer("kept", feeder.sent)
    assert fleet.query("SELECT max(version) FROM kept") == [("2",)]
    assert fleet.query("SELECT max(version) FROM noted") == [("1",)]
    shown = fleet.headrace("fleet", "status")
    assert re.search(r"d-0 +ready +\d+", shown)
    fleet.until(lambda: set(fleet.holders()) == {"d-0", "d-1"})

    feeder.stop.set()
    feeder.join()
    wanted = Counter((tenant, str(number)) for tenant in TENANTS for number in range(feeder.sent))
    fleet.until(lambda: all(len(fleet.rows(each)) == len(wanted) for each in ("kept", "noted")))
    supervisor.terminate()
    assert supervisor.wait(120) == 0, fleet.logs()
    assert fleet.rows("kept") == fleet.rows("noted") == wanted
    # who drained has given its streams back
    assert not fleet.holders()
