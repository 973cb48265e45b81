"""The demo's schema registry: that of `headrace registry`, in a thread beside the driver.

Two keys open it, as in a service: one that only reads, for the driver, and one that registers, for
the producer. Schemas are kept in the driver's store, so a demo that was killed finds its ids again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headrace.connectors.schema_registry import RegistrySchemas, registry_config
from headrace.demo.doors import OPERATOR, VIEWER, key_of
from headrace.doors.secret import secret_of
from headrace.doors.serving import serving
from headrace.errors import ConfigError
from headrace.schema_registry.opening import registry_listening, registry_of
from headrace.settings import Settings
from headrace.settings.registry import RegistrySettings
from headrace.store import open_store

_NEEDED = ("avro", "fastavro", "httpx2")


@dataclass(frozen=True, slots=True)
class DemoRegistry:
    """Where it is, for who reads and for who writes."""

    #: the settings, with where a driver finds it
    settings: Settings
    writer: RegistrySchemas


@contextmanager
def registry(settings: Settings, folder: Path) -> Iterator[DemoRegistry]:
    """Serve it for the store of the settings.

    Raises:
        ConfigError: a package is missing.
        ServerError: it could not start.
    """
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise ConfigError(f"the demo needs {', '.join(missing)}: pip install 'headrace[demo]'")
    secret = secret_of(settings)
    with closing(open_store(settings.store_url())) as store:
        viewer = key_of(store.keys, folder, VIEWER, secret)
        operator = key_of(store.keys, folder, OPERATOR, secret)
        app = registry_of(settings, store)
        with serving(app, registry_listening(settings)) as url:
            told = RegistrySettings.model_validate(_place(url, f"driver:{viewer}"))
            yield DemoRegistry(
                settings.model_copy(update={"registry": told}),
                RegistrySchemas(registry_config(_place(url, f"producer:{operator}"))),
            )


def _place(url: str, user_info: str) -> dict[str, str]:
    return {
        "schema.registry.url": url,
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": user_info,
    }
