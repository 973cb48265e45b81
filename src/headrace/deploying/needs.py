"""What a use case cannot run without, beside its code.

The log that has its topic (`connectors/by_topic.py`), a schema registry, where it asks one, and a
log that says where its lanes end, where it depends on that. Whoever deploys has it checked, and
each driver looks again when it takes the use case: the driver may have been started with other
settings, and without a registry every record would come back as one that cannot be read. State that
it could not read is seen when it is deployed. Nobody asks whether a log or a registry answers: what
waits for it waits, as at any other time.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.connectors.schema_registry import require_client
from headrace.errors import ConfigError
from headrace.model.records import Deployment
from headrace.ports import Connections, KeyedState, Log
from headrace.use_cases import UseCase, needing_ends


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


def require_same_state(use_case: UseCase, kept: KeyedState) -> None:
    """See that the tables of state are as those are whose rows are kept under their names.

    Raises:
        ConfigError: a row does not fit; says what to do.
    """
    for table in use_case.state:
        found = kept.sample_state(use_case.name, table.name)
        if found is not None:
            table.kept(dict([found]))


def require_known_ends(use_case: UseCase, deployment: Deployment, log: Log) -> None:
    """See that what a use case asks for can be had of its log.

    Raises:
        ConfigError: only reading tells where lanes of this log end; says what to do.
    """
    if log.of(use_case.topic).tells_ends:
        return
    asked = needing_ends(replace(use_case, restart=deployment.restart))
    for what, instead in asked.items():
        raise ConfigError(
            f"{use_case.name}: {what} needs a log that says where its lanes end, and of this one "
            f"only reading tells; take {instead}"
        )
