"""The loop of a supervisor: what happened goes to `decide`, and what comes back is done.

Signals, ended processes and the answers of the prober become events in one queue; a signal handler
does nothing else. Everything is done in the main thread, which is also the one that starts drivers
(`leash.py` says why that matters).

- SIGTERM and SIGINT drain all drivers; a second one ends them at once.
- SIGHUP replaces the drivers, one at a time.
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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError
from headrace.fleet import state_file
from headrace.fleet.decide import begin, decide
from headrace.fleet.health import Pulse, answering
from headrace.fleet.logs import DriverLog
from headrace.fleet.notify import Systemd
from headrace.fleet.probe import Prober
from headrace.fleet.process import DriverProcess, end_leftovers, reap_orphans, told
from headrace.fleet.state_file import DriverView, FleetView
from headrace.fleet.states import (
    Action,
    Drain,
    Event,
    Exited,
    FleetState,
    Kill,
    Phase,
    Ready,
    RollAsked,
    Rules,
    Start,
    StopAsked,
    Tick,
    Unhealthy,
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
    rules: Rules = field(default_factory=Rules)
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
        pulse = Pulse(wanted.name)
        if wanted.health_port:
            stack.enter_context(answering(pulse, wanted.health_port, wanted.health_host))
        supervisor = _Supervisor(wanted, folder, pulse)
        stack.enter_context(_signals(supervisor.events))
        stack.callback(supervisor.close)
        return supervisor.run()


@contextmanager
def _signals(events: queue.SimpleQueue[Event | _Found]) -> Iterator[None]:
    meaning: dict[int, Event] = {
        signal.SIGTERM: StopAsked(),
        signal.SIGINT: StopAsked(),
        signal.SIGHUP: RollAsked(),
        signal.SIGCHLD: Tick(),
    }
    # SimpleQueue.put may be interrupted by itself, which is what a signal handler needs.
    before = {
        number: signal.signal(number, lambda given, _: events.put(meaning[given]))
        for number in meaning
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the prober found about a process, which may be another one by now."""

    pid: int
    event: Ready | Unhealthy


