"""An embedded server whose owner is killed."""

import subprocess
import sys

import psutil

from headrace.embedded.addresses import answers


def answers_without_its_owner(kind, folder):
    """Whether a server of that kind, started in a folder, answers once its owner is gone."""
    code = (
        f"import os; from headrace.embedded import {kind.__name__}; "
        f"node = {kind.__name__}({str(folder)!r}); node.start(); "
        "print(node.pid, node.port, flush=True); os.kill(os.getpid(), 9)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    pid, port = map(int, told.stdout.split()[-2:])
    if psutil.pid_exists(pid):
        psutil.Process(pid).wait(60)
    return answers(port)
