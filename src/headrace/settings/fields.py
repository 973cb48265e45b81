"""The kinds of values that settings have: durations, sizes, folders, properties.

People write ``10s`` and ``64m``; code wants seconds and bytes. A number without a unit is refused,
since nobody can say what it meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field

from headrace.connectors.local_files import is_url
from headrace.errors import ConfigError
from headrace.model.starting import read_starting

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_SIZE = re.compile(r"(\d+)\s*(b|k|m|g)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


#: begins what stands for a value that the environment lacks; its name follows
UNSET = "\0"


def refuse_unset(where: str, properties: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` for a value that the environment was to have and lacks."""
    for key, value in properties.items():
        if value.startswith(UNSET):
            name = value.removeprefix(UNSET)
            raise ConfigError(
                f"{where}: {key}: ${{{name}}} is used, but the environment has no such name"
            )


def seconds_of(value: object) -> float:
    """A duration such as ``250ms``, in seconds; ``ValueError`` for anything else."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration looks like 10s, 250ms, 5m or 1h")
    return float(match.group(1)) * _SECONDS[match.group(2)]


def bytes_of(value: object) -> int:
    """A size such as ``64m``, in bytes; ``ValueError`` for anything else."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a size looks like 64m, 512k or 1g")
    return int(match.group(1)) * _BYTES[(match.group(2) or "b").lower()]


def _folder(value: object) -> object:
    if isinstance(value, str | Path) and is_url(str(value)):
        # Only its scheme is told: the rest may hold a password.
        raise ValueError(
            f"a URL ({str(value).partition(':')[0].strip()}:...) is no folder; give the absolute "
            "path of a folder on a file system which driver and executors share, such as "
            "/mnt/shared/warehouse"
        )
    return value


def _text(value: object) -> object:
    """YAML reads ``true`` and ``5`` as it likes; client properties are text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _beginning(value: object) -> object:
    """YAML reads a time and a mapping as such; in the store it is the text of either."""
    if isinstance(value, dict):
        value = json.dumps({str(topic): _lanes(lanes) for topic, lanes in value.items()})
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        read_starting(value)
    return value


def _lanes(value: object) -> object:
    if isinstance(value, dict):
        return {str(lane): _lanes(at) for lane, at in value.items()}
    return value if isinstance(value, int | float | None) else str(value)


Beginning = Annotated[str, BeforeValidator(_beginning)]
Seconds = Annotated[float, BeforeValidator(seconds_of), Field(gt=0)]
Bytes = Annotated[int, BeforeValidator(bytes_of), Field(gt=0)]
#: of the operating system; a path made of a URL would be a folder named like its scheme
Folder = Annotated[Path, BeforeValidator(_folder)]
Properties = dict[str, Annotated[str, BeforeValidator(_text)]]


#: of every section of the YAML file: typed, read-only, and no unknown keys
STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True)
