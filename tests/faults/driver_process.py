"""One life of a driver as a process, to be started, stopped at a step, watched and killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

from headrace.process.crash_points import GO_ON, VARIABLE
from headrace.testing.resource_checker import Leaks, usage

#: often enough for waits of seconds, and seldom enough not to be what the machine does
LOOK_EVERY_S = 0.2
#: what the kernel may take to end a killed process
GONE_S = 20.0
#: what Python may grow by in a row of some minutes; its JVM's heap grows until it is collected, and
#: then Spark forgets old broadcasts with two pools of up to 100 and 128 threads, which end later
MOST_GROWTH = {"open_files": 8.0, "threads": 4.0, "memory_mib": 48.0}
MOST_GROWTH_OF_JAVA = {"open_files": 8.0, "threads": 8.0 + 100.0 + 128.0}


def until(condition, what, deadline_s=90.0):
    """Wait for something that is bound to come true."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what()}"
        time.sleep(LOOK_EVERY_S)


def gone(process):
    """Whether a process has ended, be it that nobody has asked how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class DriverProcess:
    """Its Python, its JVM, its workers."""

    def __init__(self, rig, stop_at, options, environment):
        self.rig = rig
        number = len(list(rig.folder.glob("log.*")))
        self.log = rig.folder / f"log.{number}"
        self.mark = rig.folder / f"stopped.{number}"
        environment = {**os.environ, **environment}
        if stop_at:
            environment[VARIABLE] = f"{stop_at}:{self.mark}"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "run", "-c", "headrace.yaml", *options],
                cwd=rig.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def tail(self):
        return self.log.read_text()[-3000:]

    def tree(self):
        """Its processes, workers included."""
        try:
            top = psutil.Process(self.process.pid)
            return [*top.children(recursive=True), top]
        except psutil.NoSuchProcess:
            return []

    def until_stopped(self, deadline_s=90.0):
        """Wait until it has come to the step it was to stop at; the process that has."""

        def who():
            return self.mark.read_text() if self.mark.exists() else ""

        until(lambda: who() or self.process.poll() is not None, self.tail, deadline_s)
        assert who(), self.tail()
        return psutil.Process(int(who()))

    def stops(self, times, deadline_s=90.0):
        """The process that has stopped, and when that one is dead another, so many times."""
        for number in range(times):
            if number:
                self.mark.unlink()
            yield self.until_stopped(deadline_s)

    def let_go(self):
        """Whoever has stopped goes on, and nobody stops any more."""
        self.mark.write_text(GO_ON)

    def kill(self, but=()):
        """SIGKILL for all of it at once; ``but`` has process ids that live on."""
        self.rig.kills += 1
        self.end(but)

    def end(self, but=()):
        """As ``kill``, and not counted as a fault."""
        tree = [process for process in self.tree() if process.pid not in but]
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self.process.wait(GONE_S)
        psutil.wait_procs(tree, GONE_S)

    def drain(self, deadline_s=60.0):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(deadline_s) == 0, self.tail()

    @contextlib.contextmanager
    def watched(self):
        """See to it that it leaks no files, threads or memory while the block runs."""
        java = next(process.pid for process in self.tree() if process.name() == "java")
        watches = [
            (self.process.pid, Leaks(MOST_GROWTH)),
            (java, Leaks(MOST_GROWTH_OF_JAVA)),
        ]
        for pid, leaks in watches:
            leaks.look = lambda at, pid=pid: usage(at, pid)
        over = threading.Event()

        def look():
            while not over.wait(1.0):
                for _, leaks in watches:
                    leaks.sample(time.monotonic())

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(GONE_S)
        for _, leaks in watches:
            report = leaks.report()
            assert report.clean, str(report)
            assert report.checked, "nobody looked"
