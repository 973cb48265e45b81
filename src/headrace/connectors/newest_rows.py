"""What may be columns of sinks that keep the newest row of each key: of whatever target.

What else a target cannot take is the sink's own to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headrace.connectors.columns import demand_kind
from headrace.connectors.newest import VERSION

_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
#: kinds of which no two values are the same text
_OF_KEYS: Final = ("text", "bigint", "date")


def kinds_problem(columns: Mapping[str, str]) -> str | None:
    """Which column is of no kind, and why; None if all are of one."""
    for name, kind in columns.items():
        try:
            demand_kind(kind, VERSION)
        except ValueError as error:
            return f"column {name!r}: {error}"
    return None


def text_key_problem(columns: Mapping[str, str], key: tuple[str, ...]) -> str | None:
    """Why no row can have a text for a key, of these columns; None if each can."""
    for name, kind in columns.items():
        if not _COLUMN.fullmatch(name):
            return f"{name!r} is no name: use lower-case letters, digits and underscores"
        if problem := kinds_problem({name: kind}):
            return problem
    for name in key:
        if columns.get(name) not in _OF_KEYS:
            return f"key names {name!r}, which is no column of {', '.join(_OF_KEYS)}"
    return None if key else "it needs a key"
