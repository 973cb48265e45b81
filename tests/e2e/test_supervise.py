"""Two real drivers under a supervisor: one is killed, then both are rolled to new settings.

The settings change what one use case does; the other one is to go on through all of it.
"""

import os
import re
import signal

import psutil
import pytest
from fleet import Feeder, Fleet

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def fleet(tmp_path, kafka):
    made = Fleet(tmp_path, kafka.bootstrap_servers)
    made.deploy()
    process = made.supervise(2)
    yield made, process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def test_a_killed_driver_and_a_roll_lose_nothing_and_double_nothing(fleet):
    fleet, supervisor = fleet
    feeder = Feeder(fleet.config, fleet.topic)
    feeder.start()
    fleet.until_ready(2)
    fleet.until(lambda: set(fleet.holders()) == {"d-0", "d-1"})

    # one dies with its JVM; its tenants go on, and it comes back
    victim = fleet.drivers()[0].pid
    children = psutil.Process(victim).children(recursive=True)
    assert any("java" in child.name() for child in children)
    os.kill(victim, signal.SIGKILL)
    fleet.until_newer("kept", feeder.sent)
    fleet.until_ready(2)
    assert fleet.drivers()[0].restarts == 1
    assert not any(child.is_running() for child in children)

    # a roll to new settings of one use case: both are replaced, one after the other
    pids = [driver.pid for driver in fleet.drivers()]
    fleet.configure("2")
    roll = fleet.begin("roll")
    for number, pid in enumerate(pids):
        fleet.until(lambda number=number, pid=pid: fleet.drivers()[number].pid not in (None, pid))
        # its replacement has yet to start, and the other use case goes on
        fleet.until_newer("noted", feeder.sent)
        assert roll.poll() is None
    assert "all drivers are replaced" in fleet.end(roll)
    assert not set(pids) & {driver.pid for driver in fleet.drivers()}
    fleet.until_newer("kept", feeder.sent)
    assert fleet.query("SELECT max(version) FROM kept") == [("2",)]
    assert fleet.query("SELECT max(version) FROM noted") == [("1",)]
    shown = fleet.headrace("fleet", "status")
    assert re.search(r"d-0 +ready +\d+", shown)
    fleet.until(lambda: set(fleet.holders()) == {"d-0", "d-1"})

    fleet.until_done(feeder)
    supervisor.terminate()
    assert supervisor.wait(120) == 0, fleet.logs()
    assert fleet.is_whole(feeder)
    # who drained has given its streams back
    assert not fleet.holders()
