"""Where every lane is: the compare-and-set that everything exact rests on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from headrace.model.records import Move
from headrace.ports.connections import Connections

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Positions(Protocol):
    """Where every lane is. Used by the driver and inside tasks; safe in several threads.

    A move succeeds only if the position is exactly ``from_offset`` and its epoch is exactly
    ``epoch``; otherwise it changes nothing and is reported as False, never as an error.
    """

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction of the store: commits on leaving, rolls back on an exception."""

    def advance_in(self, connection: Connection, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the caller's transaction; one answer for each move, in order."""

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions in a transaction of its own; durable on return."""


class PositionsFactory(Protocol):
    """Opens the positions inside a task. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> Positions:
        """Called at most once per worker for equal connections."""
