"""Failures in memory, and what they do to lanes and streams; ``kept.py`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Failure, FailureState
from headrace.model.streams import LaneId, State, Stopper, StreamId
from headrace.policies.stops import stopped
from headrace.store.streams import one_line
from headrace.testing.memory_store.data import Data, alone
from headrace.testing.memory_store.kept import (
    cannot_skip,
    no_failure,
    why_stopped,
    without_record,
)


class MemoryFailures:
    """``headrace.ports.Failures`` in memory."""

    def __init__(self, data: Data) -> None:
        self.data = data

    @alone
    def keep(self, new: Sequence[Failure], *, stop_use_case: bool = False) -> list[int]:
        """Keep open failures, which stop their lanes, or the use case; return their ids."""
        for failure in new:
            self.data.stream(failure.slice.lane.stream)
        self.data.changed()
        return [self._keep(failure, stop_use_case=stop_use_case) for failure in new]

    def _keep(self, failure: Failure, *, stop_use_case: bool) -> int:
        lane = failure.slice.lane
        generation = self.data.tenants[lane.tenant].generation
        if failure.slice.epoch < self.data.stream(lane.stream).epoch:
            return self.data.failures.note(replace(failure, state=FailureState.RETRIED))
        if stop_use_case:
            for stream in list(self.data.streams.values()):
                ours = stream.id.use_case == lane.use_case and stream.state is not State.REMOVED
                if ours and stream.stopped_by <= {Stopper.TENANT}:
                    reason = one_line(why_stopped(failure, stream.id.tenant))
                    by = stopped(stream.stopped_by, Stopper.FAILURE)
                    self.data.set_stream(
                        stream.id, state=State.SUSPENDED, reason=reason, stopped_by=by
                    )
        return self.data.failures.keep(failure, generation)

    @alone
    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The open failure of each stopped lane of the streams that a driver holds."""
        still = self.data.failures.every(None, only_open=True)
        held = {stream.id for stream in self.data.streams.values() if stream.holder == driver}
        return {
            failure.slice.lane: failure.id or 0
            for failure in still
            if failure.slice.lane.stream in held
        }

    @alone
    def note(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing."""
        for failure in notes:
            self.data.failures.note(failure)

    @alone
    def every(
        self,
        stream: StreamId | None = None,
        *,
        only_open: bool = False,
        with_records: bool = True,
        current: bool = False,
        after: int = 0,
        most: int | None = None,
    ) -> list[Failure]:
        """Kept failures, oldest first: those with an id above ``after``, ``most`` of them."""
        if stream is not None:
            self.data.stream(stream)
        kept = self.data.failures.every(stream, only_open=only_open)
        if current:
            kept = [failure for failure in kept if self._is_current(failure)]
        found = [failure for failure in kept if (failure.id or 0) > after][:most]
        return found if with_records else [without_record(failure) for failure in found]

    @alone
    def one(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure, of any tenant or of one."""
        found = self.data.failures.one(number, tenant)
        if tenant is not None and not self._is_current(found):
            raise UnknownName(no_failure(number))
        return found

    @alone
    def retry(self, number: int) -> None:
        """Let the lane of an open failure go on at its position."""
        stream = self.data.failures.still_open(number).slice.lane.stream
        self.data.failures.end(number, FailureState.RETRIED)
        self.data.expect(stream)
        self.data.changed()

    @alone
    def skip(self, number: int) -> None:
        """Let the lane of an open failure go on behind it."""
        failure = self.data.failures.still_open(number)
        lane = failure.slice.lane
        lanes = self.data.positions[lane.stream]
        position = lanes.get(lane.name)
        if position is None or position.next_offset not in failure.skipped_from:
            raise ConfigError(cannot_skip(failure, position))
        self.data.failures.end(number, FailureState.SKIPPED)
        ordinal = position.ordinal + failure.skipped_records
        lanes[lane.name] = replace(
            position, next_offset=failure.skipped_to, ordinal=ordinal, passed_range=None
        )
        self.data.expect(lane.stream)
        self.data.changed()

    def _is_current(self, failure: Failure) -> bool:
        """Of the tenant that has its name now."""
        piece = failure.slice
        return piece.epoch >= self.data.tenants[piece.lane.tenant].generation
