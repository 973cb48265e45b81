"""Tenants, streams and deployments in memory."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import (
    ConfigError,
    name_is_a_customers,
    no_tenant,
    no_use_case,
    other_topic,
    removed_for_all,
    stream_removed,
    tenant_removed,
)
from headrace.model.everyone import EVERYONE, has_stream, is_plain
from headrace.model.records import Deployment, FailureState
from headrace.model.streams import State, Stopper, Stream, StreamId, Tenant, Throttle, ids_left
from headrace.model.topic_lists import adds_to, as_list_id, topics_of
from headrace.policies.stops import Status, changed
from headrace.store.deployments import check as check_deployment
from headrace.store.own_topics import Doubt, doubtful, refuse_doubts, told
from headrace.store.streams import check_stream, one_line, topic_of
from headrace.store.tenant_states import check_states
from headrace.store.tenants import check, check_may_be_added, check_throttle, check_weight
from headrace.testing.memory_store import recorded
from headrace.testing.memory_store.data import Data, alone
from headrace.testing.memory_store.keys import MemoryKeys


class MemoryRegistry:
    """``headrace.ports.Registry`` in memory."""

    def __init__(self, data: Data) -> None:
        self.data = data

    @alone
    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name."""
        return [tenant for _, tenant in sorted(self.data.tenants.items())]

    @alone
    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant, or a removed one anew, with its streams."""
        check(tenant)
        known = self.data.tenants.get(tenant.name)
        if known is not None and known.state is not State.REMOVED:
            raise ConfigError(f"tenant {tenant.name} is there already, {known.state}")
        check_may_be_added(tenant.name, known)
        self._refuse_shared(self._for_all([tenant.name]))
        self.data.changed()
        by_hand = {Stopper.OPERATOR} if tenant.state is State.SUSPENDED else set()
        added = replace(
            tenant,
            stopped_by=frozenset(by_hand),
            generation=0,
            added_again_s=None,
            reserved=known is not None and known.reserved,
        )
        if known is not None:
            added = self._anew(added, known, time.time() if at_s is None else at_s)
        self.data.tenants[tenant.name] = added
        for stream in self._for_all([tenant.name]):
            self._begin(stream, self.data.deployments[stream.use_case].topic)

    @alone
    def add_tenants(
        self, tenants: Sequence[Tenant], *, skip_there: bool = False, at_s: float | None = None
    ) -> list[str]:
        """Add many tenants with their streams, all of them or none; the names that were added."""
        if len({tenant.name for tenant in tenants}) < len(tenants):
            raise ConfigError(
                "of tenants that are added together none may have the name of another"
            )
        known = self.data.tenants
        there = {
            tenant.name
            for tenant in tenants
            if tenant.name in known and known[tenant.name].state is not State.REMOVED
        }
        for tenant in tenants:
            check(tenant)
        if there and not skip_there:
            raise ConfigError(f"tenant {min(there)} is there already")
        wanted = [tenant for tenant in tenants if tenant.name not in there]
        for tenant in wanted:
            check_may_be_added(tenant.name, known.get(tenant.name))
        self._refuse_shared(self._for_all([tenant.name for tenant in wanted]))
        for tenant in wanted:
            self.add_tenant(tenant, at_s=at_s)
        return [tenant.name for tenant in wanted]

    def _anew(self, added: Tenant, known: Tenant, at_s: float) -> Tenant:
        """It, as it begins after one of its name was removed."""
        added_s = max(at_s, self._told_until_s(added.name))
        return replace(added, generation=self._forget_tenant(known), added_again_s=added_s)

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
        if state is State.ACTIVE:
            for stream in [stream for stream in self.data.streams if stream.tenant == name]:
                self.data.expect(stream)
        if state is State.REMOVED:
            for stream in [stream for stream in self.data.streams if stream.tenant == name]:
                self.data.set_stream(stream, state=state, stopped_by=frozenset())
            MemoryKeys(self.data).drop_of(name)

    @alone
    def set_tenant_states(self, tenants: Sequence[Tenant], state: State) -> list[str]:
        """Suspend, resume or remove many tenants, all of them or none; the names that changed."""
        check_states(tenants, self.data.tenants, state)
        changed = [
            tenant.name for tenant in tenants if self.data.tenants[tenant.name].state is not state
        ]
        for tenant in tenants:
            self.set_tenant_state(tenant.name, state)
        return changed

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
        return [stream for _, stream in sorted(self.data.streams.items())]

    @alone
    def add_stream(self, stream: StreamId) -> None:
        """Add one stream; a removed one starts afresh."""
        tenant = self.data.tenants.get(stream.tenant)
        deployment = self.data.deployments.get(stream.use_case)
        known = self.data.streams.get(stream)
        if tenant is None:
            raise no_tenant(stream.tenant)
        if deployment is None:
            raise no_use_case(stream.use_case)
        if tenant.state is State.REMOVED:
            raise tenant_removed(stream.tenant)
        if known is not None and known.state is not State.REMOVED:
            raise ConfigError(f"stream {stream} is there already, {known.state}")
        check_stream(stream, deployment.topic, reserved=tenant.reserved)
        self._refuse_shared({stream: topic_of(deployment.topic, stream.tenant)})
        self.data.changed()
        self._begin(stream, deployment.topic)

    @alone
    def set_stream_state(
        self,
        stream: StreamId,
        state: State,
        reason: str | None = None,
        *,
        by: Stopper = Stopper.OPERATOR,
        epoch: int | None = None,
        gone: Collection[str] = (),
    ) -> bool:
        """Suspend, resume or remove one stream; to resume also retries what failed."""
        known = self.data.stream(stream)
        if epoch is not None and epoch < known.epoch:
            return False
        if known.state is State.REMOVED and state is not State.REMOVED:
            raise stream_removed(stream.tenant, stream.use_case)
        told = None if reason is None else one_line(reason)
        before = Status(known.state, known.reason, known.stopped_by)
        change = changed(before, state, told, by, f"stream {stream}")
        self.data.changed()
        self.data.set_stream(
            stream, state=change.state, reason=change.reason, stopped_by=change.stopped_by
        )
        self.data.failures.release(stream, set(gone), FailureState.SKIPPED)
        if change.state is State.ACTIVE:
            self.data.expect(stream)
            self.data.failures.release(stream)
        return True

    @alone
    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""
        check_deployment(deployment)
        name = deployment.use_case
        known = self.data.deployments.get(name)
        if anew and known is not None:
            return False
        if over is not None and (known is None or known.revision != over.revision):
            return False
        longer = known is not None and adds_to(deployment.topic, known.topic)
        if known is not None and known.topic != deployment.topic and not longer:
            raise other_topic(name, known.topic, deployment.topic)
        everyone = self._everyone(deployment) if known is None else None
        there = self.data.tenants | ({} if everyone is None else {EVERYONE: everyone})
        lacking = [
            StreamId(name, tenant.name)
            for tenant in there.values()
            if tenant.state is not State.REMOVED
            and StreamId(name, tenant.name) not in self.data.streams
            and has_stream(deployment.topic, reserved=tenant.reserved)
        ]
        begin = lacking if deployment.all_tenants else []
        reads = [
            stream.id
            for stream in self.data.streams.values()
            if longer and stream.id.use_case == name and stream.state is not State.REMOVED
        ]
        topics = {stream: topic_of(deployment.topic, stream.tenant) for stream in (*begin, *reads)}
        self._refuse_shared(topics, deployment)
        self.data.changed()
        if everyone is not None:
            before = self.data.tenants.get(EVERYONE)
            self.data.tenants[EVERYONE] = (
                everyone if before is None else self._anew(everyone, before, time.time())
            )
        self.data.deployments[name] = replace(deployment, revision=self.data.revision)
        for stream in begin:
            self._begin(stream, deployment.topic)
        for stream in reads:
            self._read_more(stream, topics[stream])
        return True

    def _read_more(self, stream: StreamId, topic: str) -> None:
        known = self.data.streams[stream]
        topic_id = known.topic_id and as_list_id(known.topic_id, known.topic)
        left = tuple(as_list_id(one, known.topic) for one in known.left_ids)
        self.data.set_stream(stream, topic=topic, topic_id=topic_id, left_ids=left)

    def _everyone(self, deployment: Deployment) -> Tenant | None:
        """The reserved tenant, if it begins with a use case that is new."""
        known = self.data.tenants.get(EVERYONE)
        if not is_plain(deployment.topic) or (known is not None and _goes_on(known, deployment)):
            return None
        return Tenant(EVERYONE, reserved=True)

    @alone
    def deploy_together(self, deployments: Sequence[Deployment]) -> None:
        """Add or replace use cases, all of them or none."""
        before = dict(self.data.deployments), dict(self.data.streams), dict(self.data.tenants)
        try:
            for deployment in deployments:
                self.deploy(deployment)
        except ConfigError:
            self.data.deployments, self.data.streams, self.data.tenants = before
            raise

    @alone
    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""
        return [deployment for _, deployment in sorted(self.data.deployments.items())]

    def _set_tenant(self, name: str, *, removed_too: bool = False, **values: Any) -> None:
        known = self.data.tenants.get(name)
        if known is None:
            raise no_tenant(name)
        if known.state is State.REMOVED and not removed_too:
            raise tenant_removed(name)
        self.data.changed()
        self.data.tenants[name] = replace(known, **values)

    def _for_all(self, names: Sequence[str]) -> dict[StreamId, str]:
        return {
            StreamId(deployment.use_case, name): topic_of(deployment.topic, name)
            for deployment in self.data.deployments.values()
            if deployment.all_tenants
            for name in names
            if has_stream(deployment.topic, reserved=name == EVERYONE)
        }

    @alone
    def why_shared(
        self, wanted: Mapping[StreamId, Collection[str]]
    ) -> dict[StreamId, dict[str, str]]:
        """Of topics that streams would read those that are another tenant's, each with why."""
        return told(self._doubtful(wanted), self._there())

    def _refuse_shared(self, wanted: dict[StreamId, str], *new: Deployment) -> None:
        found = self._doubtful({one: topics_of(text) for one, text in wanted.items()}, *new)
        refuse_doubts(wanted, {one.other: one.stream for one in found}, self._there())

    def _doubtful(
        self, wanted: Mapping[StreamId, Collection[str]], *new: Deployment
    ) -> list[Doubt]:
        known = [*self.data.deployments.values(), *new]
        return doubtful(wanted, {deployed.use_case: deployed.topic for deployed in known})

    def _there(self) -> set[StreamId]:
        streams = self.data.streams.items()
        return {name for name, stream in streams if stream.state is not State.REMOVED}

    def _begin(self, stream: StreamId, template: str) -> None:
        known = self.data.streams.get(stream)
        first = self.data.tenants[stream.tenant].generation
        epoch, left = first, tuple[str, ...]()
        if known is not None:
            epoch = max(known.epoch + 1, first)
            left = ids_left(known.left_ids, known.topic_id, None)
        topic = topic_of(template, stream.tenant)
        self.data.streams[stream] = Stream(stream, topic, epoch=epoch, left_ids=left)
        self._empty(stream)

    def _forget_tenant(self, known: Tenant) -> int:
        """Leave nothing of an earlier tenant to the next of its name; the next's generation."""
        streams = [
            stream for stream in self.data.streams.values() if stream.id.tenant == known.name
        ]
        for stream in streams:
            self.data.set_stream(stream.id, reason=None)
            self._empty(stream.id)
        return max([known.generation, *(stream.epoch for stream in streams)]) + 1

    def _empty(self, stream: StreamId) -> None:
        """Let no position of a stream be, and nothing that was recorded of it."""
        if stream in self.data.positions:
            self.data.deepen(stream)
        self.data.positions[stream] = {}
        self.data.state.forget(stream)
        self.data.failures.release(stream)
        recorded.leave_behind(self.data, stream)


def _goes_on(known: Tenant, deployment: Deployment) -> bool:
    """Whether who has the reserved name, or had it, has the streams of plain topics already.

    Raises:
        ConfigError: somebody removed it, or it is a customer.
    """
    of = EVERYONE, deployment.use_case, deployment.topic
    is_removed = known.state is State.REMOVED
    if known.reserved and is_removed:
        raise removed_for_all(*of)
    if not known.reserved and not is_removed:
        raise name_is_a_customers(*of)
    return known.reserved
