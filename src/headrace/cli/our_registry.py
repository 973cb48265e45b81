"""Whether the registry that drivers ask is our own, which is in the store.

Ids count from 1 in every registry. So what the store says of an id holds for records only if
drivers ask a registry that serves this store; of another one it would be told with names and
versions that these records never had. Nobody asks a registry for that: who runs a command may not
reach it. It is ours by its address, as its section or `up` has it, or by the key that it is shown:
a key of this store opens nobody else's. One that is reached by another name, without a key of ours,
counts as another.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from headrace.connectors.schema_registry import (
    URL,
    RegistryConfig,
    RegistryServer,
    registry_config,
)
from headrace.doors.keys import prefix_of
from headrace.errors import ConfigError
from headrace.ports import Keys
from headrace.settings import Settings
from headrace.settings.fields import refuse_unset

#: other names of one address
_HERE = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}


def drivers_ask_ours(settings: Settings, keys: Keys, told_by_up: Mapping[str, str]) -> bool:
    """Whether what the store says of schemas holds for what drivers read.

    Args:
        settings: where drivers ask, and where ours is served.
        keys: of the store.
        told_by_up: the addresses that `up` left, with that of ours if it served it last.
    """
    if settings.registry.url is None:
        return True
    door = settings.schema_registry
    by_up = "registry_user_file" in told_by_up and _place(told_by_up["registry_url"])
    places = ((_HERE.get(door.host, door.host), door.port, ""), by_up)
    return all(
        _place(server.url) in places or _is_shown_a_key(server, keys)
        for server in _servers(settings)
    )


def _servers(settings: Settings) -> tuple[RegistryServer, ...]:
    """Where drivers ask, with what they show as far as it can be read here."""
    with suppress(ConfigError):
        return registry_config(settings.registry_properties()).servers
    # A command that asks no registry needs no secret of it.
    with suppress(ConfigError):
        return addresses_of(settings).servers
    return (RegistryServer(""),)


def addresses_of(settings: Settings) -> RegistryConfig:
    """Where drivers ask, without what they show beside it.

    Raises:
        ConfigError: the environment lacks the address, or it is none.
    """
    url = settings.registry.url
    given = {} if url is None else {URL: url.get_secret_value()}
    refuse_unset("registry", given)
    return registry_config(given)


def _place(url: str) -> tuple[str, int | None, str]:
    """What two addresses of one server have in common."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return _HERE.get(host, host), parts.port, parts.path


def _is_shown_a_key(server: RegistryServer, keys: Keys) -> bool:
    scheme, _, shown = server.headers.get("Authorization", "").partition(" ")
    if scheme == "Basic":
        try:
            shown = b64decode(shown).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return False
    prefix = prefix_of(shown)
    return prefix is not None and keys.find(prefix) is not None
