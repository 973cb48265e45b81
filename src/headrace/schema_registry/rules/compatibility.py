"""Which versions a new schema is held against, and in which direction.

``BACKWARD``: what was written before can be read by the new one; ``FORWARD``: what the new one
writes can be read by those before; ``FULL``: both. Without ``_TRANSITIVE`` the latest version
counts, with it all that are not deleted. A schema in another language than a version before it is
compatible with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from headrace.ports.schema_subjects import SubjectVersion
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.texts import Compared

#: of one reader and one writer: why the one cannot read the other
Faults = Callable[[WrittenSchema, WrittenSchema], list[str]]
_MOST_FAULTS = 50


class Level(StrEnum):
    """What a subject asks of a new version."""

    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    NONE = "NONE"

    def among(self, alive: Sequence[SubjectVersion]) -> Sequence[SubjectVersion]:
        """The versions that a new one is held against, of those that are not deleted."""
        if self is Level.NONE:
            return ()
        return alive if self.endswith("_TRANSITIVE") else alive[-1:]


DEFAULT_LEVEL = Level.BACKWARD


def faults_of(
    new: WrittenSchema, before: Sequence[Compared], level: Level, faults: Faults
) -> list[str]:
    """What a new schema breaks, version by version, the newest first; empty: nothing."""
    found: list[str] = []
    if level is Level.NONE:
        return found
    for compared in reversed(before):
        told = _against(new, compared.schema, level, faults)
        found += [f"version {compared.version}: {fault}" for fault in told]
        if len(found) > _MOST_FAULTS:
            return [*found[:_MOST_FAULTS], "and more"]
    return found


def _against(new: WrittenSchema, old: WrittenSchema, level: Level, faults: Faults) -> list[str]:
    if new.kind is not old.kind:
        return [f"SCHEMA_TYPE_CHANGED: it was {old.kind} and is {new.kind}"]
    found: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        found += [f"the new schema cannot read the old: {fault}" for fault in faults(new, old)]
    if level.startswith(("FORWARD", "FULL")):
        found += [f"the old schema cannot read the new: {fault}" for fault in faults(old, new)]
    return found
