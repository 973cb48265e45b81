"""A door as an operator starts it: a process of `headrace`, in a folder with a YAML file."""

import os
import signal
import subprocess
import sys
import time

import httpx

from headrace.embedded.addresses import free_ports

SECRET = "s" * 40
#: what a process may take to start or to end
PATIENCE_S = 60.0


class DoorProcess:
    """``headrace <word>`` on a port of its own."""

    def __init__(self, folder, word):
        self.folder, self.word = folder, word
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self, *options):
        """Start it and wait until it answers."""
        with (self.folder / f"{self.word}.log").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", self.word, *options],
                cwd=self.folder,
                env={**os.environ, "HEADRACE_SECRET": SECRET},
                stdout=out,
                stderr=out,
            )
        until(self.answers, self.log)

    def answers(self):
        assert self.process.poll() is None, self.log()
        try:
            return httpx.get(f"{self.url}/livez", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    def log(self):
        return (self.folder / f"{self.word}.log").read_text()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self):
        """Drain it; the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


def until(holds, what, deadline_s=PATIENCE_S):
    """Wait for something that is bound to come true."""
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what()}"
        time.sleep(0.02)
