"""What the YAML file names, found and deployed: addresses, the driver, the use cases of the module.

Commands that run no driver need these as well, and should not wait for Spark to be imported; so
they are not where a driver is put together (`running/assembly.py`).

What runs is what was deployed, never what lies in the folder. So deploying checks a version
(`checking.py`), keeps a copy of its sources (`versions/shelf.py`) and then writes its digest into
the store; and a driver runs what has that digest. What it deploys when it starts is in
`starting.py`.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from headrace.connectors.kafka import client_config
from headrace.connectors.schema_registry import registry_config
from headrace.cycle.reruns import renew_reruns
from headrace.databases.addresses import parse
from headrace.deploying.checking import Check, Declared, checked
from headrace.deploying.made_tenants import refuse_idle
from headrace.deploying.sent_topics import refuse_sent
from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Deployment
from headrace.model.streams import original
from headrace.operating.retiring import left_out
from headrace.policies.leases import most_held_s
from headrace.ports import Connections, Registry, Store
from headrace.settings import Settings
from headrace.use_cases import UseCase
from headrace.versions import Code, Shelf, find_module, load_code, read_code
from headrace.versions.code import sha256
from headrace.versions.paths import as_asked

_U = TypeVar("_U", Declared, UseCase)

#: for the import of a file by a command that only looks
_MOMENT_S = 10.0


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
    registry = settings.registry_properties()
    if registry:
        registry_config(registry)
    return Connections(
        kafka=client_config(settings.kafka_properties()),
        database_url=settings.store_url(),
        smtp_url=settings.mail_url(),
        registry=registry,
        servers=settings.servers(),
        warehouse=str((folder / settings.warehouse).resolve()),
    )


def with_seal_key(connections: Connections, store: Store) -> Connections:
    """The same with the store's key, for whoever reads or makes seals; without it none is good."""
    return replace(connections, seal_key=store.seal_key())


@dataclass(frozen=True, slots=True)
class FoundCode:
    """The module that the YAML file names, as it was at one look."""

    path: Path
    code: Code
    shelf: Shelf


@dataclass(frozen=True, slots=True)
class Source:
    """Where the code of deployments is."""

    #: the module that the YAML file names, and the folder of that file
    module: str
    folder: Path
    shelf: Shelf

    def read(self) -> FoundCode:
        """The module as it is now.

        Raises:
            ConfigError: it is not there, or a source cannot be read.
        """
        place = find_module(self.module, self.folder)
        return FoundCode(place.path, read_code(place), self.shelf)

    def deployed_code(self, deployment: Deployment) -> Code:
        """What was deployed: the copy that was kept, or the file itself if it is still that.

        Raises:
            ConfigError: there is neither.
        """
        kept = self.shelf.take(deployment.digest)
        if kept is not None:
            return kept
        # Only the file that the YAML names: where the store points to says nothing for a file.
        place = find_module(self.module, self.folder)
        if deployment.module in (str(place.path), str(place.file)):
            code = read_code(place)
            if deployment.digest in (code.digest, code.main_digest):
                return code
        raise ConfigError(
            f"{deployment.module} is not the version that was deployed, and there is no copy of "
            f"that in {self.shelf.folder}; deploy it: "
            f"'headrace use-cases deploy {original(deployment.use_case)}'"
        )


@dataclass(frozen=True, slots=True)
class Offer(Generic[_U]):
    """What a file has to be deployed."""

    path: Path
    code: Code
    shelf: Shelf
    use_cases: Mapping[str, _U]

    @property
    def digest(self) -> str:
        """The name of the version."""
        return self.code.digest


def source_of(settings: Settings, folder: Path) -> Source:
    """Where the code is of what is deployed by a YAML file in ``folder``."""
    return Source(settings.module, folder, Shelf((folder / settings.versions).resolve()))


def load(settings: Settings, folder: Path) -> Offer[UseCase]:
    """The use cases of the file, imported into this process; those in ``use_cases`` are known.

    Args:
        settings: the YAML file.
        folder: where it is.

    Raises:
        ConfigError: the module does not load, or the YAML names a use case it does not have.
    """
    found = source_of(settings, folder).read()
    use_cases = load_code(found.code, found.path).use_cases
    return _offered(settings, found, use_cases)


