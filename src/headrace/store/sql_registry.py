"""Tenants, streams and deployments: each method a transaction around a function of the room."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from headrace.model.records import Deployment
from headrace.model.streams import State, Stopper, Stream, StreamId, Tenant, Throttle
from headrace.store import deployments, intents, own_topics, stops, streams, tenant_states, tenants
from headrace.store.database import Database
from headrace.store.revision import changing


class SqlRegistry:
    """``headrace.ports.Registry`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name; removed ones too."""
        with self._database.read() as connection:
            return tenants.every(connection)

    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant, or a removed one anew, with a stream for every use case for all."""
        with changing(self._database) as connection:
            tenants.add(connection, tenant, time.time() if at_s is None else at_s)
            intents.begin_anew(connection, {tenant.name})

    def add_tenants(
        self, tenants_: Sequence[Tenant], *, skip_there: bool = False, at_s: float | None = None
    ) -> list[str]:
        """Add many tenants with their streams, all of them or none; the names that were added."""
        with changing(self._database) as connection:
            now_s = time.time() if at_s is None else at_s
            added = tenants.add_many(connection, tenants_, now_s, skip_there=skip_there)
            intents.begin_anew(connection, added.again)
            return list(added.names)

    def set_tenant_state(self, name: str, state: State, *, by: Stopper = Stopper.OPERATOR) -> None:
        """Suspend, resume or remove a tenant; removing also removes its streams."""
        with changing(self._database) as connection:
            tenants.set_state(connection, name, state, by)

    def set_tenant_states(self, tenants_: Sequence[Tenant], state: State) -> list[str]:
        """Suspend, resume or remove many tenants, all of them or none; the names that changed."""
        with changing(self._database) as connection:
            return tenant_states.set_states(connection, tenants_, state)

    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight, above 0."""
        with changing(self._database) as connection:
            tenants.set_weight(connection, name, weight)

    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""
        with changing(self._database) as connection:
            tenants.set_throttle(connection, name, throttle)

    def change_tenant(self, before: Tenant, after: Tenant) -> bool:
        """Set state, weight and throttle of a tenant together; False if it is not as before."""
        with changing(self._database) as connection:
            return tenants.change(connection, before, after)

    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant; removed ones too."""
        with self._database.read() as connection:
            return streams.every(connection)

    def add_stream(self, stream: StreamId) -> None:
        """Add one stream of a known tenant and use case; a removed one starts afresh."""
        with changing(self._database) as connection:
            streams.add(connection, stream)
            intents.begin_anew(connection, {stream.tenant})

    def why_shared(
        self, wanted: Mapping[StreamId, Collection[str]]
    ) -> dict[StreamId, dict[str, str]]:
        """Of topics that streams would read those that are another tenant's, each with why."""
        with self._database.read() as connection:
            return own_topics.why_shared(connection, wanted)

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
        """Suspend, resume or remove one stream; ``reason`` is shown to people."""
        with changing(self._database) as connection:
            is_done = streams.set_state(connection, stream, state, reason, by, epoch=epoch)
            if is_done and gone:
                stops.leave_behind(connection, stream, gone)
            return is_done

    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all."""
        with changing(self._database) as connection:
            return deployments.deploy(connection, deployment, time.time(), anew=anew, over=over)

    def deploy_together(self, deployments_: Sequence[Deployment]) -> None:
        """Add or replace use cases, all of them or none."""
        with changing(self._database) as connection:
            for deployment in deployments_:
                deployments.deploy(connection, deployment, time.time())

    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""
        with self._database.read() as connection:
            return deployments.every(connection)
