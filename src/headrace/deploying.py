"""What the YAML file names, found: addresses, the driver, and the use cases of the module.

Commands that run no driver need these as well, and should not wait for Spark to be imported; so
they are not where a driver is put together (`assembly.py`).
"""

from __future__ import annotations

import socket
from pathlib import Path

from headrace.cycle.loading import LoadedModule, find_module, load_module
from headrace.cycle.reruns import renewed_by
from headrace.errors import ConfigError, UnknownName
from headrace.kafka import client_config
from headrace.model.records import Deployment
from headrace.model.streams import original
from headrace.ports import Connections, Store
from headrace.settings import Settings


def connections_of(settings: Settings, folder: Path) -> Connections:
    """Addresses and credentials, with paths relative to ``folder`` made whole.

    Raises:
        ConfigError: an address is missing or a client property cannot be used.
    """
    if "bootstrap.servers" not in settings.kafka:
        raise ConfigError(
            "no Kafka is named: set kafka: bootstrap.servers in the YAML file, "
            "or use 'headrace up', which starts one"
        )
    return Connections(
        kafka=client_config(settings.kafka),
        database_url=settings.store_url(),
        smtp_url=settings.mail_url(),
        warehouse=str((folder / settings.warehouse).resolve()),
    )


def load(settings: Settings, folder: Path) -> LoadedModule:
    """The use cases of the file, with every name in ``use_cases`` known.

    Raises:
        ConfigError: the module does not load, or the YAML names a use case it does not have.
    """
    module = load_module(find_module(settings.module, folder))
    unknown = sorted(set(settings.use_cases) - set(module.use_cases))
    if unknown:
        known = ", ".join(sorted(module.use_cases))
        raise ConfigError(f"use_cases: {unknown[0]} is not in {module.path}; it has {known}")
    return module


def deploy(
    settings: Settings, module: LoadedModule, store: Store, only: str | None = None
) -> list[Deployment]:
    """Write the use cases into the store, where running drivers find them; return what changed.

    Raises:
        UnknownName: ``only`` names a use case that the module does not have.
    """
    if only is not None and only not in module.use_cases:
        known = ", ".join(sorted(module.use_cases))
        raise UnknownName(f"{module.path} has no use case {only}; it has {known}")
    before = {each.use_case: each for each in store.deployments()}
    changed = []
    for name, use_case in sorted(module.use_cases.items()):
        if only is not None and name != only:
            continue
        chosen = settings.of_use_case(name)
        wanted = Deployment(
            use_case=name,
            module=str(module.path),
            digest=module.digest,
            topic=use_case.topic,
            order=use_case.order,
            starting_offsets=chosen.startingOffsets,
            all_tenants=chosen.all_tenants,
            priority=chosen.priority,
            options=chosen.options,
            bad_record=use_case.bad_record,
            retries=chosen.retries,
            handler_timeout_s=chosen.handler_timeout,
            max_rate_per_lane=chosen.max_rate_per_lane,
            data_loss=chosen.data_loss,
        )
        if before.get(name) != wanted:
            store.deploy(wanted)
            changed.append(wanted)
            for each in before.values():
                if each.until and original(each.use_case) == name:
                    store.deploy(renewed_by(wanted, each))
    return changed


def driver_name(settings: Settings) -> str:
    """The configured name of the driver, or one that is the same at its next start here."""
    return settings.driver.name or f"{socket.gethostname()}/{settings.module}"
