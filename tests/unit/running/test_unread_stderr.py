"""A driver whose standard error nobody reads turns on, and beats."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

#: as `headrace run` does it, with parts in memory
DRIVER = """
import os
from contextlib import nullcontext
from headrace.cli.console import LogFormat, configure_logs, shown_errors
from headrace.cli.running import drive
from headrace.process.clock import SystemClock
from headrace.cycle.driver import Driver, DriverParts
from headrace.deploying.offer import Source
from headrace.fleet.health import Pulse
from headrace.ports import Connections
from headrace.process.signals import ending_on_signals
from headrace.process.standard_error import written_by_a_thread
from headrace.running import live
from headrace.running.assembly import Assembly
from headrace.store import SqlPositionsFactory
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory
from headrace.testing.memory_store import MemoryStore

live.LINE_S = 0.02
configure_logs("INFO", LogFormat.JSON)
store, log, letters = MemoryStore(), MemoryLog(), MemoryDeadLetters()
connections = Connections({}, "sqlite:///x.db")
engine = InProcessEngine(connections, MemoryReaderFactory(log), SqlPositionsFactory(), letters)
driver = Driver(DriverParts(store, log, engine, letters, SystemClock()), "run", lease_s=0.5)
beat = store.membership.beat

def counted(*given):
    print("beat", flush=True)
    return beat(*given)

store.membership.beat = counted
made = Assembly(driver, store, engine, connections, 5.0, None)

with shown_errors(), written_by_a_thread(), ending_on_signals() as coming_up:
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4095 + b"\\n")
    except BlockingIOError:
        os.set_blocking(2, True)
    drive(nullcontext(made), Pulse("driver"), coming_up)
"""
DEADLINE_S = 60


def test_turns_go_on_and_once_it_is_read_all_is_there(tmp_path: Path):
    command = [sys.executable, "-c", DRIVER]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            said = b""
            while said.count(b"beat") < 30:
                ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
                assert ready, "it stands still"
                data = os.read(process.stdout.fileno(), 4096)
                assert data, process.stderr.read().decode()
                said += data
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    assert process.returncode == 0
    lines = told.decode().splitlines()
    assert sum("no use case runs here" in line for line in lines) > 10
    assert lines[-1] == "drained; 0 records committed in this run"