def check(
    settings: Settings,
    folder: Path,
    *,
    only: str | None = None,
    but: Collection[str] = (),
    servers: bool = True,
) -> Offer[Declared]:
    """The use cases of the file, found fit to run by a process of their own.

    Args:
        settings: the YAML file.
        folder: where it is.
        only: the one use case that is to be deployed; None for all.
        but: use cases that are not to be deployed.
        servers: prepare the sinks too.

    Raises:
        ConfigError: something would not run, or the YAML names a use case that is not there.
        SinkUnavailable: what a sink writes to does not answer.
    """
    found = source_of(settings, folder).read()
    connections = connections_of(settings, folder) if servers else None
    names, limit_s = None if only is None else frozenset({only}), settings.deploy_timeout
    held_s = most_held_s(settings.driver.lease)
    said = frozenset(settings.use_cases)
    asked = Check(found.code, found.path, limit_s, names, frozenset(but), connections, held_s, said)
    return _offered(settings, found, checked(asked))


def check_without_servers(settings: Settings, folder: Path) -> None:
    """Refuse a file that could not be deployed, before any server is there to deploy it.

    Where something was deployed before, that will run; nothing is refused.

    Raises:
        ConfigError: why.
    """
    if source_of(settings, folder).shelf.is_empty:
        check(settings, folder, servers=False)


def paths_so_far(offer: Offer[Any], folder: Path, registry: Registry) -> set[str]:
    """Where the file of an offer is, and where others were that were deployed out of ``folder``.

    It counts by other links that lead to it, too.

    One that is still there may be of another YAML file, and one without a copy here of another
    machine; neither is told.
    """
    here, places = as_asked(folder), {str(offer.path)}
    for deployment in registry.deployments():
        path = Path(deployment.module)
        if path.resolve() == offer.path.resolve():
            places.add(deployment.module)
        ours = path.is_relative_to(here) and not path.exists()
        # A copy that is damaged tells nothing either.
        with suppress(ConfigError):
            if ours and offer.shelf.take(deployment.digest) is not None:
                places.add(deployment.module)
    return places


def file_that_gives(settings: Settings, folder: Path, name: str) -> Path | None:
    """The file that a use case is in, where its next deployment is for all tenants.

    None where it is not in it, or nobody can tell, as the file does not load.
    """
    if not settings.of_use_case(name).all_tenants:
        return None
    try:
        offer = check(settings, folder, only=name, but=[name], servers=False)
    except ConfigError:
        return None
    return offer.path if name in offer.use_cases else None


def no_more_in_file(settings: Settings, folder: Path, registry: Registry) -> dict[str, Path]:
    """Use cases that were deployed and run on, with the file that has them no more.

    None also where nobody can tell, as the file does not load within a moment.
    """
    deployments = [known for known in registry.deployments() if known.until is None]
    try:
        found = source_of(settings, folder).read()
        if all(known.digest == found.code.digest for known in deployments):
            return {}
        hurried = settings.model_copy(update={"deploy_timeout": _MOMENT_S})
        names = [known.use_case for known in deployments]
        offer = check(hurried, folder, but=names, servers=False)
    except ConfigError:
        return {}
    paths = paths_so_far(offer, folder, registry)
    return dict.fromkeys(left_out(registry, paths, offer.use_cases), offer.path)


def deploy(
    settings: Settings, offer: Offer[Any], registry: Registry, only: str | None = None
) -> list[Deployment]:
    """Write the use cases into the store, where running drivers find them; return what changed.

    Raises:
        UnknownName: ``only`` names a use case that the file does not have.
        ConfigError: no copy of the version can be kept, or one cannot be deployed, as it reads
            another topic than before; nothing is deployed.
    """
    return deploy_chosen(settings, offer, registry, wanted(settings, offer, only))


def deploy_chosen(
    settings: Settings, offer: Offer[Any], registry: Registry, asked: Sequence[Deployment]
) -> list[Deployment]:
    """The same, of those that are ``wanted`` and were chosen: all of them, or none."""
    before = registry.deployments()
    keep(settings, offer)
    changed = [deployment for deployment in asked if deployment not in before]
    if changed:
        registry.deploy_together(changed)
    # Of what is unchanged too: who deployed it may have been killed before these.
    renew_reruns(registry, [deployment.use_case for deployment in asked])
    offer.shelf.sweep(
        {deployment.digest for deployment in registry.deployments()}, _mark_of(settings)
    )
    return changed


def wanted(settings: Settings, offer: Offer[Any], only: str | None = None) -> list[Deployment]:
    """What is to be deployed, as the store is to have it.

    Raises:
        UnknownName: ``only`` names a use case that the file does not have.
    """
    if only is not None and only not in offer.use_cases:
        known = ", ".join(sorted(offer.use_cases))
        raise UnknownName(f"{offer.path} has no use case {only}; it has {known}")
    names = sorted(offer.use_cases) if only is None else [only]
    return [_deployment(settings, offer, name) for name in names]


