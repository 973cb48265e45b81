"""A script in a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys


def run_apart(script, *args):
    # A process of its own: the other tests' clients must not be there to be forked.
    process = subprocess.Popen([sys.executable, "-c", script, *args], start_new_session=True)
    try:
        return process.wait(60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
