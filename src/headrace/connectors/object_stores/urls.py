"""From the URL of a connection to what the client library of object stores is told.

``s3://bucket/prefix?region=eu-central-1`` names the bucket and what all names begin with. What
stands behind the question mark are options of the library (``endpoint`` of a store that is not
Amazon's, ``server_side_encryption``), and ``ca``, a file with the certificate of its authority.
User and password are the access key and its secret. Without them the library finds credentials as
Amazon's and Google's own programs do: in the environment, or by the role of the machine.

A URL may hold secrets, so what is shown is made of kind, bucket and prefix alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.connectors.own_servers import filled
from headrace.errors import ConfigError
from headrace.ports import Server

_EXAMPLE = "s3://bucket/prefix?region=eu-central-1"
#: what user and password are, by kind of store
_KEYS = {
    "s3": ("access_key_id", "secret_access_key"),
    "gs": ("", "service_account_key"),
    "az": ("account_name", "account_key"),
}


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Which store, and how it is spoken to."""

    kind: str
    bucket: str
    prefix: str
    #: of the client library, credentials included
    options: dict[str, str] = field(repr=False)
    #: the certificate of its authority, and where it stands
    ca: bytes | None = field(repr=False)
    ca_path: str | None = None

    @property
    def shown(self) -> str:
        """Safe to show to anybody."""
        return f"{self.kind}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def read(server: Server, tenant: str, whose: str) -> StoreUrl:
    """Read the URL of a connection, with a tenant's name in it.

    Raises:
        ConfigError: it is none of an object store; the message does not repeat it.
    """
    own = filled(server, tenant)
    try:
        parts = urlsplit(own.url.strip())
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError:
        raise ConfigError(f"{whose}: its URL cannot be read; write it as {_EXAMPLE}") from None
    if parts.scheme not in _KEYS:
        raise ConfigError(
            f"{whose}: it is no object store that is known (s3, gs, az); write its URL as "
            f"{_EXAMPLE}"
        )
    if "@" in parts.netloc or ":" in parts.netloc or not parts.netloc:
        # Not shown: it may be a key.
        raise ConfigError(
            f"{whose}: its URL has to have the bucket alone before the first slash, as in "
            f"{_EXAMPLE}; say user and password apart, and where it is by endpoint="
        )
    _add_credentials(options, parts.scheme, own, whose)
    ca_path = options.pop("ca", None)
    prefix, ca = unquote(parts.path).strip("/"), _read_ca(ca_path, whose)
    return StoreUrl(parts.scheme, parts.netloc, prefix, options, ca, ca_path)


def _add_credentials(options: dict[str, str], kind: str, server: Server, whose: str) -> None:
    said = (server.user, server.password)
    given = {key: text for key, text in zip(_KEYS[kind], said, strict=True) if key and text}
    if kind == "s3" and len(given) == 1:
        raise ConfigError(f"{whose}: say both, user and password, or neither")
    options.update(given)


def _read_ca(path: str | None, whose: str) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{whose}: ca={path} cannot be read: {error.strerror}") from error
