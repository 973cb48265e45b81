"""The first hour: up, a topic that a sink makes, down, up with two drivers, reset."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from service import own_console_port

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

USE_CASES = """
import logging
import pyarrow as pa
from headrace import use_case
from headrace.sinks import KafkaTopic

@use_case(topic="{tenant}.visits", sink=KafkaTopic("{tenant}.pages", partitions=2))
def pages(visits, context):
    print("rows:", visits.num_rows)
    logging.info("seen")
    return visits.select(["value"])
"""


class Folder:
    """A folder of a new user, and what is typed there."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path / "log"
        (path / "use_cases.py").write_text(USE_CASES)
        (path / "headrace.yaml").write_text("module: use_cases.py\nmaster: local[1]\n")
        own_console_port(path)
        self.ups: list[subprocess.Popen[bytes]] = []

    def headrace(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *words],
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=150,
            env={**os.environ, "COLUMNS": "300"},
            check=False,
        )

    def up(self, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "up", *words],
                cwd=self.path,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.ups.append(process)
        self.until(lambda: "ports:" in self.log.read_text())
        self.until(lambda: json.loads(self.headrace("use-cases", "list", "--json").stdout or "[]"))
        return process

    def until(self, holds, seconds=120.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.ups[-1].poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.2)

    def told(self) -> str:
        """All that `up` and its drivers have said."""
        logs = sorted((self.path / ".headrace").rglob("*.log"))
        drivers = [path.read_text("utf-8", "replace") for path in logs if path.stem.isdigit()]
        status = self.headrace("fleet", "status").stdout
        return "\n".join([self.log.read_text(), status, *drivers])

    @property
    def kafka(self) -> dict[str, str]:
        told = json.loads((self.path / ".headrace/up/servers.json").read_text())
        return {"bootstrap.servers": told["bootstrap.servers"]}

    @property
    def ports(self) -> dict[str, int]:
        return json.loads((self.path / ".headrace/up/ports.json").read_text())

    def send(self, *values: bytes) -> None:
        producer = Producer(self.kafka)
        for value in values:
            producer.produce("acme.visits", value)
        assert producer.flush(60) == 0

    def read(self, count: int) -> list[bytes]:
        """What is in the topic that the sink made."""
        reader = Consumer(
            {**self.kafka, "group.id": str(time.time_ns()), "auto.offset.reset": "earliest"}
        )
        reader.subscribe(["acme.pages"])
        found: list[bytes] = []
        deadline = time.monotonic() + 120
        while len(found) < count:
            assert time.monotonic() < deadline, (found, self.log.read_text())
            message = reader.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message.value())
        reader.close()
        return found

    def said(self) -> list[dict[str, object]]:
        """The lines of the log that are JSON."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"')]


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path)
    yield made
    for process in made.ups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def ready(folder: Folder) -> dict[str, int]:
    """Drivers that are ready, by name."""
    told = folder.headrace("fleet", "status", "--json").stdout
    drivers = json.loads(told)["drivers"] if told.startswith("{") else []
    return {driver["name"]: driver["pid"] for driver in drivers if driver["state"] == "ready"}


def test_the_first_hour(folder):
    first = folder.up()
    assert folder.headrace("tenants", "add", "acme").returncode == 0
    made = folder.headrace("topics", "create", "pages", "--inputs", "--dry-run", "--json")
    assert {row["topic"] for row in json.loads(made.stdout)} == {"acme.visits", "acme.pages"}
    assert folder.headrace("topics", "create", "pages", "--inputs").returncode == 0
    folder.send(b"a", b"b")
    assert sorted(folder.read(2)) == [b"a", b"b"]

    # What the handler says carries whose records it is about.
    folder.until(lambda: any(line.get("event") == "seen" for line in folder.said()), 60)
    spoken = [line for line in folder.said() if line.get("logger") in ("stdout", "root")]
    assert {(line["tenant"], line["use_case"]) for line in spoken} == {("acme", "pages")}
    assert any(str(line["event"]).startswith("rows:") for line in spoken)

    refused = folder.headrace("reset", "--yes")
    assert (refused.returncode, "'headrace down'" in refused.stderr) == (2, True)
    ports = folder.ports
    done = folder.headrace("down")
    assert done.returncode == 0, done.stderr
    assert first.wait(60) == 0, folder.log.read_text()

    # It goes on under the same ports, and says with what.
    folder.up()
    assert folder.ports == ports
    assert "1 tenant, 1 lane begun" in folder.log.read_text()
    folder.send(b"c")
    assert sorted(folder.read(3)) == [b"a", b"b", b"c"]
    assert folder.headrace("down").returncode == 0
    assert folder.headrace("reset", "--yes").returncode == 0
    assert not (folder.path / ".headrace" / "up").exists()


def test_of_two_drivers_one_is_killed_and_the_other_goes_on(folder):
    folder.up("--drivers", "2", "--no-console")
    assert folder.headrace("tenants", "add", "acme").returncode == 0
    assert folder.headrace("topics", "create", "pages", "--inputs").returncode == 0
    folder.until(lambda: len(ready(folder)) == 2, 300)
    for pid in list(ready(folder).values())[:1]:
        os.kill(pid, signal.SIGKILL)
    folder.send(b"a")
    assert folder.read(1) == [b"a"]
    assert folder.headrace("down").returncode == 0
