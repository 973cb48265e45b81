"""The use case of the page about state: real Kafka, real Spark, and a driver that is killed."""

import json
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from service import Service, ended

from headrace.connectors.kafka import create_topics, producer_config

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "state.md"
VISITORS = 9


class Counting(Service):
    """A folder with the page's use case."""

    def write(self, version: int) -> None:
        del version
        found = re.search(
            r"^```python\n(# visitors\.py\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
        )
        assert found is not None
        text = found[1].replace("{tenant}.visits", "{tenant}." + self.topic)
        (self.folder / "use_cases.py").write_text(text)

    def visit(self, tenant: str, first: int, until: int) -> None:
        """Visits, of some visitors in turn."""
        create_topics(self.config, {f"{tenant}.{self.topic}": 2})
        producer = Producer(producer_config(self.config))
        for number in range(first, until):
            value = json.dumps({"page": f"/{number}"}).encode()
            producer.produce(f"{tenant}.{self.topic}", value, key=visitor(number).encode())
        assert producer.flush(30) == 0

    def counted(self) -> dict[tuple[str, str], tuple[int, str]]:
        rows = self.read("SELECT tenant, visitor, visits, first_page FROM visitors")
        return {(tenant, who): (visits, page) for tenant, who, visits, page in rows}

    def until_all(self, visits: int) -> None:
        deadline = time.monotonic() + 120
        while sum(count for count, _ in self.counted().values()) < visits:
            assert time.monotonic() < deadline, f"{self.counted()}\n{self.log.read_text()}"
            time.sleep(0.1)


def visitor(number: int) -> str:
    return f"v{number % VISITORS}"


def test_each_visit_is_counted_once_also_by_a_driver_that_is_killed(tmp_path, kafka):
    service = Counting(tmp_path, kafka.bootstrap_servers, f"t{time.time_ns()}")
    assert service.headrace("use-cases", "deploy").returncode == 0
    for tenant in ("acme", "bolt"):
        assert service.headrace("tenants", "add", tenant).returncode == 0
        service.visit(tenant, 0, 200)
    process = service.run()
    service.until_all(400)
    service.visit("acme", 200, 3_000)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    service.visit("bolt", 200, 300)
    process = service.run()
    service.until_all(3_300)
    ended(process, service)
    visits = Counter(("acme", visitor(number)) for number in range(3_000))
    visits.update(("bolt", visitor(number)) for number in range(300))
    wanted = {of: (count, f"/{of[1][1:]}") for of, count in visits.items()}
    assert service.counted() == wanted
    kept = service.read("SELECT tenant, value FROM headrace_state")
    rows = [(tenant, json.loads(value)) for tenant, value in kept]
    assert {
        (tenant, row["visitor"]): (row["visits"], row["first_page"]) for tenant, row in rows
    } == wanted
    back = service.headrace("streams", "seek", "acme/visitors", "--to", "earliest", "--yes")
    assert back.returncode != 0
    assert "--forget-state" in back.stderr
    words = ("streams", "seek", "acme/visitors", "--to", "earliest", "--forget-state", "--yes")
    assert service.headrace(*words).returncode == 0
    assert {tenant for (tenant,) in service.read("SELECT tenant FROM headrace_state")} == {"bolt"}