class _Supervisor:
    """Obeys `decide`."""

    def __init__(self, wanted: Wanted, folder: Path, pulse: Pulse) -> None:
        self.events: queue.SimpleQueue[Event | _Found] = queue.SimpleQueue()
        self._wanted, self._folder, self._pulse = wanted, folder, pulse
        self._names = [f"{wanted.name}-{index}" for index in range(wanted.drivers)]
        self._logs = [
            None if wanted.console else DriverLog(folder / "logs" / f"{index}.log")
            for index in range(wanted.drivers)
        ]
        self._processes: dict[int, DriverProcess] = {}
        self._ports: dict[int, int] = {}
        self._systemd = Systemd()
        self._prober = Prober(lambda pid, event: self.events.put(_Found(pid, event)))
        self._rolls = 0
        self._clean = True
        self._was_ready = False
        self._reloading = False
        self._rotate_at_s = 0.0
        self._written: FleetView | None = None
        self._state, self._first = begin(wanted.drivers, wanted.rules, time.monotonic())

    def close(self) -> None:
        """Leave no driver behind, whatever went wrong."""
        self._prober.close()
        for each in self._processes.values():
            each.kill()
        for each in self._processes.values():
            while each.ended() is None:
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
        given_up = [
            name
            for name, each in zip(self._names, self._state.drivers, strict=True)
            if each.phase is Phase.GIVEN_UP
        ]
        return self._clean and len(given_up) < len(self._names)

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
            self._rolls += 1
            self._reloading = True
            self._systemd.reloading()
            log.info("roll asked")
        before = self._state
        self._state, actions = decide(before, event, time.monotonic())
        self._log_changes(before)
        self._obey(actions)

    def _obey(self, actions: Sequence[Action]) -> None:
        for each in actions:
            match each:
                case Start(index):
                    self._start(index)
                case Drain(index):
                    self._prober.forget(index)
                    self._processes[index].drain()
                case Kill(index):
                    self._prober.forget(index)
                    self._processes[index].kill()
                    self._clean = self._clean and not self._state.stopping

    def _start(self, index: int) -> None:
        port = _free_port()
        command = self._wanted.command(self._names[index], port)
        try:
            process = DriverProcess(command, self._logs[index], self._folder)
        except ServerError as error:
            self.events.put(Exited(index, None, str(error), random.random()))  # noqa: S311
            return
        self._processes[index], self._ports[index] = process, port
        self._prober.watch(index, process.pid, port)

    def _look_at_processes(self) -> None:
        for index, process in list(self._processes.items()):
            code = process.ended()
            if code is None:
                continue
            del self._processes[index], self._ports[index]
            self._prober.forget(index)
            if self._state.stopping and code not in {0, -signal.SIGTERM}:
                self._clean = False
            chance = random.random()  # noqa: S311 - it spreads restarts
            self._take(Exited(index, code, self._why(index, code), chance))
        reap_orphans([each.pid for each in self._processes.values()])

    def _why(self, index: int, code: int) -> str:
        written = self._logs[index]
        tail = written.tail() if written is not None else ""
        return f"{told(code)}; its last lines:\n{tail}" if tail else told(code)

    def _log_changes(self, before: FleetState) -> None:
        for name, old, new in zip(self._names, before.drivers, self._state.drivers, strict=True):
            if new.phase is old.phase:
                continue
            match new.phase:
                case Phase.GIVEN_UP:
                    log.error("driver given up", driver=name, why=new.error)
                case Phase.FAILED:
                    wait_s = round(new.due_s - time.monotonic(), 1)
                    log.warning("driver ended", driver=name, why=new.error, again_in_s=wait_s)
                case Phase.KILLED:
                    log.warning("driver killed", driver=name, why=new.error)
                case _:
                    log.info(f"driver {new.phase}", driver=name)
        if before.in_roll and not self._state.in_roll and not self._state.stopping:
            if self._state.roll_error:
                log.error("roll stopped", why=self._state.roll_error)
            else:
                log.info("roll done")

    def _tell(self) -> None:
        now_s = time.monotonic()
        count = sum(each.phase is Phase.READY for each in self._state.drivers)
        text = f"{count} of {len(self._names)} drivers ready"
        stopping = self._state.stopping
        view = self._view()
        facts = {each.name: each.state for each in view.drivers}
        self._pulse.turned(ready=count > 0 and not stopping, facts={"drivers": facts})
        if view != self._written:
            state_file.write(self._folder, view)
            self._tell_systemd(text, ready=count > 0)
            self._written = view
        self._systemd.status(text)
        self._systemd.alive(now_s)
        if now_s >= self._rotate_at_s:
            self._rotate_at_s = now_s + _ROTATE_EVERY_S
            for each in self._logs:
                if each is not None:
                    each.rotate()

    def _tell_systemd(self, text: str, *, ready: bool) -> None:
        rolled = self._reloading and not self._state.in_roll
        if self._state.stopping:
            self._systemd.stopping(text)
        elif rolled or (ready and not self._was_ready):
            self._was_ready, self._reloading = True, False
            self._systemd.ready(text)

    def _view(self) -> FleetView:
        state = "running" if self._was_ready else "starting"
        return FleetView(
            name=self._wanted.name,
            pid=os.getpid(),
            state="stopping" if self._state.stopping else state,
            rolls=self._rolls,
            rolling=self._state.in_roll,
            roll_error=self._state.roll_error,
            drivers=tuple(self._driver_view(index) for index in range(len(self._names))),
        )

    def _driver_view(self, index: int) -> DriverView:
        driver, process = self._state.drivers[index], self._processes.get(index)
        written = self._logs[index]
        return DriverView(
            name=self._names[index],
            state=str(driver.phase),
            pid=None if process is None else process.pid,
            since_s=round(time.time() - (time.monotonic() - driver.since_s)),
            restarts=driver.restarts,
            error=driver.error,
            health_port=self._ports.get(index),
            log=None if written is None else str(written.path),
        )


def _free_port() -> int:
    """A port of 127.0.0.1; should somebody else take it first, the driver is started again."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])
