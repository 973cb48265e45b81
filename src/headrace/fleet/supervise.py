"""The loop of a supervisor: what happened goes to `decide`, and what comes back is done.

Signals, ended processes and the answers of the prober become events in one queue; a signal handler
does nothing else. Everything is done in the main thread, which is also the one that starts drivers
(`launcher.py` says why that matters).

- SIGTERM and SIGINT drain all drivers; a second one ends them at once.
- SIGHUP replaces the drivers, one at a time; one that comes because the terminal was closed drains.
- Under systemd it says when it is ready and that it lives; as the first process of a container it
  buries orphans.

It ends when everything it started has ended.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import structlog

from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError
from headrace.fleet.decide import begin, decide
from headrace.fleet.health import answering
from headrace.fleet.logs import DriverLog
from headrace.fleet.probe import Found, Prober
from headrace.fleet.process import DriverProcess, end_leftovers, reap_orphans, told
from headrace.fleet.publishing import FleetPublisher, Running
from headrace.fleet.states import (
    Action,
    Drain,
    Event,
    Exited,
    Phase,
    RestartRules,
    RollAsked,
    Start,
    StopAsked,
    Tick,
)

log = structlog.get_logger(__name__)

#: how long it waits for an event; also how late an ended driver is noticed at worst
TICK_S = 0.2
_ROTATE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a supervisor is to keep running."""

    #: drivers are named ``<name>-0`` and so on
    name: str
    drivers: int
    #: the command of a driver, by its name and the port where it is to answer for its health
    command: Callable[[str, int], Sequence[str]]
    #: where lock, state and logs are kept; one supervisor a folder
    folder: Path
    rules: RestartRules = field(default_factory=RestartRules)
    #: where the supervisor itself answers for its health; port 0: nowhere
    health_port: int = 0
    health_host: str = "127.0.0.1"
    #: the drivers' output goes where ours goes, instead of into files
    console: bool = False


def supervise(wanted: Wanted) -> bool:
    """Keep the drivers running until asked to stop.

    Returns:
        Whether all that ran at the stop drained in time. False also if every driver was given up,
        which ends the supervisor by itself.

    Raises:
        ServerError: another supervisor has the folder, or the health port cannot be had.
    """
    with ExitStack() as stack:
        folder = wanted.folder.resolve()
        stack.enter_context(FolderLock(folder, wait_s=0))
        supervisor = _Supervisor(wanted, folder)
        stack.callback(supervisor.close)
        if wanted.health_port:
            pulse = supervisor.teller.pulse
            stack.enter_context(answering(pulse, wanted.health_port, wanted.health_host))
        stack.enter_context(_signals(supervisor.events))
        return supervisor.run()


@contextmanager
def _signals(events: queue.SimpleQueue[Event | _Found]) -> Iterator[None]:
    meaning: dict[int, Event] = {
        signal.SIGTERM: StopAsked(),
        signal.SIGINT: StopAsked(),
        signal.SIGHUP: RollAsked(),
        signal.SIGCHLD: Tick(),
    }
    had_terminal = os.isatty(sys.stderr.fileno())

    def handler(number: int, _: FrameType | None) -> None:
        # SimpleQueue.put may be interrupted by itself, which is what a signal handler needs.
        if number == signal.SIGHUP and had_terminal and _terminal_is_gone():
            events.put(StopAsked())
        else:
            events.put(meaning[number])

    before = {number: signal.signal(number, handler) for number in meaning}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _terminal_is_gone() -> bool:
    """Whether our terminal was closed; if so, whatever is said from now on goes nowhere."""
    if os.isatty(sys.stderr.fileno()):
        return False
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return True


@dataclass(frozen=True, slots=True)
class _Found:
    """What the prober found about a process, which may be another one by now."""

    pid: int
    event: Found


