"""The console, made out of settings, behind its door.

Whoever starts it for the first time has no key yet, and must not need another command to get one.
So as long as no key of an operator works, one is made at the start and shown to whoever started
it, once, as a link that logs in. Keys are asked for from the first moment on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fastapi import FastAPI

from headrace.console.api import ApiParts, create_app
from headrace.console.live import Live
from headrace.doors.door import RequestLimits, guard_of, install_door, listening_of
from headrace.doors.keys import new_key
from headrace.doors.open_guard import OpenGuard
from headrace.doors.protocol import ClientTimeouts
from headrace.doors.secret import secret_of
from headrace.doors.serving import Listening, serving
from headrace.model.credentials import Role
from headrace.operating.tools import DecisionTools
from headrace.ports import Clock, Keys, Store
from headrace.settings import Settings

#: seeks name a few offsets, keys a label; nothing here is longer
_MOST_BODY_BYTES = 256 * 1024


def console_app(
    settings: Settings,
    store: Store,
    tools: DecisionTools,
    clock: Clock,
    *,
    insecure: bool = False,
    own_registry: bool = True,
) -> FastAPI:
    """The app with everything around it.

    Args:
        settings: sections ``console`` and ``doors``.
        store: what it shows and changes.
        tools: reach Kafka.
        clock: the time.
        insecure: nobody is asked for a key; on loopback only.
        own_registry: drivers ask the registry whose schemas are in the store.

    Raises:
        ConfigError: the secret is missing, or ``insecure`` on an address that others reach.
    """
    chosen, secret = settings.console, secret_of(settings)
    # A live view is a request that does not end.
    at_once = chosen.most_clients + chosen.most_requests
    guard = (
        OpenGuard(chosen.host)
        if insecure
        else guard_of(settings, store.keys, clock.now_s, most_requests=at_once)
    )
    app = create_app(
        ApiParts(
            store,
            tools,
            guard,
            secret,
            clock,
            most_clients=chosen.most_clients,
            group_prefix=settings.driver.mirror_prefix,
            most_metric_tenants=chosen.most_metric_tenants,
            own_registry=own_registry,
        )
    )
    limits = RequestLimits(max_body_bytes=_MOST_BODY_BYTES, most_requests=at_once)
    install_door(app, guard, settings.doors, chosen.host, limits)
    return app


def console_listening(settings: Settings) -> Listening:
    """Where the console listens."""
    chosen = settings.console
    found = listening_of(settings.doors, chosen.host, chosen.port, section="console")
    most = 2 * (chosen.most_clients + chosen.most_requests)
    return replace(found, patience=ClientTimeouts(most_connections=most))


@contextmanager
def console_serving(app: FastAPI, listening: Listening) -> Iterator[str]:
    """Serve the console in a thread meanwhile; yields its URL.

    Raises:
        ConfigError: the address or the TLS files cannot be used.
        ServerError: it could not start.
    """
    with serving(app, listening) as url:
        try:
            yield url
        finally:
            # Live views would not end by themselves, and the server waits for them.
            view: Live = app.state.live
            view.end()


def first_key(keys: Keys, secret: bytes, now_s: float) -> str | None:
    """A key of an operator if none works, to be shown once; None if there is one."""
    if any(key.role is Role.OPERATOR and key.works(now_s) for key in keys.every()):
        return None
    text, key = new_key(Role.OPERATOR, None, "made at the first start", secret, now_s)
    keys.add(key)
    return text


def login_link(url: str, key: str) -> str:
    """What logs a browser in; the key stands behind `#`, so it is sent to no server."""
    return f"{url}/#key={key}"
