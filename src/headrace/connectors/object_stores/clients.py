"""How the client library of object stores is told where a store is, and who we are.

Nothing is tried again below it, so that a store that is overloaded is heard.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.connectors.object_stores.errors import library
from headrace.connectors.object_stores.urls import StoreUrl
from headrace.errors import ConfigError


def client(url: StoreUrl, waits: tuple[int, int], where: str) -> Any:
    """The client of a store, which contacts nobody yet.

    Raises:
        ConfigError: its URL has an option that the client does not know, or cannot begin with.
        CodeNotLoaded: it is not installed.
    """
    kinds = library().store
    options = dict(url.options)
    http: dict[str, Any] = {"timeout": f"{waits[0]}s", "connect_timeout": f"{waits[1]}s"}
    if options.get("endpoint", "").startswith("http://"):
        http["allow_http"] = True
    if url.ca is not None:
        http["root_certificate"] = url.ca
    given: dict[str, Any] = {
        "prefix": url.prefix or None,
        "client_options": http,
        "retry_config": {"max_retries": 0, "retry_timeout": timedelta(seconds=waits[0])},
    }
    if url.kind == "s3" and "access_key_id" in options:
        # So that nothing of the environment is added to them.
        keys = _keys(options)
        given["credential_provider"] = lambda: keys
    made = {"s3": kinds.S3Store, "gs": kinds.GCSStore, "az": kinds.AzureStore}[url.kind]
    try:
        return made(url.bucket, config=options, **given)
    except library().exceptions.UnknownConfigurationKeyError as error:
        raise ConfigError(f"{where}: its URL: {str(error).splitlines()[0]}") from None
    except Exception as error:
        # It may quote what it was given.
        raise ConfigError(
            f"{where}: the client cannot begin with the options of its URL: {type(error).__name__}"
        ) from None


def _keys(options: dict[str, str]) -> dict[str, Any]:
    return {
        "access_key_id": options.pop("access_key_id"),
        "secret_access_key": options.pop("secret_access_key"),
        "token": options.pop("session_token", None),
        "expires_at": None,
    }
