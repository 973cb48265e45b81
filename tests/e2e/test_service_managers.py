"""A real supervisor under systemd, by the unit that is shipped, and as process 1 of a container.

systemd is an instance of the test's own. A container is told by what it is to a process: namespaces
of its own, in which it is the first one, and everybody's heir.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import systemd
from fleet import Feeder, Fleet

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

PROJECT = Path(__file__).parents[2]
UNIT = PROJECT / "packaging" / "headrace.service"
#: what people are told to change, and what lets a test's folder and Python be seen
CHANGES = """
[Service]
User=
WorkingDirectory={folder}
Environment=HEADRACE_CONFIG={folder}/headrace.yaml HEADRACE_STATE={state}
ExecStart=
ExecStart={python} -m headrace supervise --drivers 1 --name d
ExecReload=
ExecReload={python} -m headrace roll
BindPaths={folder}
BindReadOnlyPaths={project} {prefix}
ProtectHome=no
"""


@pytest.fixture
def fleet(tmp_path, kafka):
    made = Fleet(tmp_path, kafka.bootstrap_servers)
    made.deploy()
    return made


@pytest.fixture
def feeder(fleet):
    made = Feeder(fleet.config, fleet.topic)
    made.start()
    yield made
    made.stop.set()
    made.join()


@pytest.fixture
def manager(fleet):
    if why := systemd.missing():
        pytest.skip(why)
    with systemd.Systemd(fleet.folder) as made:
        shutil.copy(UNIT, made.units)
        changes = made.units / "headrace.service.d" / "test.conf"
        changes.parent.mkdir()
        places = {"project": PROJECT, "prefix": sys.prefix, "python": sys.executable}
        changes.write_text(CHANGES.format(folder=fleet.folder, state=fleet.state, **places))
        made.ask("daemon-reload")
        yield made


@pytest.mark.matrix
def test_under_systemd_it_starts_rolls_survives_and_drains(fleet, feeder, manager):
    manager.ask("start", "headrace")
    # systemd was told when the driver was ready, and what there is to see
    assert [driver.state for driver in fleet.drivers()] == ["ready"]
    assert manager.shows("headrace", "StatusText") == "1 of 1 drivers ready"
    fleet.until_newer("kept", -1)

    # killed with -9, and nobody is left of what it had started
    supervisor = psutil.Process(int(manager.shows("headrace", "MainPID")))
    left = supervisor.children(recursive=True)
    assert any(process.name() == "java" for process in left)
    supervisor.kill()
    psutil.wait_procs(left, 20)
    assert not any(process.is_running() for process in left)
    fleet.until(lambda: manager.shows("headrace", "ActiveState") == "active")
    assert manager.shows("headrace", "NRestarts") == "1"
    fleet.until_newer("kept", feeder.sent)

    # a roll: systemd hears of its beginning and of its end
    fleet.configure("2")
    before, (driver,) = manager.shows("headrace", "MainPID"), fleet.drivers()
    manager.ask("reload", "headrace")
    assert manager.shows("headrace", "ActiveState") == "active"
    assert fleet.drivers()[0].pid != driver.pid
    assert manager.shows("headrace", "MainPID") == before
    fleet.until_newer("kept", feeder.sent)
    assert fleet.query("SELECT max(version) FROM kept") == [("2",)]

    fleet.until_done(feeder)
    manager.ask("stop", "headrace")
    assert manager.shows("headrace", "Result") == "success", fleet.logs()
    assert fleet.is_whole(feeder)
    # who drained has given its streams back
    assert not fleet.holders()


def test_as_process_1_it_buries_the_dead_and_drains(fleet, feeder):
    around = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*around, "true"], capture_output=True, check=False).returncode:
        pytest.skip("PID namespaces are not allowed here")
    container = fleet.supervise(1, *around)
    try:
        fleet.until_ready(1)
        fleet.until_newer("kept", -1)
        (first,) = psutil.Process(container.pid).children()

        # its driver dies and leaves a JVM and workers, of which it is the heir
        (driver,) = first.children()
        left = driver.children(recursive=True)
        assert any(process.name() == "java" for process in left)
        driver.kill()
        fleet.until_newer("kept", feeder.sent)
        fleet.until_ready(1)
        assert fleet.drivers()[0].restarts == 1
        assert not any(process.is_running() for process in left)
        # by who is left a child of its own; a JVM has its own dead, which it never asks for
        fleet.until(
            lambda: psutil.STATUS_ZOMBIE not in [child.status() for child in first.children()]
        )

        fleet.until_done(feeder)
        os.kill(first.pid, signal.SIGTERM)
        assert container.wait(120) == 0, fleet.logs()
    finally:
        container.kill()
        container.wait()
    assert fleet.is_whole(feeder)
    assert not fleet.holders()
