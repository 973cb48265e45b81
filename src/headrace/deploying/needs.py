"""What a use case cannot run without, beside its code: a schema registry, where it asks one.

Whoever deploys has it checked, and each driver looks again when it takes the use case: the driver
may have been started with other settings, and without a registry every record would come back as
one that cannot be read. Nobody asks whether it answers: what waits for it waits, as at any other
time.
"""

from __future__ import annotations

from headrace.connectors.schema_registry import require_client
from headrace.errors import ConfigError
from headrace.ports import Connections


def require_registry(connections: Connections) -> None:
    """See that a registry is named, and that it can be asked from here.

    Raises:
        ConfigError: it is not, or cannot; says what to do.
    """
    if not connections.registry:
        raise ConfigError(
            "its records name schemas of a registry, and none is configured; say registry: "
            "schema.registry.url in the YAML file, or start 'headrace up --registry'"
        )
    require_client()
