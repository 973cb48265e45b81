"""A store in memory that is exact and quick.

A simulation runs millions of turns, and a database would take most of that time for what is not
looked for: SQL, files and locks. So the twin keeps the same promises in dictionaries, held to the
same contract suite, with one lock in place of transactions.
Guests of ``positions.begin`` get a transaction that can keep rows too, so that a sink in the
store's own database has its twin as well.

Nothing survives the process. Drivers are in ``store_twin_drivers.py``, failures in
``store_twin_failures.py``, keys and the audit log in ``store_twin_keys.py``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Deployment, Failure, FailureState, LaneStart, Move
from headrace.model.streams import (
    LaneId,
    Position,
    State,
    Stopper,
    Stream,
    StreamId,
    Tenant,
    Throttle,
)
from headrace.policies.stops import Status, changed, stopped
from headrace.store.streams import one_line, topic_of
from headrace.store.tenants import check, check_throttle, check_weight
from headrace.testing.store_twin_drivers import DriversTwin, alone
from headrace.testing.store_twin_failures import (
    cannot_skip,
    no_failure,
    why_stopped,
    without_record,
)


class StoreTwin(DriversTwin):
    """``headrace.ports.Store`` in memory."""

    def close(self) -> None:
        """Nothing to give up."""

    def revision(self) -> int:
        """Grows with every change made by an operator."""
        return self.data.revision

    def seal_key(self) -> bytes:
        """The random key that seals records sent back."""
        return self.data.seal_key

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """What guests inserted into a table, in the order of their commits."""
        return list(self.data.tables.get(table, ()))

    # tenants and streams

    @alone
    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name."""
        return [each for _, each in sorted(self.data.tenants.items())]

    @alone
    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant, or a removed one anew, with its streams."""
        check(tenant)
        known = self.data.tenants.get(tenant.name)
        if known is not None and known.state is not State.REMOVED:
            raise ConfigError(f"tenant {tenant.name} is there already, {known.state}")
        self._changed()
        by_hand = {Stopper.OPERATOR} if tenant.state is State.SUSPENDED else set()
        added = replace(tenant, stopped_by=frozenset(by_hand), generation=0, added_again_s=None)
        if known is not None:
            added_s = max(time.time() if at_s is None else at_s, self._told_until_s(tenant.name))
            generation = self._forget_tenant(known)
            added = replace(added, generation=generation, added_again_s=added_s)
        self.data.tenants[tenant.name] = added
        for each in self.data.deployments.values():
            if each.all_tenants:
                self._begin(StreamId(each.use_case, tenant.name), each.topic)

    def _told_until_s(self, name: str) -> float:
        told = self.data.told
        with told.lock:
            ours = (from_s for stream, _, from_s in told.points if stream.tenant == name)
            return max((from_s + 1.0 for from_s in ours), default=0.0)

    @alone
    def set_tenant_state(self, name: str, state: State, *, by: Stopper = Stopper.OPERATOR) -> None:
        """Suspend, resume or remove a tenant."""
        known = self.data.tenants.get(name)
        before = Status(state, None, frozenset() if known is None else known.stopped_by)
        left = changed(before, state, None, by, f"tenant {name}").stopped_by
        self._set_tenant(name, removed_too=state is State.REMOVED, state=state, stopped_by=left)
        if state is State.REMOVED:
            for each in [each for each in self.data.streams if each.tenant == name]:
                self._set_stream(each, state=state, stopped_by=frozenset())
            self.keys.drop_of(name)

    @alone
    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight."""
        check_weight(name, weight)
        self._set_tenant(name, weight=weight)

    @alone
    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""
        check_throttle(name, throttle)
        self._set_tenant(name, throttle=throttle)

    @alone
    def change_tenant(self, before: Tenant, after: Tenant) -> bool:
        """Set state, weight and throttle of a tenant together; False if it is not as before."""
        assert before.name == after.name, "a tenant keeps its name"
        check_weight(after.name, after.weight)
        check_throttle(after.name, after.throttle)
        self._set_tenant(after.name)
        if self.data.tenants[after.name] != before:
            return False
        self._set_tenant(after.name, weight=after.weight, throttle=after.throttle)
        if (after.state, after.stopped_by) != (before.state, before.stopped_by):
            self.set_tenant_state(after.name, after.state)
        return True

    @alone
    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant."""
        return [each for _, each in sorted(self.data.streams.items())]

    @alone
    def add_stream(self, stream: StreamId) -> None:
        """Add one stream; a removed one starts afresh."""
        tenant = self.data.tenants.get(stream.tenant)
        deployment = self.data.deployments.get(stream.use_case)
        known = self.data.streams.get(stream)
        if tenant is None:
            raise UnknownName(f"there is no tenant {stream.tenant}; add it first")
        if deployment is None:
            raise UnknownName(f"there is no use case {stream.use_case}; deploy it first")
        if tenant.state is State.REMOVED:
            raise ConfigError(f"tenant {stream.tenant} was removed; add the tenant again first")
        if known is not None and known.state is not State.REMOVED:
            raise ConfigError(f"stream {stream} is there already, {known.state}")
        self._changed()
        self._begin(stream, deployment.topic)

    @alone
    def set_stream_state(
        self,
        stream: StreamId,
        state: State,
        reason: str | None = None,
        *,
        by: Stopper = Stopper.OPERATOR,
    ) -> None:
        """Suspend, resume or remove one stream; to resume also retries what failed."""
        known = self._stream(stream)
        if known.state is State.REMOVED and state is not State.REMOVED:
            raise ConfigError(f"stream {stream} was removed; add it again to start it afresh")
        told = None if reason is None else one_line(reason)
        before = Status(known.state, known.reason, known.stopped_by)
        change = changed(before, state, told, by, f"stream {stream}")
        self._changed()
        self._set_stream(
            stream, state=change.state, reason=change.reason, stopped_by=change.stopped_by
        )
        if change.state is State.ACTIVE:
            self.data.failures.release(stream)

    # positions

    @alone
    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions, of all streams or of some."""
        wanted = self.data.streams if streams is None else set(streams)
        for each in wanted:
            self._stream(each)
        return [
            position
            for stream in sorted(wanted)
            for _, position in sorted(self.data.positions[stream].items())
        ]

    @alone
    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs."""
        for each in starts:
            self._stream(each.stream)
        for each in starts:
            if self._stream(each.stream).topic_id not in (each.known_id, each.topic_id, None):
                continue
            self._set_stream(each.stream, topic_id=each.topic_id)
            lanes = self.data.positions[each.stream]
            self._put(each.stream, {p: at for p, at in each.offsets.items() if p not in lanes})

    @alone
    def seek(
        self, stream: StreamId, offsets: Mapping[int, int], topic_id: str | None = None
    ) -> None:
        """Set positions, whatever they were, and the topic's id, or none."""
        known = self._stream(stream)
        if known.state is State.REMOVED:
            raise ConfigError(f"stream {stream} was removed; add it again before you seek")
        self._changed()
        self._turn_to(stream, topic_id, known.epoch + 1)
        self.data.failures.release(stream, set(offsets))
        self._put(stream, offsets)

    @alone
    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
    ) -> int | None:
        """Let lanes of a stream go on behind what the log no longer has: all of them or none."""
        known, lanes = self._stream(stream), self.data.positions.get(stream, {})
        places = [(lanes.get(each.lane.partition), each) for each in moves]
        there = all(at is not None and self.positions.matches(at, each) for at, each in places)
        if known.state is State.REMOVED or not there:
            return None
        self._changed()
        self._turn_to(stream, topic_id, known.epoch + 1)
        self._put(stream, {each.lane.partition: each.to_offset for each in moves})
        self.data.failures.release(stream, {each.lane.partition for each in moves})
        for each in failures:
            self.data.failures.note(each)
        return known.epoch + 1

    # deployments

    @alone
    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""
        topic_of(deployment.topic, "tenant")
        name = deployment.use_case
        known = self.data.deployments.get(name)
        if anew and known is not None:
            return False
        if over is not None and (known is None or known.revision != over.revision):
            return False
        if known is not None and known.topic != deployment.topic:
            raise ConfigError(f"use case {name} reads {known.topic}; deploy it under another name")
        self._changed()
        self.data.deployments[name] = replace(deployment, revision=self.data.revision)
        for tenant in self.data.tenants.values():
            stream = StreamId(name, tenant.name)
            lacking = tenant.state is not State.REMOVED and stream not in self.data.streams
            if deployment.all_tenants and lacking:
                self._begin(stream, deployment.topic)
        return True

    @alone
    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""
        return [each for _, each in sorted(self.data.deployments.items())]

    # failures

    @alone
    def keep_failure(self, failure: Failure, *, stop_use_case: bool = False) -> int:
        """Keep an open failure, which stops its lane, or the use case; return the one's id."""
        lane = failure.slice.lane
        self._stream(lane.stream)
        self._changed()
        generation = self.data.tenants[lane.tenant].generation
        if failure.slice.epoch < generation:
            return self.data.failures.note(replace(failure, state=FailureState.RETRIED))
        if stop_use_case:
            for each in list(self.data.streams.values()):
                ours = each.id.use_case == lane.use_case and each.state is not State.REMOVED
                if ours and each.stopped_by <= {Stopper.TENANT}:
                    reason = one_line(why_stopped(failure, each.id.tenant))
                    by = stopped(each.stopped_by, Stopper.FAILURE)
                    self._set_stream(each.id, state=State.SUSPENDED, reason=reason, stopped_by=by)
        return self.data.failures.keep(failure, generation)

    @alone
    def note_failures(self, notes: Sequence[Failure]) -> None:
        """Keep failures that are over and stop nothing."""
        for each in notes:
            self.data.failures.note(each)

    @alone
    def stopped_lanes(self, driver: str) -> dict[LaneId, int]:
        """The open failure of each stopped lane of the streams that a driver holds."""
        still = self.data.failures.every(None, only_open=True)
        held = {each.id for each in self.data.streams.values() if each.holder == driver}
        return {each.slice.lane: each.id or 0 for each in still if each.slice.lane.stream in held}

    @alone
    def failures(
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
            self._stream(stream)
        kept = self.data.failures.every(stream, only_open=only_open)
        if current:
            kept = [each for each in kept if self._is_current(each)]
        found = [each for each in kept if (each.id or 0) > after][:most]
        return found if with_records else [without_record(each) for each in found]

    @alone
    def failure(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure, of any tenant or of one."""
        found = self.data.failures.one(number, tenant)
        if tenant is not None and not self._is_current(found):
            raise UnknownName(no_failure(number))
        return found

    @alone
    def retry_failure(self, number: int) -> None:
        """Let the lane of an open failure go on at its position."""
        self.data.failures.end(number, FailureState.RETRIED)
        self._changed()

    @alone
    def skip_failure(self, number: int) -> None:
        """Let the lane of an open failure go on behind it."""
        failure = self.data.failures.still_open(number)
        lane = failure.slice.lane
        lanes = self.data.positions[lane.stream]
        position = lanes.get(lane.partition)
        if position is None or position.next_offset not in failure.skipped_from:
            raise ConfigError(cannot_skip(failure, position))
        self.data.failures.end(number, FailureState.SKIPPED)
        lanes[lane.partition] = replace(position, next_offset=failure.skipped_to)
        self._changed()

    # what the methods above share

    def _set_tenant(self, name: str, *, removed_too: bool = False, **values: Any) -> None:
        known = self.data.tenants.get(name)
        if known is None:
            raise UnknownName(f"there is no tenant {name}; add it first")
        if known.state is State.REMOVED and not removed_too:
            raise ConfigError(f"tenant {name} was removed; add it again to start it afresh")
        self._changed()
        self.data.tenants[name] = replace(known, **values)

    def _begin(self, stream: StreamId, template: str) -> None:
        known = self.data.streams.get(stream)
        first = self.data.tenants[stream.tenant].generation
        epoch = first if known is None else max(known.epoch + 1, first)
        topic = topic_of(template, stream.tenant)
        self.data.streams[stream] = Stream(stream, topic, epoch=epoch)
        self._empty(stream)

    def _forget_tenant(self, known: Tenant) -> int:
        """Leave nothing of an earlier tenant to the next of its name; the next's generation."""
        streams = [each for each in self.data.streams.values() if each.id.tenant == known.name]
        for each in streams:
            self._set_stream(each.id, reason=None)
            self._empty(each.id)
        return max([known.generation, *(each.epoch for each in streams)]) + 1

    def _empty(self, stream: StreamId) -> None:
        """Let no position of a stream be, and nothing that was recorded of it."""
        self.data.positions[stream] = {}
        self.data.failures.release(stream)
        for name, (wave, _) in list(self.data.intents.items()):
            if any(piece.lane.stream == stream for piece in wave.slices):
                self.finish_intent(name, [])

    def _is_current(self, failure: Failure) -> bool:
        """Of the tenant that has its name now."""
        piece = failure.slice
        return piece.epoch >= self.data.tenants[piece.lane.tenant].generation

    def _turn_to(self, stream: StreamId, topic_id: str | None, epoch: int) -> None:
        """Let a stream be of this topic, and all its lanes under this epoch.

        What was recorded of another topic is forgotten.
        """
        was = self._stream(stream).topic_id
        if None not in (was, topic_id) and was != topic_id:
            self._forget_recorded(stream)
        self._set_stream(stream, epoch=epoch, topic_id=topic_id)
        lanes = self.data.positions.get(stream, {})
        self._put(stream, {partition: at.next_offset for partition, at in lanes.items()})

    def _put(self, stream: StreamId, offsets: Mapping[int, int]) -> None:
        lanes, epoch = self.data.positions[stream], self.data.streams[stream].epoch
        for partition, offset in offsets.items():
            lanes[partition] = Position(LaneId(*stream, partition), offset, epoch)
