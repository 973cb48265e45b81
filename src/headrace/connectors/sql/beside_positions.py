"""Rows in the store's own database: exactly-once, by transaction.

A score that is counted up twice is wrong for ever, and no key makes ``score + 1`` repeatable. But
the positions are in the same database: so the rows and the moves of the positions go in one
transaction, the moves are compare-and-set, and whatever is killed, both happen or neither. A
slice that was done before, or a zombie's, moves nothing and writes nothing. Should the answer to a
commit be lost, the same compare-and-set tells what became of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice

from sqlalchemy import Connection

from headrace.connectors.sql.writer import SUPERSEDED, PartlyAdmittedError
from headrace.model.records import Move
from headrace.model.state import StateChanges
from headrace.ports import Effect, HostPositions, Written


class BesidePositions:
    """The store as a place for rows; see ``writer.Place``."""

    def __init__(self, positions: HostPositions[Connection]) -> None:
        self._positions = positions

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction of the store."""
        return self._positions.begin()

    def admit(self, connection: Connection, effects: Sequence[Effect]) -> list[Written | None]:
        """Move positions, and state with them, of those that say so; else nothing is written."""
        moves = [move for effect in effects if effect.move_positions for move in effect.moves]
        answers = iter(self._positions.advance_in(connection, moves) if moves else ())
        told: list[Written | None] = []
        states: list[StateChanges] = []
        for effect in effects:
            mine = list(islice(answers, len(effect.slices))) if effect.move_positions else [True]
            if any(mine) and not all(mine):
                raise PartlyAdmittedError
            told.append(None if all(mine) else SUPERSEDED)
            if all(mine) and effect.move_positions and effect.state is not None:
                states.append(effect.state)
        if states:
            self._positions.save_state_in(connection, states)
        return told

    def wrote(self, effect: Effect) -> Written:
        """The positions moved with the rows, if they were to."""
        return Written(committed=effect.move_positions)

    def settle(self, connection: Connection, effects: Sequence[Effect]) -> None:
        """Nothing: who is admitted holds its positions until the commit."""

    def is_done(self, connection: Connection, effect: Effect) -> bool:
        """Whether its lanes stand where it leaves them, under its epoch.

        Nobody else moves them there without the same rows.
        """
        stays = [
            Move(move.lane, move.to_offset, move.to_offset, move.epoch) for move in effect.moves
        ]
        return all(self._positions.advance_in(connection, stays))
