"""What a worker freezes, tried in a process that has little else.

Each case thaws and walks all that there is, some times. A process that has collected all tests
knows millions of objects, and walked them for minutes.
"""

import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("heap_cases.py")


def test_a_worker_freezes_what_lives_for_long_and_nothing_else():
    plain = ["--noconftest", "-p", "no:schemathesis", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plain, str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
