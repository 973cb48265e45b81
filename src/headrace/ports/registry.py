"""Whom there is to serve, and with what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from headrace.model.records import Deployment
from headrace.model.streams import State, Stopper, Stream, StreamId, Tenant, Throttle


class Registry(Protocol):
    """Tenants, use cases and their streams, as operators want them; a part of ``Store``.

    What is changed here raises the revision, so that drivers look again.
    """

    def tenants(self) -> list[Tenant]:
        """All tenants ever added, by name; removed ones too."""

    def add_tenant(self, tenant: Tenant, *, at_s: float | None = None) -> None:
        """Add a tenant with a stream for every deployment that is for all tenants.

        The reserved one (``model/everyone.py``) has those of topics for all, and customers all
        others. It is added by ``deploy``, and here only where it was removed.

        Where one of the same name was removed it is another customer, or may be: it gets a
        *generation*, above every epoch that was ever held of this name, and all that its streams do
        has epochs from there on. No position, no reason and nothing that was recorded of the
        earlier one stays, and no failure of it is open.

        Args:
            tenant: the one to add; who stopped it, its generation and when it was added again are
                given by the store. One that is suspended is so by an operator.
            at_s: seconds since 1970; None is now. One that was added again is told to be of no
                sooner than the history that its name has.

        Raises:
            ConfigError: it is there, cannot be added like this, or its name is reserved.
        """

    def add_tenants(
        self, tenants: Sequence[Tenant], *, skip_there: bool = False, at_s: float | None = None
    ) -> list[str]:
        """Add many tenants, each as ``add_tenant`` does, in one change: all of them or none.

        Args:
            tenants: the ones to add; no name comes twice.
            skip_there: leave those alone that are there; else they are a refusal.
            at_s: as for ``add_tenant``.

        Returns:
            the names that were added, in their order.

        Raises:
            ConfigError: one cannot be added like this, or is there; nothing was done.
        """

    def set_tenant_state(self, name: str, state: State, *, by: Stopper = Stopper.OPERATOR) -> None:
        """Suspend, resume or remove a tenant; removing also removes its streams.

        Removal keeps the positions as a record of how far it came; what was in flight may still
        commit. Its API keys are dropped. A removed tenant can only be added again.

        Raises:
            NotAllowed: ``by`` may not resume what somebody else has stopped.
        """

    def set_tenant_states(self, tenants: Sequence[Tenant], state: State) -> list[str]:
        """Suspend, resume or remove many tenants as an operator, in one change: all or none.

        Each as ``set_tenant_state`` does it.

        Args:
            tenants: as they were read; no name comes twice.
            state: the one that all are to have.

        Returns:
            the names whose state was another, in their order.

        Raises:
            ConfigError: one is removed and is not to be, or was added again since it was read;
                nothing was done.
            UnknownName: one was never added; nothing was done.
        """

    def set_weight(self, name: str, weight: float) -> None:
        """Set a tenant's weight, above 0."""

    def set_throttle(self, name: str, throttle: Throttle) -> None:
        """Set or lift a tenant's throttle."""

    def change_tenant(self, before: Tenant, after: Tenant) -> bool:
        """Set state, weight and throttle of a tenant together, if it is still as ``before``.

        False, and nothing done, if it is not. To remove it by this does all that
        ``set_tenant_state`` does. Both name the same tenant.

        Raises:
            ConfigError: ``before`` is removed, or a weight or throttle cannot be.
            UnknownName: it was never added.
        """

    def streams(self) -> list[Stream]:
        """All streams ever added, by use case and tenant; removed ones too."""

    def add_stream(self, stream: StreamId) -> None:
        """Add one stream of a known tenant and use case; a removed one starts afresh."""

    def why_shared(
        self, wanted: Mapping[StreamId, Collection[str]]
    ) -> dict[StreamId, dict[str, str]]:
        """Of topics that streams would read those that are another tenant's, each with why.

        For those that a pattern matches: of others it is refused when a stream is added. Many
        streams are asked about at once.
        """

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
        """Suspend, resume or remove one stream; ``reason`` is shown to people.

        To resume also retries what failed: its open failures become ``RETRIED``. Resumed in the
        name of a failure, a stream that somebody has stopped besides stays suspended.

        A driver names the ``epoch`` under which it saw what it decides for. Nothing is done where
        the stream has a later one: it was sent elsewhere, or somebody else has it. Of lanes whose
        records are ``gone`` from their log, it says so: what they are stopped at is over.

        Returns:
            Whether it was done.

        Raises:
            NotAllowed: ``by`` may not resume what somebody else has stopped.
        """

    def deploy(
        self, deployment: Deployment, *, anew: bool = False, over: Deployment | None = None
    ) -> bool:
        """Add or replace a use case; adds the streams of all tenants if it is for all.

        With the first one that reads a topic for all, the reserved tenant begins.

        With ``anew`` one that is there already is left alone, and the answer is False; with
        ``over``, as it was read, one that was deployed since, also as it was. Otherwise it
        has a larger ``revision`` from then on, also if nothing of it is other than before: drivers
        then answer it anew.

        Raises:
            ConfigError: it reads another topic than before, or one that is another tenant's; or it
                is the first of a topic for all, and the reserved tenant was removed, or a customer
                has its name.
        """

    def deploy_together(self, deployments: Sequence[Deployment]) -> None:
        """Add or replace use cases, all of them or none.

        Raises:
            ConfigError: one of them cannot be, as of ``deploy``.
        """

    def deployments(self) -> list[Deployment]:
        """Deployed use cases, by name."""
