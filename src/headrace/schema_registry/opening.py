"""A registry made out of settings, behind its door: where its real parts are wired."""

from __future__ import annotations

from fastapi import FastAPI

from headrace.doors.door import RequestLimits, guard_of, install_door, listening_of
from headrace.doors.open_guard import OpenGuard
from headrace.doors.serving import Listening
from headrace.ports import Store
from headrace.schema_registry.app import RegistryParts, registry_app
from headrace.schema_registry.client_form import ClientForm
from headrace.schema_registry.judges import JudgesApart
from headrace.schema_registry.owners import Owners
from headrace.schema_registry.rooms import RoomLimits
from headrace.settings import Settings


def registry_of(settings: Settings, store: Store, *, insecure: bool = False) -> FastAPI:
    """The application behind its door.

    Args:
        settings: sections ``schema_registry``, ``doors``, and types of ``gateway``.
        store: where schemas are kept.
        insecure: nobody is asked for a key; on loopback only.

    Raises:
        ConfigError: the secret is missing, or ``insecure`` on an address that others reach.
    """
    chosen = settings.schema_registry
    guard = (
        OpenGuard(chosen.host)
        if insecure
        else guard_of(settings, store.keys, most_requests=chosen.most_requests)
    )
    owners = Owners(store, [type_.topic for type_ in settings.gateway.types.values()])
    kept = RoomLimits(
        chosen.tenant_bytes,
        chosen.tenant_versions,
        chosen.subject_bytes,
        chosen.subject_versions,
    )
    judges = JudgesApart(chosen.judges, chosen.judge_deadline)
    app = registry_app(RegistryParts(store, guard, judges, owners, kept))
    limits = RequestLimits(chosen.request_bytes, chosen.body_deadline, chosen.most_requests)
    install_door(app, guard, settings.doors, chosen.host, limits)
    # The last one added is the outermost: what the doors refuse is said in the clients' form too.
    app.add_middleware(ClientForm)
    return app


def registry_listening(settings: Settings) -> Listening:
    """Where the registry listens."""
    chosen = settings.schema_registry
    return listening_of(settings.doors, chosen.host, chosen.port, section="schema_registry")
