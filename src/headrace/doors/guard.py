"""Who calls: from a credential to a caller, and to nothing else.

Three kinds of credentials open a door: an API key (``Authorization: Bearer hr_...``), a token that
an issuer signed (``tokens``), and a session cookie, which is a signed note that somebody has shown
a key. A fourth, the certificate that a trusted proxy saw, works only where it is configured
(``proxies``). The tenant comes from the credential alone, never from the request.

Whether a key is right is said by ``key_ring``, which also keeps those who guess waiting.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Annotated, Protocol

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from headrace.doors.attempts import Attempts
from headrace.doors.key_ring import (
    REMEMBERED_S,
    USABLE_S,
    KeyRing,
    Shown,
    unauthorized,
    unknown_credential,
)
from headrace.doors.keys import digest_of, is_prefix, prefix_of
from headrace.doors.names import Names
from headrace.doors.places import let_in
from headrace.doors.problems import Problem, no_customers
from headrace.doors.renewals import Renewals
from headrace.doors.tokens import TokenRules, Tokens, token_name
from headrace.model.credentials import FOR_ALL, Caller, Key, Role
from headrace.model.everyone import EVERYONE
from headrace.ports import Keys

#: over HTTP, and what it is called over TLS, where no other name of the domain can set it
SESSION_COOKIE = "headrace_session"
SESSION_COOKIE_OVER_TLS = f"__Host-{SESSION_COOKIE}"
SESSION_S = 12 * 3600
#: header that a page has to send with a change, and that no other site can make a browser send
CHANGE_HEADER = "X-Headrace"
#: where ``proxies`` puts who a certificate stands for
CERTIFIED = "headrace.certified"
_READING = ("GET", "HEAD", "OPTIONS")


class Doorkeeper(Protocol):
    """What ``calling`` asks; ``Guard``, or ``OpenGuard`` where nobody is asked for a key."""

    async def of(self, request: Request) -> Caller:
        """Who sends this request; raises ``Problem``."""


class Guard:
    """Checks credentials. Safe in several threads."""

    def __init__(
        self,
        keys: Keys,
        secret: bytes,
        *,
        tokens: TokenRules | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        attempts: Attempts | None = None,
    ) -> None:
        """Take where keys are, the service's secret, and whose tokens are believed, if anybody's.

        Args:
            keys: where API keys are looked up.
            secret: as ``secret_of`` gives it.
            tokens: the issuer of tokens; None: no token opens the door.
            clock: seconds since 1970.
            steady: seconds that never go back; what was looked up ages by them.
            attempts: counts wrong credentials.
        """
        self._secret = secret
        self._may_be_customer = keys.may_be_customer
        names = Names(keys, steady), keys.may_be_customer
        self._tokens = None if tokens is None else Tokens(tokens, clock, steady, *names)
        self._clock = clock
        self._attempts = attempts or Attempts()
        self._ring = KeyRing(keys, clock, self._attempts, steady)
        self._renewals = Renewals()
        #: credentials that were not shown before and are looked up at once
        self.most_strangers = 500
        self._strangers = 0

    async def of(self, request: Request) -> Caller:
        """Who sends this request; ``request.state.caller`` from then on.

        Raises:
            Problem: 400 two headers say who it is; 401 nobody that is known; 403 a page of another
                site made the browser send it; 429 too many wrong credentials came from there; 503
                too many credentials that were not shown before are looked up, or the tenant has its
                part of the places.
        """
        authorization = _only(request.headers.getlist("authorization"))
        cookie = request.cookies.get(session_cookie(request)) if authorization is None else None
        if authorization is None and cookie is None:
            certified: Caller | None = request.scope.get(CERTIFIED)
            if certified is not None:
                if _is_from_a_page(request):
                    # Browsers show a certificate whatever page asked, like a cookie.
                    refuse_forged(request)
                await self._refuse_nobodys(certified)
                let_in(request, certified)
                return certified
        if cookie is not None:
            refuse_forged(request)
        caller = self.known(authorization, cookie)
        if caller is None:
            address = request.client.host if request.client else ""
            caller = await self._looked_up(authorization, cookie, address)
        let_in(request, caller)
        return caller

    async def _refuse_nobodys(self, certified: Caller) -> None:
        """Refuse a certificate of who is no customer; of other names the store is not asked."""
        tenant = certified.tenant
        if tenant == EVERYONE and not await run_in_threadpool(self._may_be_customer, tenant):
            raise no_customers(tenant)

    async def _looked_up(
        self, authorization: str | None, cookie: str | None, address: str
    ) -> Caller:
        look = partial(self.caller, authorization, cookie, address=address)
        believed = self.known(authorization, cookie, USABLE_S)
        if believed is None:
            return await self._of_stranger(look)
        return await self._renewals.renewed(authorization or cookie or "", believed, look)

    async def _of_stranger(self, look: Callable[[], Caller]) -> Caller:
        """Look up, unless that would leave too little room for those who were let in before."""
        if self._strangers >= self.most_strangers:
            busy = "as many credentials as may be looked up at once are; try again"
            raise Problem(503, "unavailable", busy, headers={"Retry-After": "1"})
        self._strangers += 1
        try:
            return await run_in_threadpool(look)
        finally:
            self._strangers -= 1

    def known(
        self, authorization: str | None, cookie: str | None = None, within_s: float = REMEMBERED_S
    ) -> Caller | None:
        """The caller, if he was right so long ago at most; from memory alone, None says nothing."""
        bearer = _bearer(authorization)
        if self._tokens is not None and bearer is not None and prefix_of(bearer) is None:
            return self._tokens.known(bearer, within_s)
        shown = self._shown(bearer, cookie)
        key = None if shown is None else self._ring.known(shown, within_s)
        return None if key is None else _caller(key)

    def caller(
        self, authorization: str | None, cookie: str | None = None, *, address: str = ""
    ) -> Caller:
        """Who shows this credential; looks into the store, so it may take a moment.

        Args:
            authorization: the header, such as ``Bearer hr_...``.
            cookie: value of the session cookie; looked at only without the header.
            address: where it comes from, for counting failures.

        Raises:
            Problem: 401 nobody that is known; 403 a token without a role; 429 too many wrong
                credentials came from there.
            StoreUnavailable: keys cannot be looked up.
        """
        bearer = _bearer(authorization)
        if authorization is None and cookie is None:
            raise unauthorized("show an API key: 'Authorization: Bearer hr_...'")
        if self._tokens is not None and bearer is not None and prefix_of(bearer) is None:
            return self._by_token(self._tokens, bearer, address)
        return _caller(self._key(self._shown(bearer, cookie), address))

    def session(self, text: str, *, address: str = "") -> tuple[Caller, str]:
        """Begin a session by an API key: who that is, and the value of the cookie.

        Raises:
            Problem: as ``caller``.
        """
        key = self._key(self._of_key(text), address)
        ends_at_s = int(self._clock()) + SESSION_S
        signature = self._signature(key.prefix, ends_at_s, key.digest)
        return _caller(key), f"{key.prefix}.{ends_at_s}.{signature}"

    def _key(self, shown: Shown | None, address: str) -> Key:
        if shown is not None:
            return self._ring.checked(shown, address)
        # Nothing that could be a key; it costs the store nothing, but it is counted.
        self._attempts.check(address, "")
        self._attempts.failed(address, "")
        raise unknown_credential()

    def _by_token(self, tokens: Tokens, text: str, address: str) -> Caller:
        name = token_name(text)
        if not tokens.was_believed(text):
            # Whoever was let in before is not slowed by neighbours who guess.
            self._attempts.check(address, name)
        caller = tokens.caller(text)
        if caller is None:
            self._attempts.failed(address, name)
            raise unknown_credential()
        return caller

    def _shown(self, bearer: str | None, cookie: str | None) -> Shown | None:
        if bearer is not None:
            return self._of_key(bearer)
        return None if cookie is None else self._of_session(cookie)

    def _of_key(self, text: str) -> Shown | None:
        prefix = prefix_of(text)
        if prefix is None:
            return None
        digest = digest_of(text, self._secret)
        return Shown(prefix, lambda known: hmac.compare_digest(digest, known))

    def _of_session(self, cookie: str) -> Shown | None:
        prefix, _, rest = cookie.partition(".")
        ends, _, signature = rest.partition(".")
        if not (ends.isascii() and ends.isdigit() and len(ends) <= 12 and signature.isascii()):
            return None
        ends_at_s = int(ends)

        def fits(digest: bytes) -> bool:
            expected = self._signature(prefix, ends_at_s, digest)
            return hmac.compare_digest(signature, expected) and self._clock() < ends_at_s

        return Shown(prefix, fits) if is_prefix(prefix) else None

    def _signature(self, prefix: str, ends_at_s: int, digest: bytes) -> str:
        # With the digest in it, a session ends with its key even if another gets the same prefix.
        text = f"session\0{prefix}\0{ends_at_s}\0".encode() + digest
        return hmac.digest(self._secret, text, "sha256").hex()


async def calling(request: Request) -> Caller:
    """FastAPI dependency: who calls. The guard is ``app.state.guard``."""
    guard: Doorkeeper = request.app.state.guard
    return await guard.of(request)


def allowed(*roles: Role) -> Callable[..., Awaitable[Caller]]:
    """FastAPI dependency: who calls, if it has one of these roles; else a 403 ``Problem``."""

    async def check(caller: Annotated[Caller, Depends(calling)]) -> Caller:
        if caller.role not in roles:
            raise forbidden(caller, roles)
        return caller

    return check


def forbidden(caller: Caller, roles: Collection[Role]) -> Problem:
    """The refusal of somebody who is known and may not, with the roles that may."""
    may = " or ".join(role for role in Role if role in roles)
    return Problem(403, "forbidden", f"role {caller.role} may not do this; role {may} may")


def own(caller: Caller, tenant: str) -> None:
    """Refuse a tenant that is not the caller's, as if it were not there.

    Raises:
        Problem: 404, the same as for a tenant that nobody added.
    """
    if caller.role not in FOR_ALL and caller.tenant != tenant:
        detail = f"this credential knows no tenant {tenant}; role operator or viewer sees all"
        raise Problem(404, "unknown-name", detail)


def _caller(key: Key) -> Caller:
    return Caller(f"key:{key.prefix}", key.role, key.tenant, key.subjects)


def _only(shown: Sequence[str]) -> str | None:
    """The header that is there once; what stands before us may have looked at another one."""
    if len(shown) > 1:
        raise Problem(400, "bad-request", "there is more than one Authorization header")
    return shown[0] if shown else None


def _bearer(authorization: str | None) -> str | None:
    """What stands behind ``Bearer``; "" for another scheme, None without a header."""
    if authorization is None:
        return None
    scheme, _, text = authorization.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def over_tls(request: Request) -> bool:
    """Whether it came over TLS, to us or to a proxy that is believed."""
    return request.url.scheme == "https"


def session_cookie(request: Request) -> str:
    """What the cookie of a session is called on this way."""
    return SESSION_COOKIE_OVER_TLS if over_tls(request) else SESSION_COOKIE


def refuse_forged(request: Request) -> None:
    """Refuse a change that a page of another site may have made a browser send.

    Raises:
        Problem: 403, it has not the header that no other site can make a browser send.
    """
    if request.method not in _READING and CHANGE_HEADER not in request.headers:
        raise Problem(403, "forged", f"a change by a page needs the header '{CHANGE_HEADER}: 1'")


def _is_from_a_page(request: Request) -> bool:
    """Whether a browser sent it: each says where a change comes from, and other senders do not."""
    return "origin" in request.headers or "sec-fetch-site" in request.headers
