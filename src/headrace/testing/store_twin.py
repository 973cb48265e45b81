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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Deployment, Failure, FailureState, LaneStart, Move
from headrace.model.streams import LaneId, Position, State, Stream, StreamId, Tenant, Throttle
from headrace.store.streams import one_line, topic_of
from headrace.store.tenants import check, check_throttle, check_weight
from headrace.testing.store_twin_drivers import DriversTwin, alone
from headrace.testing.store_twin_failures import cannot_skip, why_stopped, without_record


class StoreTwin(DriversTwin):
    """``headrace.ports.Store`` in memory."""

    def close(self) -> None:
        """Nothing to give up."""

    def revision(self) -> int:
        """Grows with every change made by an operator."""
        return self.data.revision

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """What guests inserted into a table, in the order of their commits."""
        return list(self.data.tables.get(table, ()))

    # tenants and streams

    @alone
    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name."""
        return [each for _, each in sorted(self.data.tenants.items())]

    @alone
    def add_tenant(self, tenant: Tenant) -> None:
        """Add a tenant, or a removed one anew, with its streams."""
        check(tenant)
        known = self.data.tenants.get(tenant.name)
        if known is not None and known.state is not State.REMOVED:
            raise ConfigError(f"tenant {tenant.name} is there already, {known.state}")
        self._changed()
        self.data.tenants[tenant.name] = tenant
        for each in self.data.deployments.values():
            if each.all_tenants:
                self._begin(StreamId(each.use_case, tenant.name), each.topic)

    @alone
    def set_tenant_state(self, name: str, state: State) -> None:
        """Suspend, resume or remove a tenant."""
        self._set_tenant(name, removed_too=state is State.REMOVED, state=state)
        if state is State.REMOVED:
            for each in [each for each in self.data.streams if each.tenant == name]:
                self._set_stream(each, state=state)
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
        if after.state is not before.state:
            self.set_tenant_state(after.name, after.state)
        self.data.tenants[after.name] = after
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
    def set_stream_state(self, stream: StreamId, state: State, reason: str | None = None) -> None:
        """Suspend, resume or remove one stream; to resume also retries what failed."""
        if self._stream(stream).state is State.REMOVED and state is not State.REMOVED:
            raise ConfigError(f"stream {stream} was removed; add it again to start it afresh")
        self._changed()
        shown = None if state is State.ACTIVE or reason is None else one_line(reason)
        self._set_stream(stream, state=state, reason=shown)
        if state is State.ACTIVE:
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
        another = None not in (known.topic_id, topic_id) and known.topic_id != topic_id
        self._turn_to(stream, topic_id, known.epoch + 1 if another else known.epoch)
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
    def deploy(self, deployment: Deployment, *, anew: bool = False) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""
        topic_of(deployment.topic, "tenant")
        name = deployment.use_case
        known = self.data.deployments.get(name)
        if anew and known is not None:
            return False
        if known is not None and known.topic != deployment.topic:
            raise ConfigError(f"use case {name} reads {known.topic}; deploy it under another name")
        self._changed()
        self.data.deployments[name] = deployment
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
        if stop_use_case:
            for each in list(self.data.streams.values()):
                if each.id.use_case == lane.use_case and each.state is State.ACTIVE:
                    reason = one_line(why_stopped(failure, each.id.tenant))
                    self._set_stream(each.id, state=State.SUSPENDED, reason=reason)
        return self.data.failures.keep(failure)

    @alone
    def failures(
        self,
        stream: StreamId | None = None,
        *,
        only_open: bool = False,
        with_records: bool = True,
        after: int = 0,
        most: int | None = None,
    ) -> list[Failure]:
        """Kept failures, oldest first: those with an id above ``after``, ``most`` of them."""
        if stream is not None:
            self._stream(stream)
        kept = self.data.failures.every(stream, only_open=only_open)
        found = [each for each in kept if (each.id or 0) > after][:most]
        return found if with_records else [without_record(each) for each in found]

    @alone
    def failure(self, number: int, tenant: str | None = None) -> Failure:
        """One kept failure, of any tenant or of one."""
        return self.data.failures.one(number, tenant)

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
        if self._stream(lane.stream).state is State.REMOVED:
            raise ConfigError(f"stream {lane.stream} was removed; its position stays where it is")
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
        epoch = 0 if known is None else known.epoch + 1
        topic = topic_of(template, stream.tenant)
        self.data.streams[stream] = Stream(stream, topic, epoch=epoch)
        self.data.positions[stream] = {}
        self.data.failures.release(stream)
        for name, (wave, _) in list(self.data.intents.items()):
            if any(piece.lane.stream == stream for piece in wave.slices):
                self.finish_intent(name, [])

    def _turn_to(self, stream: StreamId, topic_id: str | None, epoch: int) -> None:
        """Let a stream be of this topic, and all its lanes under this epoch."""
        self._set_stream(stream, epoch=epoch, topic_id=topic_id)
        lanes = self.data.positions.get(stream, {})
        self._put(stream, {partition: at.next_offset for partition, at in lanes.items()})

    def _put(self, stream: StreamId, offsets: Mapping[int, int]) -> None:
        lanes, epoch = self.data.positions[stream], self.data.streams[stream].epoch
        for partition, offset in offsets.items():
            lanes[partition] = Position(LaneId(*stream, partition), offset, epoch)
