"""Tokens that somebody else signed: JSON Web Tokens of one configured issuer.

Libraries do the cryptography; what goes wrong with tokens is what one lets them decide. So here
the algorithms are pinned and asymmetric, the key is chosen among those that the issuer publishes
and never by an address in the token, and ``iss``, ``aud``, ``exp`` and ``sub`` have to be there
and right. Which claims say tenant and role is configured.

How the issuer's keys are had is told in ``signers.py``. Tokens cannot be revoked; keep them
short-lived.

A tenant's name may be given to another customer. What was signed for the one before is refused: by
the time of signing, ``iat``, which such a token has to have. Whether the issuer still signs for the
one before is the issuer's to know.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import jwt

from headrace.doors.key_ring import REMEMBERED_S, unauthorized
from headrace.doors.problems import Problem, no_customers
from headrace.doors.remembered import Remembered
from headrace.doors.signers import Signers
from headrace.errors import ConfigError
from headrace.model.credentials import FOR_ALL, Caller, Role
from headrace.model.streams import TENANT_NAME
from headrace.settings.doors import Algorithm

ALGORITHMS: frozenset[str] = frozenset(get_args(Algorithm))
_MOST_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Whose tokens are believed, and what in them says tenant and role."""

    issuer: str
    audience: str
    #: address of the issuer's keys (JWKS), or a file of them
    keys: str | Path
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    #: by how much clocks may differ
    leeway_s: float = 30.0
    #: name of a claim, or a JSON pointer into them, such as /realm_access/roles
    tenant_claim: str = "tenant"
    role_claim: str = "role"

    def __post_init__(self) -> None:
        """Refuse what would make tokens worthless.

        Raises:
            ConfigError: an algorithm is not an asymmetric one.
        """
        wrong = sorted(set(self.algorithms) - ALGORITHMS)
        if wrong or not self.algorithms:
            known = ", ".join(sorted(ALGORITHMS))
            raise ConfigError(f"jwt algorithms {', '.join(wrong) or 'none'}: choose from {known}")


class Tokens:
    """Reads tokens of one issuer. Safe in several threads."""

    def __init__(
        self,
        rules: TokenRules,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        added_again_s: Callable[[str], float | None] = lambda _: None,
        may_be_customer: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Take the rules; the issuer is not asked before the first token.

        Args:
            rules: whose tokens are believed.
            clock: seconds since 1970.
            steady: seconds that never go back.
            added_again_s: since when a name is that of the tenant who has it now, by ``clock``;
                None: since ever.
            may_be_customer: whether a credential can be of this name.
        """
        self._rules = rules
        self._may_be_customer = may_be_customer
        self._added_again_s = added_again_s
        self._clock = clock
        self._steady = steady
        self._signers = Signers(rules.keys)
        self._remembered: Remembered[tuple[Caller, float]] = Remembered()

    def known(self, text: str, within_s: float = REMEMBERED_S) -> Caller | None:
        """The caller of a token that was checked so long ago at most; None says nothing."""
        found = self._remembered.get(token_name(text))
        if found is None:
            return None
        (caller, expires_at_s), at_s = found
        is_fresh = self._steady() - at_s < within_s
        return caller if is_fresh and self._clock() < expires_at_s else None

    def was_believed(self, text: str) -> bool:
        """Whether a token was right when it was checked last, however long ago that is."""
        return self._remembered.get(token_name(text)) is not None

    def caller(self, text: str) -> Caller | None:
        """Who a token stands for; None if it is not to be believed.

        Raises:
            Problem: 401, it was to be believed until it expired, was signed for an earlier
                tenant, or by a key that its issuer does not publish; 403, it is, but names no role,
                or no tenant that can have one; 503, the issuer's keys are not known at the moment.
            StoreUnavailable: nobody can say whose the tenant's name is.
        """
        claims = self._claims(text)
        if claims is None:
            self._remembered.drop(token_name(text))
            return None
        caller = self._caller_of(claims)
        if caller.tenant is not None:
            self._refuse_earlier(text, caller.tenant, claims.get("iat"))
            if not self._may_be_customer(caller.tenant):
                self._remembered.drop(token_name(text))
                raise no_customers(caller.tenant)
        self._remembered.put(token_name(text), (caller, float(claims["exp"])), self._steady())
        return caller

    def _refuse_earlier(self, text: str, tenant: str, told: object) -> None:
        since_s = self._added_again_s(tenant)
        if since_s is None:
            return
        # The issuer's clock may be ahead of ours, so who asks too early has to ask again.
        issued_s = float(told) if isinstance(told, int | float) else float("-inf")
        if issued_s - self._rules.leeway_s < since_s:
            # Or whoever shows it while this look is repeated would be believed for minutes.
            self._remembered.drop(token_name(text))
            raise unauthorized(
                "the token was issued before this tenant was added, or does not say when; get a "
                "new one"
            )

    def _claims(self, text: str) -> dict[str, Any] | None:
        if len(text) > _MOST_CHARACTERS:
            return None
        try:
            header = jwt.get_unverified_header(text)
            algorithm = header.get("alg")
            if algorithm not in self._rules.algorithms:
                return None
            signer = self._signers.find(header.get("kid"), algorithm)
            if signer is None:
                # No key, so nothing that could be guessed.
                self._remembered.drop(token_name(text))
                raise unauthorized(
                    "the token's issuer publishes no key of its id and algorithm; get a new token"
                )
            claims: dict[str, Any] = jwt.decode(
                text,
                signer.key,
                algorithms=[algorithm],
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                leeway=self._rules.leeway_s,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
            for name in ("exp", "iat"):
                float(claims.get(name, 0))  # times are reckoned with
        except jwt.ExpiredSignatureError as exc:
            # Its signature was right, so it is no guess.
            raise unauthorized("the token has expired") from exc
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return None
        if not claims["sub"].strip():
            raise unauthorized("the token's sub is empty: it has to say who calls")
        return claims

    def _caller_of(self, claims: Mapping[str, Any]) -> Caller:
        name = f"jwt:{claims['sub']}"
        said = _claim(claims, self._rules.role_claim)
        roles = {role for role in Role if role in (said if isinstance(said, list) else [said])}
        if len(roles) != 1:
            raise Problem(403, "forbidden", "the token has to name one role of Headrace")
        role = roles.pop()
        if role in FOR_ALL:
            return Caller(name, role)
        # Role schemas too: a claim that is left out must not make a tenant's token one for all.
        tenant = _claim(claims, self._rules.tenant_claim)
        if not (isinstance(tenant, str) and TENANT_NAME.fullmatch(tenant)):
            raise Problem(403, "forbidden", "the token names no tenant")
        return Caller(name, role, tenant)


def token_name(text: str) -> str:
    """What a token is remembered and counted by."""
    return hashlib.sha256(text.encode()).hexdigest()


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    if not name.startswith("/"):
        return claims.get(name)
    value: Any = claims
    for part in name[1:].split("/"):
        if not isinstance(value, dict):
            return None
        value = value.get(part.replace("~1", "/").replace("~0", "~"))
    return value
