"""A copy of the positions, where lag tools look."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from headrace.model.places import Place


class PositionsMirror(Protocol):
    """Shows positions to other tools. Best effort: the store has them, and nobody believes this.

    Called from one thread at a time, and never from the one that turns: it may take its time.
    """

    def show(self, use_case: str, offsets: Mapping[str, Place]) -> None:
        """Show these next offsets of a use case by lane; what was shown of other lanes stays.

        A lane that is not there is passed over.

        Raises:
            HeadraceError: not all of it was shown; it may be tried again.
        """

    def look(self, use_case: str, lanes: Collection[str]) -> dict[str, Place]:
        """Where others see these lanes of a use case now; one that they do not see is left out.

        Raises:
            HeadraceError: it cannot be seen; it may be tried again.
        """

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""
