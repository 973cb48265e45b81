"""State of keys: what a use case remembers from record to record, as the store has it.

A row is bytes under a key's bytes, in a table that the use case names, in a *part*: the lane of the
log that the key came in. Buckets of one lane share its part, as a key is in one of them, so state
follows its keys when the lane is divided otherwise. What the bytes mean is said in
``headrace.state``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.buckets import whole_lane
from headrace.model.streams import LaneId

#: of one key: what a database can have in the index of a table
MOST_KEY_BYTES = 1_000
#: of one row, if its table does not say
MOST_ROW_BYTES = 1024 * 1024


class StateSize(NamedTuple):
    """How much state there is, or how much more; keys count as well as rows."""

    rows: int = 0
    bytes: int = 0

    def plus(self, other: StateSize) -> StateSize:
        """Both together."""
        return StateSize(self.rows + other.rows, self.bytes + other.bytes)


NOTHING = StateSize()
#: bytes that a row counts beside its own where it is written
_ROW_COSTS = 100
#: what one tenant may have in one use case, if it does not say
MOST_STATE = StateSize(1_000_000, 1024 * 1024 * 1024)


class StateKey(NamedTuple):
    """A row within a part."""

    table: str
    key: bytes


class StateRow(NamedTuple):
    """A row of a table, as it is kept."""

    part: str
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class StateLoaded:
    """Rows that were asked for, as of exactly the records before a place."""

    #: by their keys; those that are not there are left out
    rows: Mapping[bytes, bytes]
    #: of all that the stream has
    size: StateSize


@dataclass(frozen=True, slots=True)
class StateChanges:
    """What records of a lane make of its state: goes with the move of the lane's position."""

    lane: LaneId
    #: None: the row is gone
    rows: Mapping[StateKey, bytes | None] = field(default_factory=dict)
    #: how much more there is with it
    grows: StateSize = NOTHING

    @property
    def part(self) -> str:
        """In which part of the stream's state the rows are."""
        return whole_lane(self.lane.name)

    @property
    def weight(self) -> int:
        """About how many bytes it is to a database; each row costs something by itself."""
        return sum(_ROW_COSTS + len(key.key) + len(row or b"") for key, row in self.rows.items())


def size_of(key: StateKey, row: bytes | None) -> StateSize:
    """What a row counts; nothing where there is none."""
    return NOTHING if row is None else StateSize(1, len(key.key) + len(row))


def number_key(value: int) -> bytes:
    """The key of a whole number of 64 bits: as wide as any other."""
    return value.to_bytes(8, "big", signed=True)
