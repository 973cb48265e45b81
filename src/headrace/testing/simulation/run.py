"""One seed, from its first draw to its verdict."""

from __future__ import annotations

import math
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import structlog
from sqlalchemy import text

from headrace.connectors.sql.guests import in_sql
from headrace.ports import Store
from headrace.sinks import SqlTable
from headrace.spark import task
from headrace.store import open_store
from headrace.testing.memory_store import MemoryStore
from headrace.testing.simulation.actors import Killed
from headrace.testing.simulation.judge import judge
from headrace.testing.simulation.lives import Make
from headrace.testing.simulation.odds import odds_text
from headrace.testing.simulation.play import play
from headrace.testing.simulation.settling import settle
from headrace.testing.simulation.sinks import COLUMNS, MemoryTable
from headrace.testing.simulation.world import World

ACTIONS = 150
MEMORY, SQLITE = "memory", "sqlite"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run."""

    seed: int
    #: what is wrong; empty is right
    wrong: tuple[str, ...] = ()
    #: what happened how often
    counts: Counter[str] = field(default_factory=Counter)
    #: how often some faults came, whatever else was drawn
    odds: Mapping[str, float] = field(default_factory=dict)
    #: how much happened before the faults stopped
    actions: int = ACTIONS
    #: on which store, as the command has it
    store: str = MEMORY

    @property
    def command(self) -> str:
        """Replays this run."""
        given = f" --odds {odds_text(self.odds)}" if self.odds else ""
        given += f" --actions {self.actions}" if self.actions != ACTIONS else ""
        given += f" --store {self.store}" if self.store != MEMORY else ""
        return f"python -m headrace.testing.simulation --seed {self.seed}{given} --trace"

    def __str__(self) -> str:
        if not self.wrong:
            return f"seed {self.seed}: nothing wrong"
        return f"seed {self.seed}: {'; '.join(self.wrong)}\n    {self.command}"


def in_memory() -> Make:
    """The store in memory, with a table in it."""
    return Make(MemoryStore, MemoryTable, lambda store, name: store.rows(name))  # type: ignore[attr-defined]


def on_sqlite(folder: Path) -> Make:
    """The real store and the real table, in a new file of a folder for each run.

    It is slower by far; a folder in memory, such as ``/dev/shm``, spares the disk.
    """

    def opened() -> Store:
        path = folder / f"{uuid.uuid4().hex}.db"
        path.write_bytes(_empty_store())
        return open_store(f"sqlite:///{path}")

    def rows(store: Store, name: str) -> Sequence[Any]:
        with in_sql(store.positions).begin() as connection:
            return connection.execute(text(f"SELECT * FROM {name}")).mappings().all()  # noqa: S608

    return Make(opened, lambda name: SqlTable(name, COLUMNS), rows)


@cache
def _empty_store() -> bytes:
    """A store to copy: to make its tables takes longer than a run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        open_store(f"sqlite:///{path}").close()
        return path.read_bytes()


def simulate(
    seed: int,
    make: Make | None = None,
    *,
    actions: int = ACTIONS,
    tell: Callable[[str], None] | None = None,
    odds: Mapping[str, float] | None = None,
) -> Outcome:
    """Play one run and judge it.

    Args:
        seed: draws everything.
        make: other parts than the fakes, such as one with a planted fault.
        actions: how much happens before the faults stop.
        tell: told of everything that happens, line by line.
        odds: how often some faults come, whatever else is drawn; a seed draws the same beside them.
    """
    given = odds or {}
    with _small_portions():
        # No secret depends on it; the same seed must play the same run.
        world = World(Random(seed), make or in_memory(), tell, given)  # noqa: S311
        try:
            play(world, actions)
            wrong = settle(world) or judge(world)
        except (Exception, Killed) as error:  # whatever it is, it is a finding with a seed
            where = traceback.format_exc() if tell else traceback.format_exc(-3)
            wrong = [f"{type(error).__name__}: {error}\n{where}"]
        finally:
            world.store.close()
    world.counts["waves"] = world.cluster.waves
    world.counts["waves read again"] = world.cluster.read_again
    world.counts["waves read otherwise"] = world.cluster.read_otherwise
    world.counts["seeds failed" if wrong else "seeds passed"] = 1
    return Outcome(seed, tuple(wrong), world.counts, given, actions)


@contextmanager
def _small_portions() -> Iterator[None]:
    """Let everything come in many small parts, none of them cut by real seconds."""
    wanted = {"BATCH_RECORDS": 3, "GROUP_RECORDS": 4, "GROUP_S": math.inf, "patience_s": _for_ever}
    before = {name: getattr(task, name) for name in wanted}
    for name, value in wanted.items():
        setattr(task, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(task, name, value)


def _for_ever(predicted_s: float, timeout_s: float, *, shared: bool) -> float:
    """A machine that is busy makes any call slow, and would make the run another one."""
    del predicted_s, timeout_s, shared
    return math.inf


@contextmanager
def silent() -> Iterator[None]:
    """No log lines of the drivers: there would be millions."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.configure(**before)
