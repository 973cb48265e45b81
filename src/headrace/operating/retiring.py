"""Use cases that are to run no more.

What is deployed runs until somebody says otherwise, so one that was taken out of its file, or was
given another name there, runs on. That has to be said where its file is deployed, and there has to
be a way to end it.

A use case stays in the store: its positions tell how far it came, and its name means its topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from headrace.errors import ConfigError, no_use_case
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.records import Deployment
from headrace.model.streams import State, StreamId, original
from headrace.ports import Registry


def left_out(registry: Registry, modules: Collection[str], names: Collection[str]) -> list[str]:
    """Use cases that were deployed from a file, run, and are not in it any more.

    Args:
        registry: where deployments are.
        modules: path of the file, and those that it had before.
        names: the use cases that it has now.
    """
    run = {stream.id.use_case for stream in registry.streams() if stream.state is not State.REMOVED}
    return [
        deployment.use_case
        for deployment in registry.deployments()
        if deployment.module in modules
        and deployment.until is None
        and deployment.use_case not in names
        and (deployment.all_tenants or deployment.use_case in run)
    ]


def taken_from(
    before: Iterable[Deployment], modules: Collection[str], names: Collection[str]
) -> dict[str, str]:
    """Use cases that another file had until they were deployed now, with its path.

    Args:
        before: what was deployed until then.
        modules: path of the file, and those that it had before.
        names: the use cases that are deployed now.
    """
    return {
        known.use_case: known.module
        for known in before
        if known.use_case in names and known.module not in modules
    }


def lacking(
    registry: Registry, names: Collection[str], operators: Mapping[str, str]
) -> list[StreamId]:
    """For each of these use cases that no tenant has a stream of, the one that a tenant could have.

    Without customers nothing is lacking of those that read a topic of each. Those that divide the
    topic of one tenant, of ``operators``, lack the stream of this one, also if it is no tenant yet.
    """
    tenants = {one.name: one for one in registry.tenants() if one.state is not State.REMOVED}
    customers = [one.name for one in tenants.values() if not one.reserved]
    there = {
        stream.id
        for stream in registry.streams()
        if stream.state is not State.REMOVED and stream.id.tenant in tenants
    }
    had = {stream.use_case for stream in there}
    plain = {known.use_case for known in registry.deployments() if is_plain(known.topic)}
    could = {name: [EVERYONE] if name in plain else customers for name in set(names) - had}
    divided = {StreamId(name, operators[name]) for name in set(names) & operators.keys()}
    found = {StreamId(name, min(could[name])) for name in could.keys() - operators if could[name]}
    return sorted(found | divided - there, key=lambda stream: stream.use_case)


def retire(registry: Registry, name: str) -> list[StreamId]:
    """Give a use case to no further tenant, and remove its streams; return those that ran.

    Its reruns end with it, as they run its code. Done again where it was cut off, it does the rest.

    Raises:
        UnknownName: nobody deployed it.
        ConfigError: somebody deploys it at the same time.
    """
    known = {deployment.use_case: deployment for deployment in registry.deployments()}.get(name)
    if known is None:
        raise no_use_case(name)
    for_nobody = replace(known, all_tenants=False)
    if known.all_tenants and not registry.deploy(for_nobody, over=known):
        raise ConfigError(f"somebody has just deployed {name}; nothing is done, do it again")
    streams = [
        stream.id
        for stream in registry.streams()
        if name in (stream.id.use_case, original(stream.id.use_case))
        and stream.state is not State.REMOVED
    ]
    for stream in streams:
        registry.set_stream_state(stream, State.REMOVED)
    return streams
