"""The demo under fire: its driver is killed twice, its broker once, and the report stays the same.

"Killed at any moment" is easily said, so here it is done while somebody looks. The demo runs in a
process of its own. When certain events have happened it is killed with SIGKILL, with its Spark,
its Kafka and its mail server, which never outlive it, and started again by the same command; in
between, the demo itself kills its broker alone and starts it again. What is checked at the end is
what is always checked.

Kills are not random here: a demo should show the same every time. Random ones are in the tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from headrace.demo.scenario import Journal
from headrace.demo.tables import Asked

#: the demo is killed as soon as this event has happened
_KILLED_AFTER = ("late", "go-on")
#: share of the visits after which the broker is killed
_BROKER_AT_SHARE = 0.45
#: environment variable that tells a life of the demo
_BROKER_KILLED_AT = "HEADRACE_DEMO_BROKER_KILLED_AT"
_LOOK_EVERY_S = 0.05


def run_chaos(folder: Path, rate_per_s: float, master: str, console: Console, asked: Asked) -> int:
    """Run the first act with kills; returns the exit code of its last life."""
    command = [sys.executable, "-m", "headrace", "demo", "--folder", str(folder)]
    command += ["--rate", str(rate_per_s), "--master", master, "--acts", "1"]
    command += ["--with", "cassandra"] if asked.cassandra else []
    command += ["--replicate"] if asked.replicate else []
    environment = {**os.environ, _BROKER_KILLED_AT: str(_BROKER_AT_SHARE)}
    # What an earlier demo did must not be taken for this one's.
    (folder / "journal.json").unlink(missing_ok=True)
    fresh = ["--fresh"]
    for event in _KILLED_AFTER:
        child = subprocess.Popen([*command, *fresh], env=environment)  # noqa: S603 - ourselves
        fresh = []
        if not _until(child, folder / "journal.json", event):
            return child.wait()
        child.send_signal(signal.SIGKILL)
        child.wait()
        console.print(f"\n[bold red]kill -9[/] of driver, Spark and Kafka after '{event}'")
    return subprocess.call(command, env=environment)  # noqa: S603 - ourselves


def broker_killed_at() -> float | None:
    """The share of the visits after which this demo kills its broker; None if it does not."""
    told = os.environ.get(_BROKER_KILLED_AT)
    return None if told is None else float(told)


def _until(child: subprocess.Popen[bytes], journal: Path, event: str) -> bool:
    """Whether the event happened before the child ended."""
    while child.poll() is None:
        if event in Journal.read(journal).done:
            return True
        time.sleep(_LOOK_EVERY_S)
    return False