class _Supervisor:
    """Obeys `decide`."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.events: queue.SimpleQueue[Event | _Found] = queue.SimpleQueue()
        self._wanted, self._folder = wanted, folder
        self._names = [f"{wanted.name}-{index}" for index in range(wanted.drivers)]
        self._logs = [
            None if wanted.console else DriverLog(folder / "logs" / f"{index}.log")
            for index in range(wanted.drivers)
        ]
        self._processes: dict[int, DriverProcess] = {}
        self._running: dict[int, Running] = {}
        paths = [None if driver_log is None else driver_log.path for driver_log in self._logs]
        self.teller = FleetPublisher(wanted.name, self._names, paths, folder)
        self._prober = Prober(lambda pid, event: self.events.put(_Found(pid, event)))
        self._clean = True
        self._rotate_at_s = 0.0
        self._state, self._first = begin(wanted.drivers, wanted.rules, time.monotonic())

    def close(self) -> None:
        """Leave no driver behind, whatever went wrong."""
        self._prober.close()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            while process.ended() is None:
                time.sleep(0.01)

    def run(self) -> bool:
        """Turn until everything has ended."""
        count = end_leftovers(self._folder, self._wanted.rules.drain_s)
        if count:
            log.warning("an earlier supervisor's drivers were waited for", processes=count)
        self._obey(self._first)
        self._tell()
        while not self._state.ended:
            self._take(self._next())
            self._look_at_processes()
            self._take(Tick())
            self._tell()
        given_up = [driver for driver in self._state.drivers if driver.phase is Phase.GIVEN_UP]
        return self._clean and len(given_up) < len(self._names)

    def _tell(self) -> None:
        now_s = time.monotonic()
        self.teller.tell(self._state, self._running, now_s)
        if now_s >= self._rotate_at_s:
            self._rotate_at_s = now_s + _ROTATE_EVERY_S
            for driver_log in self._logs:
                if driver_log is not None:
                    driver_log.rotate()

    def _next(self) -> Event:
        try:
            found = self.events.get(timeout=TICK_S)
        except queue.Empty:
            return Tick()
        if not isinstance(found, _Found):
            return found
        process = self._processes.get(found.event.index)
        return found.event if process is not None and process.pid == found.pid else Tick()

    def _take(self, event: Event) -> None:
        if isinstance(event, RollAsked):
            self.teller.roll_asked()
        before, now_s = self._state, time.monotonic()
        self._state, actions = decide(before, event, now_s)
        self.teller.changed(before, self._state, now_s)
        self._obey(actions)

    def _obey(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                self._start(action.index)
                continue
            self._prober.forget(action.index)
            # One that could not be started has no process; that it ended is in the queue.
            process = self._processes.get(action.index)
            if process is None:
                continue
            if isinstance(action, Drain):
                process.drain()
            else:
                process.tell_where()
                process.kill()
                self._clean = self._clean and not self._state.stopping

    def _start(self, index: int) -> None:
        port = _free_port()
        command = self._wanted.command(self._names[index], port)
        try:
            process = DriverProcess(command, self._logs[index], self._folder)
        except ServerError as error:
            self.events.put(Exited(index, None, str(error), random.random()))  # noqa: S311
            return
        self._processes[index], self._running[index] = process, Running(process.pid, port)
        self._prober.watch(index, process.pid, port)

    def _look_at_processes(self) -> None:
        for index, process in list(self._processes.items()):
            code = process.ended()
            if code is None:
                continue
            del self._processes[index], self._running[index]
            self._prober.forget(index)
            if self._state.stopping and code not in {0, -signal.SIGTERM}:
                self._clean = False
            chance = random.random()  # noqa: S311 - it spreads restarts
            self._take(Exited(index, code, self._why(index, code), chance))
        reap_orphans([process.pid for process in self._processes.values()])

    def _why(self, index: int, code: int) -> str:
        written = self._logs[index]
        tail = written.tail() if written is not None else ""
        return f"{told(code)}; its last lines:\n{tail}" if tail else told(code)


def _free_port() -> int:
    """A port of 127.0.0.1; should somebody else take it first, the driver is started again."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])
