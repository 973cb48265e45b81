"""A mirror of positions in memory, with accidents.

That a slow or broken mirror disturbs nobody is tested without a broker. So the fake keeps what it
was shown, and can be told to fail or to take its time. Nothing expires in it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.model.places import Place


@dataclass(slots=True)
class MemoryMirror:
    """``headrace.ports.PositionsMirror`` in memory.

    Attributes:
        shown: next offsets by use case.
        calls: everything it was ever told, in order.
        looks: lanes that it was asked about, in order.
        troubles: errors that calls for a use case end with, as long as they are here.
        free: cleared, every call waits until it is set.
        missing: partitions that are not there.
    """

    shown: dict[str, dict[str, Place]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Place]]] = field(default_factory=list)
    looks: list[tuple[str, set[str]]] = field(default_factory=list)
    troubles: dict[str, HeadraceError] = field(default_factory=dict)
    free: threading.Event = field(default_factory=threading.Event)
    missing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin in good health."""
        self.free.set()

    def show(self, use_case: str, offsets: Mapping[str, Place]) -> None:
        """Show these next offsets, or fail as told."""
        self.free.wait()
        self.calls.append((use_case, dict(offsets)))
        if use_case in self.troubles:
            raise self.troubles[use_case]
        there = {name: offset for name, offset in offsets.items() if name not in self.missing}
        self.shown.setdefault(use_case, {}).update(there)

    def look(self, use_case: str, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes are shown, or fail as told."""
        self.free.wait()
        self.looks.append((use_case, set(lanes)))
        if use_case in self.troubles:
            raise self.troubles[use_case]
        at = self.shown.get(use_case, {})
        return {name: at[name] for name in lanes if name in at}

    def close(self) -> None:
        """Nothing to give up."""
