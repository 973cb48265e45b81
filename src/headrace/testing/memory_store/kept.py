"""Failures that are kept in memory: which, in what state, and for how long.

A lane is stopped exactly while it has an open failure, so keeping, retrying and skipping are all
moves of one small state machine; here it is, without positions and streams, which are with
``failures.py``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from headrace.errors import ConfigError, UnknownName
from headrace.model.lane_names import spoken
from headrace.model.records import STOPPED_BY_ANOTHER, Failure, FailureState
from headrace.model.streams import Position, StreamId
from headrace.policies.keeping import KeptRow, bytes_of, room_for


@dataclass(slots=True)
class KeptFailures:
    """All failures ever kept, by id."""

    _kept: dict[int, Failure] = field(default_factory=dict)
    _made: int = 0

    def keep(self, failure: Failure, generation: int) -> int:
        """Keep an open failure, unless its lane has one; return the id of the one that is open."""
        for number, known in self._kept.items():
            if known.state is FailureState.OPEN and known.slice.lane == failure.slice.lane:
                return number
        for number, known in self._kept.items():
            ours = known.slice.epoch >= generation and failure.comes_again(known)
            if ours and known.state is FailureState.RETRIED:
                self._put(replace(failure, state=FailureState.OPEN, times=known.times + 1), number)
                return number
        return self.note(replace(failure, state=FailureState.OPEN))

    def note(self, failure: Failure) -> int:
        """Keep a failure as it is; return its id."""
        self._made += 1
        self._put(failure, self._made)
        return self._made

    def _put(self, failure: Failure, number: int) -> None:
        tenant = failure.slice.lane.tenant
        kept = [
            KeptRow(other, bytes_of(known), known.state is FailureState.OPEN)
            for other, known in self._kept.items()
            if known.slice.lane.tenant == tenant and other != number
        ]
        room = room_for([failure], kept)
        for dropped in room.drop:
            del self._kept[dropped]
        self._kept[number] = replace(room.failures[0], id=number)

    def every(self, stream: StreamId | None, *, only_open: bool) -> list[Failure]:
        """Failures of all streams or of one, oldest first."""
        return [
            failure
            for failure in self._kept.values()
            if (stream is None or failure.slice.lane.stream == stream)
            and (not only_open or failure.state is FailureState.OPEN)
        ]

    def one(self, number: int, tenant: str | None = None) -> Failure:
        """One failure, of this tenant if one is named.

        Raises:
            UnknownName: there is none of this number.
        """
        found = self._kept.get(number)
        if found is None or tenant not in (None, found.slice.lane.tenant):
            raise UnknownName(no_failure(number))
        return found

    def still_open(self, number: int) -> Failure:
        """One failure that nobody has decided about.

        Raises:
            ConfigError: somebody has.
        """
        failure = self.one(number)
        if failure.state is not FailureState.OPEN:
            raise ConfigError(f"failure {number} is not open any more: it was {failure.state}")
        return failure

    def end(self, number: int, state: FailureState) -> None:
        """Give an open failure another state."""
        self._kept[number] = replace(self.still_open(number), state=state)

    def release(
        self,
        stream: StreamId,
        names: Collection[str] | None = None,
        became: FailureState = FailureState.RETRIED,
    ) -> None:
        """Let lanes of a stream go on where they stand: all of them, or some."""
        for number, known in self._kept.items():
            lane = known.slice.lane
            ours = lane.stream == stream and (names is None or lane.name in names)
            if ours and known.state is FailureState.OPEN:
                self._kept[number] = replace(known, state=became)


def no_failure(number: int) -> str:
    """What is said of a failure that is not there."""
    return f"there is no failure {number}; 'headrace quarantine list' shows them"


def why_stopped(failure: Failure, tenant: str) -> str:
    """What is shown as the reason of a tenant's stream whose use case a failure stopped."""
    lane, error = failure.slice.lane, failure.error
    if tenant != lane.tenant:
        return STOPPED_BY_ANOTHER
    where = "" if error.offset is None else f" at offset {error.offset}"
    who = f"use case stopped by {lane.stream}, {spoken(lane.name)}{where}"
    return f"{who}: {error.code}: {error.message}"


def cannot_skip(failure: Failure, position: Position | None) -> str:
    """Why a failure cannot be skipped from where its lane is."""
    now = None if position is None else position.next_offset
    offset = failure.error.offset
    what = failure.slice if offset is None else f"the record at offset {offset}"
    return (
        f"failure {failure.id}: lane {failure.slice.lane} reads next at {now}, from where {what} "
        "cannot be skipped; retry it, or seek"
    )


def without_record(failure: Failure) -> Failure:
    """The failure as a list shows it."""
    bare = replace(failure.error, traceback="", raw_key=None, raw_value=None, raw_headers=())
    return replace(failure, error=bare)
