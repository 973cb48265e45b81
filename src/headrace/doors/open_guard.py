"""The door without a guard, for trying things out: everybody is the operator.

It is only for somebody alone at one machine, so whoever opens it has to say so by a flag, on an
address that others cannot reach. Even there a web page of anybody can make the browser send
requests; those carry ``Origin``, and a change from another one is refused.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from fastapi import Request

from headrace.doors.places import let_in
from headrace.doors.problems import Problem
from headrace.errors import ConfigError
from headrace.model.credentials import Caller, Role

log = structlog.get_logger(__name__)

TENANT_HEADER = "X-Tenant"


class OpenGuard:
    """A ``Doorkeeper`` that believes everybody."""

    def __init__(self, host: str, *, tenant_from_header: bool = False) -> None:
        """Warn, and open the door.

        Args:
            host: the address that is listened on.
            tenant_from_header: the caller is a sender of the tenant in ``X-Tenant``, in place of
                an operator.

        Raises:
            ConfigError: others than this machine can reach the address.
        """
        refuse_reachable(host)
        self._tenant_from_header = tenant_from_header
        log.warning("no credentials are asked for: everybody on this machine may do everything")

    async def of(self, request: Request) -> Caller:
        """Who sends this request, as it says itself.

        Raises:
            Problem: 403, a page of another site made the browser send it; 400, it names no tenant.
        """
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise Problem(403, "forged", f"a page of {origin} may not call this")
        caller = Caller("anybody", Role.OPERATOR)
        if self._tenant_from_header:
            tenant = request.headers.get(TENANT_HEADER)
            if tenant is None:
                raise Problem(400, "bad-request", f"name the tenant in the header {TENANT_HEADER}")
            caller = Caller("anybody", Role.SENDER, tenant)
        let_in(request, caller)
        return caller


def refuse_reachable(host: str) -> None:
    """Raise ``ConfigError`` unless an address can be reached from this machine alone."""
    if not is_loopback(host):
        raise ConfigError(
            f"without credentials only this machine may call, and {host} can be reached by others; "
            "listen on 127.0.0.1, or leave --insecure-no-auth away"
        )


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
