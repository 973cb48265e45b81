"""The clock of the machine is set an hour on, and an hour back, under a driver that runs."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from rig import Rig

CC = shutil.which("cc")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.matrix,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(CC is None, reason="there is no C compiler here"),
]


def test_a_clock_that_jumps_changes_nothing(kafka, tmp_path):
    library, told = tmp_path / "clock_jump.so", tmp_path / "seconds"
    source = Path(__file__).with_name("clock_jump.c")
    subprocess.run([CC, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    told.write_bytes(struct.pack("l", 0))
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, driver={"lease": "3s"})
    environment = {"LD_PRELOAD": str(library), "CLOCK_JUMP_FILE": str(told)}
    with rig.sending(), rig.start(environment=environment) as driver:
        rig.progressing(driver)
        for jump_s in (3600, -3600, 0):
            with told.open("r+b") as file:  # in place: it is mapped
                file.write(struct.pack("l", jump_s))
            rig.kills += 1
            rig.progressing(driver, by=300)
        driver.drain()
    rig.settle()
    rig.judge("clock set an hour on, two hours back, and right again")
