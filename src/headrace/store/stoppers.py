"""Who has stopped something, as a column of the database has it: names with commas between."""

from __future__ import annotations

from headrace.model.streams import Stopper
from headrace.policies.stops import Stoppers


def written(stopped_by: Stoppers) -> str | None:
    """The text for the column; NULL for nobody."""
    return ",".join(sorted(stopped_by)) or None


def read(text: str | None) -> Stoppers:
    """Who is named in the column."""
    return frozenset(Stopper(name) for name in text.split(",")) if text else frozenset()
