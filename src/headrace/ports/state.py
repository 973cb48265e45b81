"""State of keys, which goes with the positions of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.model.records import Move
from headrace.model.state import StateLoaded, StateRow, StateSize
from headrace.model.streams import StreamId


class KeyedState(Protocol):
    """What use cases remember of keys; a part of ``Positions``, with which it is written.

    State is at any time that of exactly the records before the positions: it changes only in the
    transaction that moves the position of the lane whose records changed it, if that is moved, and
    not otherwise (``Positions.advance_groups``, ``HostPositions.save_state_in``). It is forgotten
    with the positions of its lane, so nobody who begins anew finds any.
    """

    def load_state(self, at: Move, table: str, keys: Sequence[bytes]) -> StateLoaded | None:
        """Rows of a table by many keys, with one statement where the database has arrays.

        Args:
            at: a move of the lane to where it stands (``Move.stay``).
            table: one that the use case names.
            keys: none of them twice.

        Returns:
            None where the lane is not there, or under another epoch: what is kept is of other
            records by now. A lane that is never had exactly the records before it.
        """

    def sample_state(self, use_case: str, table: str) -> tuple[bytes, bytes] | None:
        """Key and row of one of a table, of whichever stream; for who deploys another version.

        Returns:
            None where there is none, or where it was not found among very many streams.
        """


class KeptState(Protocol):
    """State as people look at it. What they see may be of before by the time they do."""

    def sizes(self, tenant: str | None = None) -> dict[StreamId, StateSize]:
        """How much each stream has that has any, by tenant and use case."""

    def tables(self, stream: StreamId) -> dict[str, StateSize]:
        """How much a stream has in each table that has rows, by name; each row is looked at."""

    def parts(self, stream: StreamId) -> set[str]:
        """The lanes of its log that ever had state since the stream began, or was sent back."""

    def rows(
        self,
        stream: StreamId,
        table: str,
        keys: Sequence[bytes] | None = None,
        *,
        after: tuple[str, bytes] | None = None,
        most: int = 100,
    ) -> list[StateRow]:
        """Rows of a table, by part and key.

        Args:
            stream: whose they are.
            table: one that a use case names.
            keys: only those of these keys; None: all.
            after: part and key of the last one that was seen.
            most: no more than so many.
        """
