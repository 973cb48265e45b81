"""A driver whose stderr nobody reads goes on, and says what it had to once somebody does."""

import os
import subprocess
import sys
import threading
import time

import pytest
from service import Service, ended

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def pipe():
    """Both ends: the test fills it from the one that the driver has."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def fill(writing):
    """Leave no room, for the driver shares the pipe."""
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4095 + b"\n")
    except BlockingIOError:
        os.set_blocking(writing, True)


def read_all(reading, told):
    while data := os.read(reading, 65_536):
        told.append(data)


def test_turns_and_waves_go_on_and_an_end_is_one(tmp_path, kafka, pipe):
    reading, writing = pipe
    service = Service(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    path = tmp_path / "use_cases.py"
    # Spark has much to say of workers that die.
    dies = "    if context.tenant == 'boom':\n        os._exit(3)\n    values ="
    path.write_text("import os\n" + path.read_text().replace("    values =", dies))
    service.headrace("use-cases", "deploy")
    for tenant in ("acme", "boom"):
        service.headrace("tenants", "add", tenant)
    service.send("acme", b"a")
    command = (sys.executable, "-m", "headrace", "run", "-c", "headrace.yaml")
    with service.log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=output, stderr=writing, start_new_session=True
        )
    service.until(1)
    fill(writing)
    service.send("boom", b"x")
    service.told(
        lambda report: any(row.stream.tenant == "boom" and row.note for row in report.streams)
    )
    # Three lines of how it fares, one every five seconds.
    began_s, count = time.monotonic(), 1
    while time.monotonic() - began_s < 15:
        count += 1
        service.send("acme", b"b")
        service.until(count)
    told = []
    threading.Thread(target=read_all, args=(reading, told), daemon=True).start()
    ended(process, service)
    said = b"".join(told).decode()
    assert said.count("2 streams (") >= 3, said
    assert f"drained; {count} records committed in this run" in said
