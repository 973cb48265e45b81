"""What a supervisor lets others know: log, state file, health, systemd.

One place turns the state into words, so that all four say the same. It decides nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.fleet import state_file
from headrace.fleet.health import Pulse
from headrace.fleet.notify import Systemd
from headrace.fleet.state_file import DriverView, FleetView
from headrace.fleet.states import FleetState, Phase

log = structlog.get_logger(__name__)

#: between two lines while drivers end
_TELL_EVERY_S = 3.0


@dataclass(frozen=True, slots=True)
class Running:
    """The process of a driver, as others are told of it."""

    pid: int
    health_port: int


class FleetPublisher:
    """Tells what changed, and that the supervisor lives."""

    def __init__(
        self, name: str, names: Sequence[str], logs: Sequence[Path | None], folder: Path
    ) -> None:
        """For a supervisor ``name`` of drivers ``names``, whose output goes to ``logs``."""
        self.pulse = Pulse(name)
        self._name, self._names, self._logs, self._folder = name, names, logs, folder
        self._systemd = Systemd()
        self._epoch_s = time.time() - time.monotonic()
        self._rolls = 0
        self._reloading = False
        self._was_ready = False
        self._written: FleetView | None = None
        self._say_at_s = 0.0

    def roll_asked(self) -> None:
        """A roll begins."""
        self._rolls += 1
        self._reloading = True
        self._systemd.reloading()
        log.info("roll asked")

    def changed(self, before: FleetState, after: FleetState, now_s: float) -> None:
        """Log what became of whom; ``now_s`` is monotonic."""
        for name, old, new in zip(self._names, before.drivers, after.drivers, strict=True):
            if new.phase is old.phase:
                continue
            match new.phase:
                case Phase.GIVEN_UP:
                    log.error("driver given up", driver=name, why=new.error)
                case Phase.FAILED:
                    again_in_s = round(new.due_s - now_s, 1)
                    log.warning("driver ended", driver=name, why=new.error, again_in_s=again_in_s)
                case Phase.KILLED:
                    log.warning("driver killed", driver=name, why=new.error)
                case Phase.WAITING:
                    why = " and ".join(f"no {missing.what}" for missing in new.missing)
                    log.warning("driver waits", driver=name, why=why)
                case _:
                    log.info(f"driver {new.phase}", driver=name)
        if before.in_roll and not after.in_roll and not after.stopping:
            if after.roll_error:
                log.error("roll stopped", why=after.roll_error)
            else:
                log.info("roll done")

    def tell(self, state: FleetState, running: Mapping[int, Running], now_s: float) -> None:
        """Say how things are; called in every turn, so it says most of it only on a change."""
        count = sum(driver.phase is Phase.READY for driver in state.drivers)
        text = f"{count} of {len(self._names)} drivers ready"
        view = self._view(state, running)
        facts = {driver.name: driver.state for driver in view.drivers}
        self.pulse.turned(ready=count > 0 and not state.stopping, facts={"drivers": facts})
        if view != self._written:
            self._written = view
            state_file.write(self._folder, view)
            self._tell_systemd(state, text, ready=count > 0)
        self._systemd.status(text)
        self._systemd.alive(now_s)
        self._tell_waiting(state, now_s)

    def _tell_waiting(self, state: FleetState, now_s: float) -> None:
        """Drivers write into files, so whoever has asked for their end would see nothing."""
        if state.stopping and now_s < self._say_at_s:
            return
        self._say_at_s = now_s + _TELL_EVERY_S
        named = zip(self._names, state.drivers, strict=True)
        running = [name for name, driver in named if driver.running]
        if state.stopping and running:
            log.info("waits for drivers to end", why=", ".join(running))

    def _tell_systemd(self, state: FleetState, text: str, *, ready: bool) -> None:
        rolled = self._reloading and not state.in_roll
        if state.stopping:
            self._systemd.stopping(text)
        elif rolled or (ready and not self._was_ready):
            self._was_ready, self._reloading = True, False
            self._systemd.ready(text)

    def _view(self, state: FleetState, running: Mapping[int, Running]) -> FleetView:
        return FleetView(
            name=self._name,
            pid=os.getpid(),
            state="stopping" if state.stopping else "running",
            rolls=self._rolls,
            rolling=state.in_roll,
            roll_error=state.roll_error,
            drivers=tuple(
                self._driver_view(state, index, running.get(index))
                for index in range(len(self._names))
            ),
        )

    def _driver_view(self, state: FleetState, index: int, running: Running | None) -> DriverView:
        driver, written = state.drivers[index], self._logs[index]
        return DriverView(
            name=self._names[index],
            state=str(driver.phase),
            pid=None if running is None else running.pid,
            since_s=round(self._epoch_s + driver.since_s),
            restarts=driver.restarts,
            error=driver.error,
            health_port=None if running is None else running.health_port,
            log=None if written is None else str(written),
            missing=driver.missing,
        )
