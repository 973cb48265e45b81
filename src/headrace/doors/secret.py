"""The service's secret: what digests of keys and signatures of sessions are made with.

All gateways and consoles of one store need the same one. It is not in the store, so that a copy of
the database opens no door, and not in the YAML file either. Whoever loses it has to make all keys
anew.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import ConfigError
from headrace.settings import Settings

_LEAST_BYTES = 32


def secret_of(settings: Settings, environment: Mapping[str, str] = os.environ) -> bytes:
    """The secret: the file ``doors.secret_file``, else ``HEADRACE_SECRET``.

    Raises:
        ConfigError: nobody says it, or it is too short.
    """
    text = settings.service_secret(environment)
    if text is None:
        raise ConfigError(
            "the doors need a secret: set HEADRACE_SECRET, or doors.secret_file in the YAML file, "
            "to at least 32 random characters, such as 'openssl rand -hex 32' prints"
        )
    secret = text.encode()
    if len(secret) < _LEAST_BYTES:
        raise ConfigError(f"the secret of the doors has less than {_LEAST_BYTES} characters")
    return secret


def made_secret_file(path: Path) -> Path:
    """The file, made with a new secret for its owner alone if it is not there.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        # Written elsewhere first: of two that begin at once, the second finds it whole.
        fresh = _private(path, secrets.token_urlsafe(48))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    except OSError as exc:
        raise ConfigError(f"{path}: the secret cannot be kept there ({exc.strerror})") from exc
    return path


def keep_secret(path: Path, text: str) -> None:
    """Keep a secret in a file that its owner alone reads, in the place of one that was there.

    Raises:
        ConfigError: it cannot be kept.
    """
    try:
        _private(path, text).replace(path)
    except OSError as exc:
        raise ConfigError(f"{path}: the secret cannot be kept there ({exc.strerror})") from exc


def _private(path: Path, text: str) -> Path:
    """A new file beside ``path``, for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"{text}\n")
    return fresh
