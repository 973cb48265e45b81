"""Copies of state that a worker keeps of lanes it ran last, so that it need not ask for them again.

A copy is of exactly the records before a place, under an epoch. It is trusted only where a portion
begins just there, under that epoch: whatever changes state moves the position, which goes only
forward within an epoch. So where a lane stands elsewhere by now, a copy is still right for the
portion, and nothing of that can be committed. This one comparison is all that there is: who takes a
lane over, seeks it or forgets its state raises the epoch.

To take a copy is to take it away. It is put back, with what was made of it, only when that is
committed; of whatever fails, or is never heard of, none is left, and the store is asked.

How much a tenant has in all, other lanes change too, so a copy is old after a while. Of a lane that
has too much some keys are forgotten, and some lanes where all have.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.model.places import Place
from headrace.model.state import NOTHING, StateChanges, StateKey, StateSize
from headrace.model.streams import LaneId

#: of all copies of a worker, and of the copy of one lane
MOST_BYTES, MOST_LANE_BYTES = 64 * 1024 * 1024, 8 * 1024 * 1024
#: seconds after which it is asked anew how much a tenant has
OLD_S = 30.0
#: what a row takes in memory beside its bytes, about, and a lane beside its rows
_ROW_COSTS, LANE_COSTS = 250, 600


@dataclass(slots=True)
class KnownState:
    """What is known of a lane's state, as of one place."""

    #: None: there is no such row
    rows: dict[StateKey, bytes | None] = field(default_factory=dict)
    #: of all that the stream has, and when the store said so
    size: StateSize = NOTHING
    told_s: float = -math.inf
    #: about what the rows take in memory
    weight: int = 0

    @property
    def is_told(self) -> bool:
        """Whether anything is known."""
        return self.told_s > -math.inf

    def told(self, rows: Mapping[StateKey, bytes | None], size: StateSize, now_s: float) -> None:
        """The store has answered."""
        for key, row in rows.items():
            self._set(key, row)
        self.size, self.told_s = size, now_s

    def changed(self, changes: StateChanges) -> None:
        """Rows were changed, and that was committed."""
        for key, row in changes.rows.items():
            self._set(key, row)
        self.size = self.size.plus(changes.grows)

    def forget(self, most_bytes: int) -> None:
        """Keep no more than so much: what was asked for first goes first."""
        while self.weight > most_bytes:
            key = next(iter(self.rows))
            self.weight -= _cost_of(key, self.rows.pop(key))

    def _set(self, key: StateKey, row: bytes | None) -> None:
        before = _cost_of(key, self.rows[key]) if key in self.rows else 0
        self.weight += _cost_of(key, row) - before
        self.rows[key] = row


def _cost_of(key: StateKey, row: bytes | None) -> int:
    return _ROW_COSTS + len(key.key) + len(row or b"")


@dataclass(slots=True)
class StateCopies:
    """The copies of a worker; those that were kept last come last."""

    most_bytes: int = MOST_BYTES
    most_lane_bytes: int = MOST_LANE_BYTES
    clock: Callable[[], float] = time.monotonic
    _copies: dict[LaneId, tuple[Place, int, KnownState]] = field(default_factory=dict)
    _bytes: int = 0

    def take(self, lane: LaneId, place: Place, epoch: int) -> KnownState:
        """What is known of a lane as of this place and epoch, and is kept no more; or nothing."""
        found = self._drop(lane)
        if found is not None:
            at, under, known = found
            if (at, under) == (place, epoch) and self.clock() - known.told_s <= OLD_S:
                return known
        return KnownState()

    def keep(self, lane: LaneId, place: Place, epoch: int, known: KnownState) -> None:
        """Keep what is known of a lane, if anything is, as of where it was committed to."""
        self._drop(lane)
        if not known.is_told:
            return
        known.forget(self.most_lane_bytes)
        self._copies[lane] = (place, epoch, known)
        self._bytes += known.weight + LANE_COSTS
        while self._bytes > self.most_bytes:
            self._drop(next(iter(self._copies)))

    def _drop(self, lane: LaneId) -> tuple[Place, int, KnownState] | None:
        found = self._copies.pop(lane, None)
        if found is not None:
            self._bytes -= found[2].weight + LANE_COSTS
        return found
