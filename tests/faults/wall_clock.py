"""A wall clock for a process and its children, that jumps when it is told to."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

CODE = Path(__file__).with_suffix(".c")
#: the most: Kafka refuses messages that are further ahead (message.timestamp.after.max.ms)
HOUR_S = 3600


def built(folder):
    """The library that a process is to load; skips the test where there can be none."""
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("a wall clock of one's own needs Linux with glibc")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build a wall clock with (apt install gcc libc6-dev)")
    library = folder / "wall_clock.so"
    command = [compiler, "-O2", "-fPIC", "-shared", "-o", str(library), str(CODE)]
    subprocess.run(command, check=True)
    return library


class WallClock:
    """Right at first; ``environment`` lets a process live by it."""

    def __init__(self, library, file):
        self.file, self.ahead_s = file, 0
        file.write_bytes(bytes(8))
        preloaded = [os.environ.get("LD_PRELOAD", ""), str(library)]
        self.environment = {
            "LD_PRELOAD": ":".join(filter(None, preloaded)),
            "WALL_CLOCK": str(file),
        }

    def jump(self, ahead_s):
        """From now on it is so many seconds ahead."""
        self.ahead_s = ahead_s
        with self.file.open("r+b") as file:
            file.write(ahead_s.to_bytes(8, "little", signed=True))
