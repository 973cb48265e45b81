"""Where every lane is: the compare-and-set that everything exact rests on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import chain, compress
from typing import Protocol, TypeVar

from headrace.model.records import Move, ReadRange
from headrace.model.state import StateChanges
from headrace.model.streams import Slice
from headrace.ports.connections import Connections
from headrace.ports.state import KeyedState

_C = TypeVar("_C")


class Positions(KeyedState, Protocol):
    """Where every lane is. Used by the driver and inside tasks; safe in several threads.

    A move succeeds only if the position is exactly ``from_offset`` and its epoch is exactly
    ``epoch``; otherwise it changes nothing and is reported as False, never as an error.
    """

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions in a transaction of its own; durable on return."""

    def advance_groups(
        self, groups: Sequence[Sequence[Move]], states: Sequence[StateChanges | None] = ()
    ) -> list[bool]:
        """Move positions in one transaction, those of a group all or none; durable on return.

        Args:
            groups: the moves.
            states: what becomes of state with each group that is moved, in order; empty: nothing.

        Returns:
            One answer for each group, in order.
        """

    def stand(self, moves: Sequence[Move]) -> list[bool]:
        """Whether each of these would be made now; in order. Moves nothing, and is no commit."""

    def reads_of(self, slices: Sequence[Slice]) -> list[ReadRange | None]:
        """What was written down of reading these before; in order, None where nothing was."""

    def record_reads(self, new: Sequence[ReadRange]) -> list[ReadRange | None]:
        """Write down what was read of open slices, before anything of it is written anywhere.

        What is written down of a lane from the same place stays, whoever wrote it: all attempts at
        a slice are to read the same. It does until the lane has moved on and something of it is
        read from elsewhere, or is sent elsewhere, or ``finish_intent`` says that it came to
        nothing; and with another topic, or a stream that begins anew, nothing of it is left.

        Returns:
            What is written down now, in order and durable; None where nothing is, as a lane is not
            at ``from_offset`` any more, or under another epoch.
        """


class HostPositions(Positions, Protocol[_C]):
    """Positions that have guests: who has rows beside them moves both in one transaction.

    What a transaction is, ``_C``, is between the store and its guests: a SQL sink gets the
    connection to a database. Nobody else has to know.
    """

    def begin(self) -> AbstractContextManager[_C]:
        """A write transaction of the store: commits on leaving, rolls back on an exception."""

    def advance_in(self, connection: _C, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the guest's transaction; one answer for each move, in order."""

    def save_state_in(self, connection: _C, states: Sequence[StateChanges]) -> None:
        """Change state in the guest's transaction, in which the positions of the lanes moved."""


class PositionsFactory(Protocol):
    """Opens the positions inside a task. Travels to the tasks by pickle."""

    def open(self, connections: Connections) -> Positions:
        """Called at most once per worker for equal connections."""


def advance_groups(
    positions: HostPositions[_C],
    groups: Sequence[Sequence[Move]],
    states: Sequence[StateChanges | None] = (),
) -> list[bool]:
    """Do as ``Positions.advance_groups`` says: what was moved of a broken group is moved back."""
    with positions.begin() as connection:
        moved = iter(positions.advance_in(connection, list(chain(*groups))))
        answers = [[next(moved) for _ in group] for group in groups]
        partly = [compress(*pair) for pair in zip(groups, answers, strict=True) if not all(pair[1])]
        positions.advance_in(connection, [move.undone() for move in chain(*partly)])
        made = [all(answer) for answer in answers]
        if saved := [state for state in compress(states, made) if state is not None]:
            positions.save_state_in(connection, saved)
    return made
