"""Who stands at a door, and what they may do.

A caller is never believed about who it is: tenant and role come from its credential alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

#: lines of the audit log that are kept; each new one drops the oldest beyond them
CHANGES_KEPT = 100_000
_WHO_CHARACTERS = 200
_ACTION_CHARACTERS = 500
_DETAIL_CHARACTERS = 4000


class Role(StrEnum):
    """What the bearer of a credential may do."""

    OPERATOR = "operator"  #: see and change everything, keys included
    VIEWER = "viewer"  #: see everything, change nothing, see no raw records and no keys
    #: see its own, suspend its own and resume what it has suspended; retry, skip, redrive its own
    TENANT = "tenant"
    SENDER = "sender"  #: send events of its tenant, at the ingest gateway alone
    #: see and register schemas, at the schema registry alone: its tenant's, or without one all
    SCHEMAS = "schemas"


#: a credential of these belongs to a tenant
OF_TENANT = frozenset({Role.TENANT, Role.SENDER})
#: a credential of these is for all tenants
FOR_ALL = frozenset({Role.OPERATOR, Role.VIEWER})


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose credential was checked."""

    #: for the audit log: ``key:<prefix>`` or ``jwt:<subject>``
    name: str
    role: Role
    #: of roles tenant and sender, and of schemas where it is for one; None for the others
    tenant: str | None = None
    #: of role schemas: those that it sees, see ``names``; None: all that role and tenant let it see
    subjects: str | None = None

    @property
    def held_as(self) -> str | None:
        """Whose part of turns, rates and places its requests take; None: of whom all is trusted.

        A key for some subjects alone is somebody's as a tenant's is, though it names none.
        """
        return self.name if self.tenant is None and self.subjects is not None else self.tenant


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as the store knows it: everything but the key itself."""

    #: public part: shown in lists and logs, unique
    prefix: str
    #: HMAC-SHA-256 of the whole key under the service's pepper
    digest: bytes
    role: Role
    tenant: str | None
    #: what people call it
    label: str
    created_at_s: float
    #: None: it does not expire
    expires_at_s: float | None = None
    #: None while it works
    revoked_at_s: float | None = None
    #: as of a caller
    subjects: str | None = None

    def works(self, now_s: float) -> bool:
        """Whether it opens a door now."""
        expired = self.expires_at_s is not None and self.expires_at_s <= now_s
        return self.revoked_at_s is None and not expired

    def ended(self, now_s: float, overlap_s: float) -> Key:
        """The same once it has a successor: it expires, or without an overlap it is revoked."""
        if overlap_s <= 0:
            return replace(self, revoked_at_s=now_s)
        ends_s = now_s + overlap_s
        sooner = self.expires_at_s is not None and self.expires_at_s < ends_s
        return self if sooner else replace(self, expires_at_s=ends_s)


def names(pattern: str | None, subject: str) -> bool:
    """Whether a subject is one of ``acme.*``, all that begin so, or of a name; None: of all."""
    if pattern is None:
        return True
    if pattern.endswith("*"):
        return subject.startswith(pattern.removesuffix("*"))
    return subject == pattern


def is_last(key: Key, all_keys: Iterable[Key], role: Role, now_s: float) -> bool:
    """Whether no key of a role works any more without this one, which does."""
    working = {other.prefix for other in all_keys if other.role is role and other.works(now_s)}
    return working == {key.prefix}


@dataclass(frozen=True, slots=True)
class Change:
    """A line of the audit log."""

    at_s: float
    #: name of the caller
    who: str
    #: such as ``PUT /v1/tenants/acme``
    action: str
    #: what it concerned; None where no tenant is concerned
    tenant: str | None
    #: HTTP status that it was answered with
    status: int
    #: JSON of what was asked, without secrets
    detail: str = ""
    #: given by the store, growing
    id: int | None = None
    #: of the tenant at that time; given by the store; None where there was none of this name
    generation: int | None = None

    def shortened(self) -> Change:
        """The same with texts cut, since callers choose how long these are."""
        return replace(
            self,
            who=_cut(self.who, _WHO_CHARACTERS),
            action=_cut(self.action, _ACTION_CHARACTERS),
            tenant=None if self.tenant is None else _cut(self.tenant, _WHO_CHARACTERS),
            detail=_cut(self.detail, _DETAIL_CHARACTERS),
        )


def _cut(text: str, most_characters: int) -> str:
    return text if len(text) <= most_characters else text[: most_characters - 1] + "…"
