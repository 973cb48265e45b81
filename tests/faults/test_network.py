"""A line to Kafka that is cut, swallows everything, or is slow."""

import threading

import pytest
from bad_line import BadLine
from matrix import FULL, ROW
from rig import Rig

from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import HOST, free_ports

pytestmark = ROW


@pytest.fixture
def line(tmp_path):
    """A broker that can only be reached by a line of ours."""
    (port,) = free_ports(1)
    made = BadLine(port)
    told = {"advertised.listeners": f"PLAINTEXT://{HOST}:{made.port}"}
    with EmbeddedKafka(tmp_path / "kafka", port=port, properties=told):
        yield made
    made.close()


def test_a_line_that_is_cut_swallows_or_is_slow_costs_time_alone(line, tmp_path):
    rig = Rig(tmp_path / "service", f"{HOST}:{line.port}")
    for_s = {"cut": 5.0, "hole": 60.0 if FULL else 15.0, "slow": 30.0 if FULL else 10.0}
    with rig.sending(), rig.start() as driver:
        rig.progressing(driver, deadline_s=120.0)
        for mode, seconds in for_s.items():
            line.set(mode)
            threading.Event().wait(seconds)
            line.set("through")
            rig.kills += 1
            rig.progressing(driver, deadline_s=120.0)
        driver.drain()
    rig.settle()
    rig.judge("connection to Kafka cut, swallowed, slow")
