"""JSON pointers (RFC 6901): a place within a JSON value, as text such as ``/lead/id``.

Settings and use cases name places with them, and faults of events tell with them what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def pointed(value: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) leads to; ``KeyError`` if it leads nowhere."""
    for raw in pointer.split("/")[1:]:
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise KeyError(pointer)
    return value


def pointer_of(path: Iterator[str | int]) -> str:
    """A path as a JSON pointer."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
