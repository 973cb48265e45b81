"""Everything around an application that is to be open to strangers, in one call.

What is forgotten at one of two doors is a hole, so both are put together here: guard, problems,
limits, proxies, headers. What an application does behind it is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from fastapi import FastAPI

from headrace.doors.bounds import Bounds
from headrace.doors.cookies import OwnCookies
from headrace.doors.guard import Doorkeeper, Guard
from headrace.doors.headers import Hosts, SafeHeaders
from headrace.doors.open_guard import is_loopback
from headrace.doors.problems import install_problems
from headrace.doors.proxies import Proxies
from headrace.doors.secret import secret_of
from headrace.doors.serving import Listening, Tls
from headrace.doors.tokens import TokenRules
from headrace.model.credentials import Caller
from headrace.ports import Keys
from headrace.settings import Settings
from headrace.settings.doors import DoorsSettings

log = structlog.get_logger(__name__)

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request, and all at once, may take."""

    max_body_bytes: int = 1024 * 1024
    #: until a body is there
    body_deadline_s: float = 30.0
    #: answered at once
    most_requests: int = 1000


def install_door(
    app: FastAPI, guard: Doorkeeper, settings: DoorsSettings, host: str, limits: RequestLimits
) -> None:
    """Put the door around an application; its routes use ``calling``, ``allowed`` and ``own``.

    Args:
        app: what answers behind the door.
        guard: who says who calls; ``app.state.guard`` from then on.
        settings: the section ``doors`` of the YAML file.
        host: the address that is listened on.
        limits: what requests may take.
    """
    app.state.guard = guard
    install_problems(app)
    # The last one added is the outermost.
    app.add_middleware(
        Bounds,
        max_body_bytes=limits.max_body_bytes,
        body_deadline_s=limits.body_deadline_s,
        most_requests=limits.most_requests,
    )
    app.add_middleware(OwnCookies)
    app.add_middleware(Hosts, names=_names(settings.hosts, host))
    app.add_middleware(SafeHeaders)
    app.add_middleware(
        Proxies,
        trusted=settings.proxies,
        certificates={
            part: Caller(f"certificate:{part}", certificate.role, certificate.tenant)
            for part, certificate in settings.certificates.items()
        },
    )


def listening_of(
    settings: DoorsSettings, host: str, port: int, drain_s: float = 10.0, *, section: str = ""
) -> Listening:
    """Where a door listens, with TLS if the settings say so.

    Args:
        settings: section ``doors``.
        host: of the door.
        port: of the door.
        drain_s: how long requests that run may go on once the server is to end.
        section: of the YAML file, where host and port stand.
    """
    tls = settings.tls
    if tls is None and not settings.proxies and not is_loopback(host):
        log.warning(
            "keys travel in the clear; name doors.tls, or in doors.proxies what has it",
            url=f"http://{host}:{port}",
        )
    files = None if tls is None else Tls(tls.certificate_file, tls.key_file)
    return Listening(host, port, files, drain_s, section=section)


def guard_of(
    settings: Settings,
    keys: Keys,
    clock: Callable[[], float] = time.time,
    *,
    most_requests: int = 1000,
) -> Guard:
    """Who asks everybody for a key or a token, as the settings say.

    Args:
        settings: section ``doors``, and the secret.
        keys: the keys that there are.
        clock: seconds since 1970.
        most_requests: as the limits of the door have it.

    Raises:
        ConfigError: the secret is missing, or an algorithm of tokens is not an asymmetric one.
    """
    guard = Guard(keys, secret_of(settings), tokens=token_rules_of(settings.doors), clock=clock)
    # While a store hangs each of them waits, and those who are believed without it need room.
    guard.most_strangers = max(1, most_requests // 2)
    return guard


def token_rules_of(settings: DoorsSettings) -> TokenRules | None:
    """Whose tokens are believed, if anybody's.

    Raises:
        ConfigError: an algorithm is not an asymmetric one.
    """
    jwt = settings.jwt
    if jwt is None:
        return None
    keys = jwt.jwks_url if jwt.jwks_url is not None else jwt.jwks_file
    assert keys is not None, "the settings have checked that"
    return TokenRules(
        issuer=jwt.issuer,
        audience=jwt.audience,
        keys=keys,
        algorithms=tuple(jwt.algorithms),
        leeway_s=jwt.leeway,
        tenant_claim=jwt.tenant_claim,
        role_claim=jwt.role_claim,
    )


def _names(hosts: Sequence[str], host: str) -> list[str]:
    """Names that are answered to: this machine's alone where only it can call, else any."""
    if not hosts and not is_loopback(host):
        return []
    return [*hosts, *_LOCAL_NAMES, host]
