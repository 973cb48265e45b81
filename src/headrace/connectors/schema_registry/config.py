"""Where the registry is and how one proves who one is, read from Confluent's keys.

Passwords may stand in the URL, as Confluent's clients take them, and an error that shows the URL
would tell them. So a URL is taken apart once, and what is shown has none.
"""

from __future__ import annotations

import importlib.util
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigError

URL = "schema.registry.url"
USER_INFO = "basic.auth.user.info"
TOKEN = "bearer.auth.token"  # noqa: S105 - the name of a setting
_SOURCE, _BEARER_SOURCE = "basic.auth.credentials.source", "bearer.auth.credentials.source"
_CA, _CERTIFICATE, _KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
_KEY_PASSWORD = "ssl.key.password"  # noqa: S105 - the name of a setting
#: setting -> header that Confluent Cloud wants beside a token
_CLOUD = {
    "bearer.auth.logical.cluster": "target-sr-cluster",
    "bearer.auth.identity.pool.id": "Confluent-Identity-Pool-Id",
}
#: of what a header can hold
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
KEYS = (
    URL,
    _SOURCE,
    USER_INFO,
    _BEARER_SOURCE,
    TOKEN,
    *_CLOUD,
    _CA,
    _CERTIFICATE,
    _KEY,
    _KEY_PASSWORD,
)
INSTALL = "pip install 'headrace[registry]'"


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """One address of the registry."""

    #: without a password, and without a slash at its end
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """All that a client needs to know."""

    #: asked in turn
    servers: tuple[RegistryServer, ...]
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return ", ".join(server.url for server in self.servers)


def registry_config(given: Mapping[str, str]) -> RegistryConfig:
    """Read the settings.

    Raises:
        ConfigError: one is unknown, missing or cannot be; no password is in the message.
    """
    unknown = sorted(set(given) - set(KEYS))
    if unknown:
        raise ConfigError(f"registry: there is no {unknown[0]}; there is {', '.join(KEYS)}")
    if not given.get(URL):
        raise ConfigError(f"registry: {URL} is missing, such as http://registry:8081")
    if _CERTIFICATE not in given and (_KEY in given or _KEY_PASSWORD in given):
        raise ConfigError(f"registry: {_CERTIFICATE} is missing, and there is a key for it")
    headers = _headers(given)
    servers = tuple(_server(url.strip(), headers) for url in given[URL].split(","))
    return RegistryConfig(
        servers, *(given.get(key) for key in (_CA, _CERTIFICATE, _KEY, _KEY_PASSWORD))
    )


def require_client() -> None:
    """See that the client is installed.

    Raises:
        ConfigError: it is not.
    """
    if importlib.util.find_spec("httpx2") is None:
        raise ConfigError(f"a schema registry is asked by httpx2, which is not here: {INSTALL}")


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    """What tells who asks, besides passwords in a URL."""
    _refuse_halves(given)
    headers = {header: given[key] for key, header in _CLOUD.items() if key in given}
    if USER_INFO in given:
        user, colon, password = given[USER_INFO].partition(":")
        if not colon:
            raise ConfigError(f"registry: {USER_INFO} is user:password")
        headers["Authorization"] = _basic(user, password)
    if TOKEN in given:
        headers["Authorization"] = f"Bearer {given[TOKEN]}"
    for key in (TOKEN, *_CLOUD):
        if not _PRINTABLE.fullmatch(given.get(key, "")):
            raise ConfigError(f"registry: {key} has characters that no header can hold")
    return headers


def _refuse_halves(given: Mapping[str, str]) -> None:
    """Refuse ways to prove who asks that are unknown, or lack what they need."""
    if given.get(_SOURCE, "URL") not in ("USER_INFO", "URL"):
        raise ConfigError(f"registry: {_SOURCE} is USER_INFO or URL")
    if given.get(_BEARER_SOURCE, "STATIC_TOKEN") != "STATIC_TOKEN":
        raise ConfigError(f"registry: {_BEARER_SOURCE} is STATIC_TOKEN")
    if USER_INFO in given and TOKEN in given:
        raise ConfigError(f"registry: {USER_INFO} and {TOKEN} are two ways; leave one of them out")
    if _BEARER_SOURCE in given and TOKEN not in given:
        raise ConfigError(f"registry: {TOKEN} is missing, and {_BEARER_SOURCE} asks for it")
    if given.get(_SOURCE) == "USER_INFO" and USER_INFO not in given:
        raise ConfigError(f"registry: {USER_INFO} is missing, and {_SOURCE} asks for it")


def _server(url: str, headers: Mapping[str, str]) -> RegistryServer:
    wrong = f"registry: {URL}: an address looks like http://registry:8081; several are separated "
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        # The cause would quote the URL, password and all.
        raise ConfigError(f"{wrong}by commas") from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigError(f"{wrong}by commas")
    name = f"[{host}]" if ":" in host else host
    shown = f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    if parts.username is None:
        return RegistryServer(shown, headers)
    if "Authorization" in headers:
        raise ConfigError(f"registry: {URL} has a password in it, and there is another one beside")
    own = _basic(unquote(parts.username), unquote(parts.password or ""))
    return RegistryServer(shown, {**headers, "Authorization": own})


def _basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
