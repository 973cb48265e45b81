"""The nouns of supervision: what a driver may be doing, what may happen, what may be done.

All frozen, and without a clock, so that a decision can be tested as a value. Each event and each
action is a class of its own, and the two unions are closed: whoever adds one is told by the type
checker who has to know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from headrace.model.statistics import Missing

#: a driver's exit code for a wrong call or configuration: it would end the same way again
EXIT_CONFIG = 2
#: a driver's exit code for what may work later (EX_TEMPFAIL of sysexits.h)
EXIT_TEMPORARY = 75


class Phase(StrEnum):
    """Where a driver is in its life."""

    STARTING = "starting"
    READY = "ready"
    #: it has been ready, and is without its store or Kafka for a while; it goes on by itself
    WAITING = "waiting"
    #: asked to end; what it has in flight may end first
    DRAINING = "draining"
    #: killed, and its end not seen yet
    KILLED = "killed"
    #: not running; started again when its wait is over
    FAILED = "failed"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


#: the phases in which there is a process
RUNNING = frozenset({Phase.STARTING, Phase.READY, Phase.WAITING, Phase.DRAINING, Phase.KILLED})
#: those in which nobody has asked it to end
MEANT_TO_RUN = frozenset({Phase.STARTING, Phase.READY, Phase.WAITING})


@dataclass(frozen=True, slots=True)
class RestartRules:
    """How patient a supervisor is."""

    #: wait after a first failure
    first_wait_s: float = 1.0
    #: and the longest one
    longest_wait_s: float = 60.0
    #: ready for so long, and earlier failures are forgotten
    healthy_after_s: float = 300.0
    #: so many failures ...
    most_failures: int = 8
    #: ... in so long, and a driver is given up
    window_s: float = 900.0
    #: how long a drain may take before the driver is killed
    drain_s: float = 60.0


@dataclass(frozen=True, slots=True)
class DriverState:
    """One driver, as its supervisor knows it."""

    phase: Phase
    #: when it came into this phase
    since_s: float
    #: FAILED: when it is started again; DRAINING: when it is killed
    due_s: float = inf
    #: failures since it was last healthy
    streak: int = 0
    #: when it failed, within the window
    failures_s: tuple[float, ...] = ()
    #: starts after the first
    restarts: int = 0
    #: why it last ended without being asked
    error: str = ""
    #: it ends for a roll, and is started again at once
    rolled: bool = False
    #: servers that it says it is without
    missing: tuple[Missing, ...] = ()

    @property
    def running(self) -> bool:
        """Whether there is a process."""
        return self.phase in RUNNING


@dataclass(frozen=True, slots=True)
class FleetState:
    """All drivers of a supervisor; a driver's index is its name."""

    rules: RestartRules
    drivers: tuple[DriverState, ...]
    stopping: bool = False
    #: drivers that still run the old version, in the order in which they are replaced
    to_roll: tuple[int, ...] = ()
    #: the one that is being replaced
    rolling: int | None = None
    #: why the last roll did not come to its end
    roll_error: str = ""

    @property
    def ended(self) -> bool:
        """Nothing runs, and nothing will be started."""
        if any(driver.running for driver in self.drivers):
            return False
        return self.stopping or all(driver.phase is Phase.GIVEN_UP for driver in self.drivers)

    @property
    def in_roll(self) -> bool:
        """Whether a roll is under way."""
        return self.rolling is not None or bool(self.to_roll)


@dataclass(frozen=True, slots=True)
class Ready:
    """A driver has joined and observed, or has its servers again."""

    index: int


@dataclass(frozen=True, slots=True)
class Lacks:
    """A driver runs, and is without these servers for a while; none: there is an answer again."""

    index: int
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class Exited:
    """A driver's process is gone, or could not be started."""

    index: int
    #: exit code, negative for a signal, None if it could not be started
    code: int | None
    #: for people
    error: str
    #: 0 to 1, to spread restarts
    chance: float


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """A driver runs but does not work."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody wants all to end; asked twice, at once."""


@dataclass(frozen=True, slots=True)
class RollAsked:
    """Somebody wants all replaced, one at a time."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Event = Ready | Lacks | Exited | Unhealthy | StopAsked | RollAsked | Tick


@dataclass(frozen=True, slots=True)
class Start:
    """Start the process of a driver."""

    index: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask a driver to end when what it has in flight has ended."""

    index: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End a driver and all its processes at once."""

    index: int


Action = Start | Drain | Kill
Decision = tuple[FleetState, tuple[Action, ...]]