def _deployment(settings: Settings, offer: Offer[Any], name: str) -> Deployment:
    use_case = offer.use_cases[name]
    return Deployment(
        use_case=name,
        module=str(offer.path),
        digest=offer.digest,
        topic=use_case.topic,
        order=use_case.terms.order,
        buckets=use_case.divides_by,
        bad_record=use_case.bad_record,
        guarantee=use_case.terms.guarantee.value,
        sink=use_case.terms.sink,
        **{"restart": use_case.restart, **_chosen(settings, name)},
    )


def configure(
    settings: Settings, registry: Registry, names: Collection[str], offer: Offer[Any] | None
) -> None:
    """Let what is deployed at this moment be run as the YAML file says now.

    Where it says nothing of a restart, the code does: that of the ``offer``, if it is what was
    deployed. Where the module was not read, there is none, and a use case that was removed may have
    left it; so what is for nobody stays so unless the YAML file itself says ``all_tenants``.
    """
    for name in names:
        while not _configured(settings, registry, name, offer):
            pass  # somebody deployed meanwhile, and that is what is deployed now


def keep(settings: Settings, offer: Offer[Any]) -> None:
    """Keep a copy of what is deployed, or about to be.

    Raises:
        ConfigError: no copy can be kept.
    """
    offer.shelf.keep(offer.code, _mark_of(settings))


def deployed_use_case(deployment: Deployment, source: Source) -> UseCase:
    """The use case that was deployed, under the name of the deployment.

    Imports its code, so it may take long and raise anything.

    Raises:
        ConfigError: the code is nowhere to be had as it was deployed, or does not import.
        UnknownName: it has no such use case.
    """
    path = Path(deployment.module)
    module = load_code(source.deployed_code(deployment), path)
    name = original(deployment.use_case)
    if name not in module.use_cases:
        raise UnknownName(f"{path} has no use case {name} any more")
    return replace(module.use_cases[name], name=deployment.use_case)


def driver_name(settings: Settings) -> str:
    """The configured name of the driver, or one that is the same at its next start here."""
    return settings.driver.name or f"{socket.gethostname()}/{settings.module}"


def _configured(
    settings: Settings, registry: Registry, name: str, offer: Offer[Any] | None
) -> bool:
    """Whether it is now as the YAML file says, or not deployed at all."""
    said = "all_tenants" in settings.of_use_case(name).model_fields_set
    for deployment in registry.deployments():
        if deployment.use_case == name:
            now = deployment
            if offer is not None and deployment.digest == offer.digest:
                now = replace(now, restart=offer.use_cases[name].restart)
            now = replace(now, **_chosen(settings, name))
            if offer is None and not said and not deployment.all_tenants:
                now = replace(now, all_tenants=False)
            if now != deployment and not registry.deploy(now, over=deployment):
                return False
            renew_reruns(registry, [name])
    return True


def _chosen(settings: Settings, name: str) -> dict[str, Any]:
    """What the YAML file says of a use case; of a restart only what it says itself."""
    chosen = settings.of_use_case(name)
    restart = {} if chosen.restart is None else {"restart": chosen.restarts}
    return {
        **restart,
        "starting_offsets": chosen.startingOffsets,
        "all_tenants": chosen.all_tenants,
        "creates_tenants": chosen.creates_tenants,
        "priority": chosen.priority,
        "options": chosen.options,
        "retries": chosen.retries,
        "handler_timeout_s": chosen.handler_timeout,
        "max_rate_per_lane": chosen.max_rate_per_lane,
        "data_loss": chosen.data_loss,
    }


def _offered(settings: Settings, found: FoundCode, use_cases: Mapping[str, _U]) -> Offer[_U]:
    unknown = sorted(set(settings.use_cases) - set(use_cases))
    if unknown:
        known = ", ".join(sorted(use_cases))
        raise ConfigError(f"use_cases: {unknown[0]} is not in {found.path}; it has {known}")
    types = {name: kind.topic for name, kind in settings.gateway.types.items()}
    refuse_sent({name: one.topic for name, one in use_cases.items()}, types)
    for name, one in sorted(use_cases.items()):
        chosen = settings.of_use_case(name)
        if chosen.creates_tenants:
            refuse_idle(name, one.topic, all_tenants=chosen.all_tenants)
    return Offer(found.path, found.code, found.shelf, use_cases)


def _mark_of(settings: Settings) -> str:
    """What tells the store from others that use the same shelf."""
    return sha256(parse(settings.store_url()).shown.encode())[:16]
