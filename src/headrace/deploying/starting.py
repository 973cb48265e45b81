"""What a driver does about deployments when it starts.

A restart is often nobody's decision: a machine went down, a supervisor replaced a process. So it
changes no code. What was deployed runs, and whoever looks at the log is told what else lies in the
folder. Only what was never deployed has to be, or nobody's first start would do anything.

What a version has to pass before it is deployed is in `checking.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from headrace.connectors.kafka import client_config
from headrace.deploying.checking import Declared
from headrace.deploying.offer import (
    Offer,
    check,
    configure,
    deploy_chosen,
    keep,
    paths_so_far,
    wanted,
)
from headrace.errors import ConfigError, HeadraceError, SinkUnavailable
from headrace.model.records import Deployment
from headrace.operating.retiring import left_out, taken_from
from headrace.operating.topics import absent
from headrace.ports import Registry, Store
from headrace.settings import Settings
from headrace.versions import places_of

log = structlog.get_logger(__name__)


def begin(
    settings: Settings, folder: Path, store: Store, *, anew: bool = False, stay: bool = False
) -> frozenset[str]:
    """Deploy what has to be when a driver starts; return the use cases of its file.

    A use case that was never deployed is deployed. What was deployed stays as it is, whatever lies
    in the folder, but for what the YAML file says of it.

    Args:
        settings: the YAML file.
        folder: where it is.
        store: where deployments are.
        anew: deploy everything as it is in the folder.
        stay: go on also where something cannot be deployed, with what was deployed before, be that
            nothing. So servers that end with the driver can be reached, to mend what is there.

    Raises:
        ConfigError: what has to be deployed cannot be, and not ``stay``.
        SinkUnavailable: what a sink writes to does not answer, and not ``stay``.
    """
    deployed = _deployed(store.registry)
    try:
        # Also of what was found fit once: what its import waits for may be gone by now.
        offer = check(settings, folder, but=() if anew else deployed)
        # To check may take a minute, and somebody may have deployed meanwhile.
        deployed = _deployed(store.registry)
        new = [
            deployment
            for deployment in wanted(settings, offer)
            if anew or deployment.use_case not in deployed
        ]
        if new:
            paths = paths_so_far(offer, folder, store.registry)
            deploy_chosen(settings, offer, store.registry, new)
            _tell_taken(taken_from(deployed.values(), paths, {one.use_case for one in new}))
    except (ConfigError, SinkUnavailable) as error:
        places = {str(path) for path in places_of(settings.module, folder)}
        ours = {name for name, deployment in deployed.items() if deployment.module in places}
        if ours and not anew:
            log.warning(
                "what was deployed runs; what lies in the folder cannot be deployed",
                error=str(error),
            )
        elif stay:
            _tell_not_deployed(error, ours)
        else:
            raise
        _configure(settings, store.registry, sorted(ours), None)
        return frozenset(ours)
    begun = {deployment.use_case for deployment in new}
    old = [deployed[name] for name in sorted(offer.use_cases) if name not in begun]
    _configure(settings, store.registry, [deployment.use_case for deployment in old], offer)
    _tell_apart(offer, old)
    _tell_left_out(offer, folder, store.registry)
    _tell_absent(settings, offer)
    if any(deployment.digest == offer.digest for deployment in old):
        _keep_again(settings, offer)
    return frozenset(offer.use_cases)


def _configure(
    settings: Settings, registry: Registry, names: Collection[str], offer: Offer[Any] | None
) -> None:
    """Let them run as the YAML file says now; whom that cannot be goes on as before."""
    for name in names:
        try:
            configure(settings, registry, [name], offer)
        except ConfigError as error:
            log.warning(
                "what the YAML file says of a use case is not taken", use_case=name, why=str(error)
            )


def _deployed(registry: Registry) -> dict[str, Deployment]:
    """What is deployed, but for reruns."""
    return {
        deployment.use_case: deployment
        for deployment in registry.deployments()
        if deployment.until is None
    }


def _tell_not_deployed(error: HeadraceError, runs: Collection[str]) -> None:
    goes_on = (
        f"what was deployed before runs: {', '.join(sorted(runs))}" if runs else "nothing runs"
    )
    then = "mend it while this runs, then type 'headrace use-cases deploy' in a second terminal"
    log.error("what lies in the folder is not deployed", error=str(error), why=f"{goes_on}; {then}")


def _tell_apart(offer: Offer[Any], deployed: Sequence[Deployment]) -> None:
    for deployment in deployed:
        if deployment.digest != offer.digest:
            name = deployment.use_case
            log.warning(
                "what was deployed runs; another version lies in the folder",
                use_case=name,
                digest=deployment.digest[:12],
                why=f"'headrace use-cases deploy {name}' deploys {offer.digest[:12]}",
            )


def _tell_taken(before: Mapping[str, str]) -> None:
    for name, module in before.items():
        log.warning(
            "a use case that was deployed from another file is replaced",
            use_case=name,
            why=f"{module} had it; if it was not meant, deploy it there again",
        )


def _tell_left_out(offer: Offer[Any], folder: Path, registry: Registry) -> None:
    for name in left_out(registry, paths_so_far(offer, folder, registry), offer.use_cases):
        log.warning(
            "a use case that the file has no more runs on",
            use_case=name,
            why=f"it was deployed; 'headrace use-cases remove {name}' ends it",
        )


def _tell_absent(settings: Settings, offer: Offer[Declared]) -> None:
    """Tell of topics for all that are written to, are not there, and that nothing else makes.

    A splitter's for strangers is one: without it the first record of an unknown tenant stops a lane
    of all customers.
    """
    named = {name: one.has_to_be_there for name, one in offer.use_cases.items()}
    topics = {topic for topic in named.values() if topic}
    try:
        gone = absent(client_config(settings.kafka_properties()), topics) if topics else ()
    except HeadraceError as error:
        log.info("whether topics that are written to are there is not known", why=str(error))
        return
    for name in sorted(name for name, topic in named.items() if topic in gone):
        log.warning(
            "a topic that is written to is not there",
            use_case=name,
            topic=named[name],
            why=f"'headrace topics create {name}' makes it",
        )


def _keep_again(settings: Settings, offer: Offer[Any]) -> None:
    """An earlier Headrace kept no copies."""
    try:
        if offer.shelf.take(offer.digest) is None:
            keep(settings, offer)
    except ConfigError as error:
        log.warning("what was deployed runs from its file", error=str(error))
