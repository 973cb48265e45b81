"""The compare-and-set in memory, and transactions for guests.

A guest's transaction can keep rows of its own beside the moves, and both happen or neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.model.places import Place
from headrace.model.records import Move, ReadRange
from headrace.model.state import StateChanges, StateLoaded
from headrace.model.streams import LaneId, Position, Slice, StreamId
from headrace.ports import advance_groups
from headrace.testing.memory_store.data import Data


@dataclass(slots=True)
class MemoryTransaction:
    """What a guest writes in a transaction: kept if its block ends well, else undone."""

    rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    before: dict[LaneId, Position] = field(default_factory=dict)
    moved_s: dict[StreamId, float] = field(default_factory=dict)
    states: list[StateChanges] = field(default_factory=list)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows to a table, which is made by its first row."""
        self.rows += [(table, row) for row in rows]


class MemoryPositions:
    """``headrace.ports.HostPositions`` in memory."""

    def __init__(self, data: Data) -> None:
        self._data = data

    @contextmanager
    def begin(self) -> Iterator[MemoryTransaction]:
        """A transaction; nobody else does anything before it ends."""
        with self._data.lock:
            transaction = MemoryTransaction()
            try:
                yield transaction
            except BaseException:
                for lane, position in transaction.before.items():
                    self._data.positions[lane.stream][lane.name] = position
                self._data.moved_s |= transaction.moved_s
                raise
            self._data.state.save(transaction.states)
            for table, row in transaction.rows:
                self._data.tables.setdefault(table, []).append(row)

    def advance_in(self, connection: MemoryTransaction, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the guest's transaction."""
        return [self._move(connection, move) for move in moves]

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions."""
        with self.begin() as transaction:
            return self.advance_in(transaction, moves)

    def advance_groups(
        self, groups: Sequence[Sequence[Move]], states: Sequence[StateChanges | None] = ()
    ) -> list[bool]:
        """Move positions, those of a group all or none, with their state."""
        return advance_groups(self, groups, states)

    def save_state_in(self, connection: MemoryTransaction, states: Sequence[StateChanges]) -> None:
        """Change state in the guest's transaction."""
        connection.states += states

    def load_state(self, at: Move, table: str, keys: Sequence[bytes]) -> StateLoaded | None:
        """Rows of a table by their keys; None where the lane is elsewhere."""
        with self._data.lock:
            return self._data.state.load(at.lane, table, keys) if self._stands(at) else None

    def sample_state(self, use_case: str, table: str) -> tuple[bytes, bytes] | None:
        """Key and row of one of a table, of whichever stream."""
        with self._data.lock:
            return self._data.state.sample(use_case, table)

    def stand(self, moves: Sequence[Move]) -> list[bool]:
        """Whether each of these would be made now."""
        with self._data.lock:
            return [self._stands(move) for move in moves]

    def _stands(self, move: Move) -> bool:
        position = self._data.positions.get(move.lane.stream, {}).get(move.lane.name)
        return position is not None and self._data.matches(position, move)

    def reads_of(self, slices: Sequence[Slice]) -> list[ReadRange | None]:
        """What was written down of reading these before."""
        with self._data.lock:
            return [self._kept(piece.lane, piece.from_offset, piece.epoch) for piece in slices]

    def record_reads(self, new: Sequence[ReadRange]) -> list[ReadRange | None]:
        """Write down what was read of open slices; what is written down then."""
        with self._data.lock:
            return [self._recorded(read) for read in new]

    def _recorded(self, read: ReadRange) -> ReadRange | None:
        position = self._data.positions.get(read.lane.stream, {}).get(read.lane.name)
        if position is None or not self._data.matches(position, stays(read)):
            return None
        kept = self._kept(read.lane, read.from_offset, read.epoch)
        if kept is None:
            kept = self._data.reads[read.lane] = read
        return kept

    def _kept(self, lane: LaneId, begin: Place, epoch: int) -> ReadRange | None:
        read = self._data.reads.get(lane)
        return None if read is None or read.from_offset != begin else replace(read, epoch=epoch)

    def _move(self, transaction: MemoryTransaction, move: Move) -> bool:
        lanes = self._data.positions.get(move.lane.stream, {})
        position = lanes.get(move.lane.name)
        if position is None or not self._data.matches(position, move):
            return False
        transaction.before.setdefault(move.lane, position)
        ordinal = position.ordinal + move.passed
        passed = position.passed_range if move.to_offset == move.from_offset else None
        lanes[move.lane.name] = replace(
            position, next_offset=move.to_offset, ordinal=ordinal, passed_range=passed
        )
        stream, moved_s = move.lane.stream, self._data.moved_s
        transaction.moved_s.setdefault(stream, moved_s.get(stream, 0.0))
        moved_s[stream] = self._data.now_s()
        return True


def stays(read: ReadRange) -> Move:
    """The move to where its lane has to be: whoever may make it may read there."""
    return Move(read.lane, read.from_offset, read.from_offset, read.epoch)
