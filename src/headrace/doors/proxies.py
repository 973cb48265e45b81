"""What a proxy in front says, believed only if it is one of ours.

Behind a proxy every request comes from the proxy's address, so it passes on the client's in
``X-Forwarded-For``, and, where it checks client certificates, who the certificate is for in
``X-Forwarded-Client-Cert`` (as Envoy writes it). Anybody can send these headers. So they count only
from addresses that are configured, and are removed from all other requests before anything inside
can see them.

Some proxies write the client's port behind its address, and brackets or quotes around it. All of
that is taken off: what is no address would be one client for all who count by addresses.

A certificate opens a door only if it is listed, with the caller that it stands for. Several in one
header are refused: only the last would be the proxy's word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from headrace.doors.guard import CERTIFIED
from headrace.model.credentials import Caller

_CERTIFICATE_HEADER = b"x-forwarded-client-cert"
_FORWARDED_FOR = b"x-forwarded-for"
#: [IPv6] or IPv4, and a port
_WITH_PORT = re.compile(r"\[([^\[\]]+)\](?::.*)?|([^:]+):[^:]*")
_FORWARDED = re.compile(rb"x-forwarded-.*|forwarded|x-real-ip", re.DOTALL)
#: key=value of an element, where a value with , ; or = stands in quotes
_PART = re.compile(r'([A-Za-z]+)=("(?:[^"\\]|\\.)*"|[^,;"]*)(;|$)')


class Proxies:
    """ASGI middleware: the client's address and certificate, as a trusted proxy says."""

    def __init__(
        self, app: ASGIApp, trusted: Sequence[str], certificates: Mapping[str, Caller]
    ) -> None:
        """Take the application, the proxies, and whom certificates stand for.

        Args:
            app: what answers.
            trusted: addresses and networks of proxies, such as 10.0.0.0/8.
            certificates: callers by one part of the header, such as ``URI=spiffe://prod/acme``.
        """
        self._app = app
        self._certificates = certificates
        self._forwarding = ProxyHeadersMiddleware(app, list(trusted))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with what is known of its client."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        if client is not None:
            client = address_in(client[0]), client[1]
            scope = {**scope, "client": client}
        if client is None or client[0] not in self._forwarding.trusted_hosts:
            kept = [header for header in scope["headers"] if not _FORWARDED.fullmatch(header[0])]
            await self._app({**scope, "headers": kept}, receive, send)
            return
        values = [value for name, value in scope["headers"] if name == _CERTIFICATE_HEADER]
        caller = self._certified(values[0].decode("latin-1")) if len(values) == 1 else None
        if caller is not None:
            scope = {**scope, CERTIFIED: caller}
        headers = [_without_ports(name, value) for name, value in scope["headers"]]
        await self._forwarding({**scope, "headers": headers}, receive, send)  # type: ignore[arg-type]

    def _certified(self, header: str) -> Caller | None:
        found = [self._certificates.get(certificate) for certificate in certificate_parts(header)]
        callers = [caller for caller in found if caller is not None]
        return callers[0] if callers else None


def address_in(text: str) -> str:
    """The address in an element of ``X-Forwarded-For``; what holds none is left as it is."""
    bare = text.strip().strip('"')
    match = _WITH_PORT.fullmatch(bare)
    found = bare if match is None else match[1] or match[2]
    try:
        address = ip_address(found)
        # A proxy that listens for both writes IPv4 so, and so is written who is trusted.
        return str(getattr(address, "ipv4_mapped", None) or address)
    except ValueError:
        return text.strip()


def _without_ports(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name != _FORWARDED_FOR:
        return name, value
    addresses = (address_in(part) for part in value.decode("latin-1").split(","))
    return name, ", ".join(addresses).encode("latin-1")


def certificate_parts(header: str) -> list[str]:
    """The parts of an ``X-Forwarded-Client-Cert`` header of one certificate, as ``key=value``.

    None of a header that cannot be read or is about several.
    """
    parts = []
    at = 0
    while at < len(header):
        match = _PART.match(header, at)
        if match is None:
            return []
        key, value, _ = match.groups()
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        parts.append(f"{key}={value}")
        at = match.end()
    return parts
