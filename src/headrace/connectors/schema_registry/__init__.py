"""The schema registry: what writers of records registered, and ids for what is written.

Any registry that speaks as Confluent's does (its own, Karapace, Apicurio's ``ccompat/v7``). Lookups
happen inside tasks, so each is bounded, and a registry that is away is not asked for every record.

Confluent's own client was tried. Its time limit is one for each piece of an answer, and there is no
other; one that comes byte by byte held a lookup for 15 s under a limit of 1 s. So the few requests
that are needed are made here, by ``httpx2``, which comes with ``headrace[registry]`` and is
imported when the first one is made.
"""

from headrace.connectors.schema_registry.config import (
    URL,
    RegistryConfig,
    RegistryServer,
    registry_config,
    require_client,
)
from headrace.connectors.schema_registry.schemas import RegistrySchemas, RegistrySchemasFactory

__all__ = [
    "URL",
    "RegistryConfig",
    "RegistrySchemas",
    "RegistrySchemasFactory",
    "RegistryServer",
    "registry_config",
    "require_client",
]
