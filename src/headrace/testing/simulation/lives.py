"""A driver's process in a simulation, and what a test can put in place of the real parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cycle.driver import Driver
from headrace.ports import Sink, Store
from headrace.testing.simulation.actors import Actor
from headrace.testing.simulation.cluster import Engine


@dataclass(eq=False, slots=True)
class Life:
    """A driver's process."""

    name: str
    actor: Actor
    driver: Driver
    engine: Engine
    #: it is inside a turn, asleep
    turning: bool = False
    #: when its last turn began
    turned_s: float = 0.0
    #: it does nothing before this monotonic second
    asleep_until_s: float = 0.0
    #: somebody else has its name or its streams, and it may not know
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Make:
    """What a test can put in place of the real parts."""

    store: Callable[[], Store]
    #: a table of a name, and what is in it at the end
    table: Callable[[str], Sink]
    rows: Callable[[Store, str], Sequence[Any]]
    engine: type[Engine] = Engine
    driver: type[Driver] = Driver
