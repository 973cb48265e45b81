"""API keys: what one looks like, and what is kept of it.

A key is shown once and never again, so only a digest is kept; and since whoever reads the database
must not be able to try keys against it either, the digest is an HMAC under the *service's secret*,
which is not in the database. Keys are random enough (256 bits) to need no slow hash.

A key is ``hr_<prefix>_<secret part>``: ``hr_`` lets scanners of repositories find one that was
committed by mistake, and the prefix names it in lists and logs. How keys are checked is in
``guard``.
"""

from __future__ import annotations

import hmac
import re
import secrets
import string
from dataclasses import replace

from headrace.errors import ConfigError, UnknownName, ended_key
from headrace.model.credentials import FOR_ALL, OF_TENANT, Key, Role
from headrace.ports import Keys

_PREFIX = re.compile(r"[0-9a-z]{8}")
_FORM = re.compile(rf"hr_({_PREFIX.pattern})_[0-9A-Za-z_-]{{43}}")
_PREFIX_LETTERS = string.digits + string.ascii_lowercase
_PREFIX_CHARACTERS = 8
_SECRET_BYTES = 32
_LABEL_CHARACTERS = 100
_SUBJECTS_CHARACTERS = 400


def new_key(
    role: Role,
    tenant: str | None,
    label: str,
    secret: bytes,
    now_s: float,
    *,
    expires_at_s: float | None = None,
) -> tuple[str, Key]:
    """Make a key: the text to show once, and what to keep of it.

    Raises:
        ConfigError: a role that belongs to a tenant has none, or another one has one; the key
            would have expired already; or the label is too long.
    """
    _check(role, tenant, label)
    if expires_at_s is not None and not expires_at_s > now_s:
        raise ConfigError("the key would have expired already; give it some time")
    prefix = "".join(secrets.choice(_PREFIX_LETTERS) for _ in range(_PREFIX_CHARACTERS))
    text = f"hr_{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return text, Key(
        prefix=prefix,
        digest=digest_of(text, secret),
        role=role,
        tenant=tenant,
        label=label,
        created_at_s=now_s,
        expires_at_s=expires_at_s,
    )


def bound_to(key: Key, subjects: str | None) -> Key:
    """A key, for some subjects alone: one by its name, or all that begin so, as ``acme.*``.

    Raises:
        ConfigError: its role has to do with no subjects, or these can be none.
    """
    if subjects is None:
        return key
    if key.role is not Role.SCHEMAS:
        raise ConfigError(f"a key of role {key.role} is for no subjects; {Role.SCHEMAS} may be")
    name = subjects.removesuffix("*")
    if not subjects.isprintable() or "*" in name or not 0 < len(subjects) <= _SUBJECTS_CHARACTERS:
        raise ConfigError(
            "subjects are the name of one, or how their names begin with a * behind it, such as "
            f"acme.*; at most {_SUBJECTS_CHARACTERS} characters"
        )
    return replace(key, subjects=subjects)


def rotate(
    keys: Keys, prefix: str, secret: bytes, now_s: float, *, overlap_s: float
) -> tuple[str, Key]:
    """Put a new key beside one, which goes on working for ``overlap_s``; both or neither.

    Without an overlap the old one is revoked, which no clock that is set back undoes.
    The new one is for the same, under the same label, and expires as long after now as the old one
    was to after its creation.

    Raises:
        ConfigError: the key does not work any more.
        UnknownName: there is no such key.
    """
    old = keys.find(prefix)
    if old is None:
        raise UnknownName(f"there is no key {prefix}; 'headrace keys list' shows them")
    if not old.works(now_s):
        raise ended_key(prefix)
    lives_s = None if old.expires_at_s is None else old.expires_at_s - old.created_at_s
    text, key = new_key(
        old.role,
        old.tenant,
        old.label,
        secret,
        now_s,
        expires_at_s=None if lives_s is None else now_s + lives_s,
    )
    key = bound_to(key, old.subjects)
    keys.succeed(prefix, key, now_s, overlap_s=overlap_s)
    return text, key


def prefix_of(text: str) -> str | None:
    """The prefix of what looks like a key; None if it does not."""
    match = _FORM.fullmatch(text)
    return match[1] if match else None


def is_prefix(text: str) -> bool:
    """Whether a text could be the prefix of a key."""
    return _PREFIX.fullmatch(text) is not None


def digest_of(text: str, secret: bytes) -> bytes:
    """HMAC-SHA-256 of a key under the service's secret."""
    return hmac.digest(secret, b"key\0" + text.encode(), "sha256")


def _check(role: Role, tenant: str | None, label: str) -> None:
    if role in OF_TENANT and tenant is None:
        raise ConfigError(f"a key of role {role} needs a tenant")
    if role in FOR_ALL and tenant is not None:
        raise ConfigError(f"a key of role {role} is for all tenants; name none")
    if len(label) > _LABEL_CHARACTERS:
        raise ConfigError(f"a label has at most {_LABEL_CHARACTERS} characters")
