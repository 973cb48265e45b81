"""What the twin of the store holds, and the compare-and-set on it.

The one thing that everything exact rests on stands by itself, so that a test can plant a fault in
it: ``matches`` is the compare. A guest's transaction can keep rows of its own beside the moves, and
both happen or neither.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_bytes
from typing import Any

from headrace.model.credentials import CHANGES_KEPT, Change, Key
from headrace.model.records import Answer, Deployment, Move, Peer
from headrace.model.streams import LaneId, Position, Stream, StreamId, Tenant
from headrace.model.waves import Wave
from headrace.ports import advance_groups
from headrace.testing.statistics_twin import Told
from headrace.testing.store_twin_failures import FailuresTwin


@dataclass(slots=True)
class TwinTransaction:
    """What a guest of ``PositionsTwin.begin`` writes: kept if the block ends well, else undone."""

    rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    before: dict[LaneId, Position] = field(default_factory=dict)

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows to a table, which is made by its first row."""
        self.rows += [(table, each) for each in rows]


@dataclass(slots=True)
class Data:
    """Everything a store holds."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    revision: int = 0
    seal_key: bytes = field(default_factory=partial(token_bytes, 32))
    tenants: dict[str, Tenant] = field(default_factory=dict)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    positions: dict[StreamId, dict[int, Position]] = field(default_factory=dict)
    drivers: dict[str, Peer] = field(default_factory=dict)
    #: by driver
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    #: wave and driver by wave id, oldest first
    intents: dict[str, tuple[Wave, str | None]] = field(default_factory=dict)
    deployments: dict[str, Deployment] = field(default_factory=dict)
    failures: FailuresTwin = field(default_factory=FailuresTwin)
    tables: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    #: the audit log, oldest first
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    changes_total: int = 0
    told: Told = field(default_factory=Told)


class PositionsTwin:
    """``headrace.ports.HostPositions`` on the dictionaries of a twin."""

    def __init__(self, data: Data) -> None:
        self._data = data

    @contextmanager
    def begin(self) -> Iterator[TwinTransaction]:
        """A ``TwinTransaction``; nobody else does anything before it ends."""
        with self._data.lock:
            transaction = TwinTransaction()
            try:
                yield transaction
            except BaseException:
                for lane, position in transaction.before.items():
                    self._data.positions[lane.stream][lane.partition] = position
                raise
            for table, row in transaction.rows:
                self._data.tables.setdefault(table, []).append(row)

    def advance_in(self, connection: TwinTransaction, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the caller's transaction."""
        return [self._move(connection, each) for each in moves]

    def advance(self, moves: Sequence[Move]) -> list[bool]:
        """Move positions."""
        with self.begin() as transaction:
            return self.advance_in(transaction, moves)

    def advance_groups(self, groups: Sequence[Sequence[Move]]) -> list[bool]:
        """Move positions, those of a group all or none."""
        return advance_groups(self, groups)

    def matches(self, position: Position, move: Move) -> bool:
        """The compare of the compare-and-set."""
        return (position.next_offset, position.epoch) == (move.from_offset, move.epoch)

    def _move(self, transaction: TwinTransaction, move: Move) -> bool:
        lanes = self._data.positions.get(move.lane.stream, {})
        position = lanes.get(move.lane.partition)
        if position is None or not self.matches(position, move):
            return False
        transaction.before.setdefault(move.lane, position)
        lanes[move.lane.partition] = replace(position, next_offset=move.to_offset)
        return True
