"""What a supervisor knows, in a file for other commands to read.

``headrace fleet status`` and ``headrace roll`` are other processes, and should work also when the
supervisor is stuck. So after each change it writes everything that is worth knowing into one JSON
file, whole or not at all. Whether the supervisor lives is not in the file, which would be a lie
after a kill; its lock on the folder says that.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ConfigError, ServerError
from headrace.model.statistics import Missing

_FILE = "fleet.json"


@dataclass(frozen=True, slots=True)
class DriverView:
    """One driver, for people."""

    name: str
    state: str
    #: of its process; None if there is none
    pid: int | None
    #: seconds since 1970 at which it came into this state
    since_s: float
    restarts: int
    #: why it last ended without being asked
    error: str
    #: where it answers for its health, on 127.0.0.1
    health_port: int | None
    log: str | None
    #: servers that it says it is without
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetView:
    """A supervisor and its drivers, for people."""

    name: str
    pid: int
    #: running, stopping
    state: str
    #: rolls that were begun, and whether the last one is under way
    rolls: int
    rolling: bool
    #: why the last one did not come to its end; empty if it did
    roll_error: str
    drivers: tuple[DriverView, ...]


def write(folder: Path, view: FleetView) -> None:
    """Leave the state for other commands; a full disk is no reason to stop drivers."""
    whole, part = folder / _FILE, folder / f"{_FILE}.part"
    with contextlib.suppress(OSError):
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(view), file, indent=1)
            file.write("\n")
        part.replace(whole)


def read(folder: Path) -> FleetView | None:
    """The state that the supervisor of ``folder`` last left; None if there never was one.

    Raises:
        ConfigError: the file is not one of ours.
    """
    path = folder / _FILE
    try:
        found = json.loads(path.read_text("utf-8"))
        drivers = tuple(_driver(item) for item in found.pop("drivers"))
        return FleetView(**found, drivers=drivers)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc


def _driver(found: dict[str, Any]) -> DriverView:
    missing = tuple(Missing(**item) for item in found.pop("missing", ()))
    return DriverView(**found, missing=missing)


def lives(folder: Path) -> bool:
    """Whether a supervisor holds ``folder``."""
    if not folder.is_dir():
        return False
    try:
        FolderLock(folder, wait_s=0).close()
    except ServerError:
        return True
    return False
