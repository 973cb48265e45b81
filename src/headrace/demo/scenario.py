"""What happens to tenants while the demo runs, as a list of decisions.

Each event is due when a share of the visits has been sent. Those that happened are remembered in
the demo's folder, so that a demo that was killed goes on where it was: an event may be applied
twice by a kill in between, and applying it twice changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.demo.visits import GUEST, TENANTS
from headrace.errors import ConfigError
from headrace.model.streams import State, Tenant
from headrace.ports import Registry

KAFKA, KINESIS = "Kafka", "Kinesis"
Action = Literal["add", "suspend", "resume", "remove"]

#: added while the demo runs; the others are there from the start
LATE = "articles"
#: removed while the demo runs
REMOVED = "files"
SUSPENDED = "blog"


#: whose visits the demo makes wait, and how; their delays say nothing of the others
HELD = {
    SUSPENDED: "the demo suspends it for a while, on purpose: its visits wait",
    LATE: "the demo adds it late, on purpose: its first visits wait",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing an operator does."""

    name: str
    #: due when this share of all visits has been sent
    at_share: float
    action: Action
    tenant: str

    def __str__(self) -> str:
        return f"{self.action} {self.tenant}"


EVENTS = (
    *(Event(f"start-{name}", 0.0, "add", name) for name in (*TENANTS, GUEST) if name != LATE),
    Event("late", 0.25, "add", LATE),
    Event("pause", 0.35, "suspend", SUSPENDED),
    Event("go-on", 0.60, "resume", SUSPENDED),
    Event("leave", 0.75, "remove", REMOVED),
)


def opening(*, with_guest: bool = True) -> list[str]:
    """What is told before the visits are sent, so that the numbers that follow are understood."""
    yours = f", and yours as {GUEST}" if with_guest else ""
    act = f"First act: 10,000 real visits of {len(TENANTS)} tenants{yours}"
    delays = (
        "the first delays are those of visits that waited for Spark to start, and those after "
        f"{SUSPENDED} is resumed of its visits that waited meanwhile"
    )
    avro = (
        "all are Avro, by schemas in a registry that runs here; in the middle their producer "
        "registers a second version"
    )
    if with_guest:
        avro += ", by which the gateway writes what comes to it as JSON"
    return [
        f"{act}; each has three streams, for scores, mails and files, and one for each table",
        f"{delays}; delays are shown over the last minute",
        avro,
    ]


def due(share: float, done: Collection[str], *, with_guest: bool = True) -> list[Event]:
    """The events to apply now, in their order."""
    its = (event for event in EVENTS if with_guest or event.tenant != GUEST)
    return [event for event in its if event.at_share <= share and event.name not in done]


def apply(event: Event, registry: Registry) -> None:
    """Do what the event says; nothing if a demo that was killed had done it already."""
    states = {tenant.name: tenant.state for tenant in registry.tenants()}
    if event.action == "add":
        if event.tenant not in states:
            registry.add_tenant(Tenant(event.tenant))
        return
    wanted = {"suspend": State.SUSPENDED, "resume": State.ACTIVE, "remove": State.REMOVED}
    if states[event.tenant] is not wanted[event.action]:
        registry.set_tenant_state(event.tenant, wanted[event.action])


@dataclass(slots=True)
class Journal:
    """Which events happened, and whether the demo came to its end; kept in one small file."""

    path: Path
    done: list[str]
    verified: bool = False
    #: the log that the visits go through
    log: str = KAFKA

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal of an earlier run, or a new one.

        Raises:
            ConfigError: the file is there and is no journal.
        """
        if not path.exists():
            return cls(path, [])
        try:
            data = json.loads(path.read_text("utf-8"))
            log = str(data.get("log", KAFKA))
            return cls(path, list(data["done"]), bool(data["verified"]), log)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise ConfigError(
                f"{path} cannot be read; start afresh with 'headrace demo --fresh'"
            ) from exc

    def write(self) -> None:
        """Replace the file in one step, so that a kill leaves the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        with draft.open("w", encoding="utf-8") as file:
            told = {"done": self.done, "verified": self.verified, "log": self.log}
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
