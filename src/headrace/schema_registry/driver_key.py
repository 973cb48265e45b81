"""The key by which drivers ask the registry that `headrace up` serves beside them.

Nobody should have to make a key and copy it to try a schema out. So one is made, once, and kept in
a file that its owner alone reads; processes are told its path, and the store has its digest, as of
every key. It may see and register all schemas, which is what decoding and encoding take, and
nothing more. One that was revoked, or is of another store or secret, is replaced.
"""

from __future__ import annotations

from hmac import compare_digest
from pathlib import Path

from headrace.doors.keys import digest_of, new_key, prefix_of
from headrace.doors.secret import keep_secret
from headrace.errors import ConfigError
from headrace.model.credentials import Role
from headrace.ports import Keys

_USER = "drivers"


def keep_driver_key(keys: Keys, secret: bytes, now_s: float, path: Path) -> None:
    """See that a file has user and password of a key that works.

    Args:
        keys: those of the store.
        secret: what keys are checked with.
        now_s: in seconds since 1970.
        path: the file.

    Raises:
        ConfigError: it can be neither read nor written.
        StoreUnavailable: nobody can say whether it works.
    """
    if _works(keys, secret, now_s, _password_in(path)):
        return
    text, key = new_key(Role.SCHEMAS, None, "drivers of headrace up", secret, now_s)
    # In this order a kill in between leaves a key too many, and no file that opens nothing.
    keys.add(key)
    keep_secret(path, f"{_USER}:{text}")


def _password_in(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip().partition(":")[2]
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read; remove it, and it is made again") from exc


def _works(keys: Keys, secret: bytes, now_s: float, text: str) -> bool:
    prefix = prefix_of(text)
    key = None if prefix is None else keys.find(prefix)
    return (
        key is not None
        and key.role is Role.SCHEMAS
        and key.tenant is None
        and key.works(now_s)
        and compare_digest(key.digest, digest_of(text, secret))
    )
