"""Ranges that are read once more: begun by people who may be killed at it, and ended by drivers.

To begin a rerun takes several steps, and what a person's process leaves behind when it dies after
some of them must never run. What runs has its own generations, and is judged as any stream; beside
that its end is looked at: a driver may end it only where it was to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from headrace.cycle.reruns import begin, range_of
from headrace.errors import ConfigError, Temporary
from headrace.model.lane_names import number_of
from headrace.model.places import Place, number_at, place_at
from headrace.model.streams import LaneId, State, StreamId
from headrace.ports import Store
from headrace.testing.simulation.actors import Killed
from headrace.testing.simulation.topics import topic_of
from headrace.testing.simulation.world import World

#: chance that a person's process dies at a step, in a run with kills of drivers
_DIES = 0.1
_MOST = 3


def begin_one(world: World) -> None:
    """Somebody wants a range read once more."""
    if world.rng.random() >= world.odds.reruns or world.counts["reruns begun"] >= _MOST:
        return
    tenant = f"t{world.rng.randrange(world.counts['tenants'])}"
    stream = StreamId(world.rng.choice(sorted(world.deployed.use_cases)), tenant)
    share = world.rng.choice([0.1, 0.5])
    with suppress(ConfigError, Temporary):
        wanted = range_of(world.store, world.asked_log, stream, "earliest", None)
        try:
            rerun = begin(cast("Store", _Person(world)), wanted, share)
        except Killed:
            world.say(f"KILL whoever begins a rerun of {stream}")
            return
        world.counts["reruns begun"] += 1
        world.say(f"rerun {rerun} begun: {wanted.lanes}")
        for life in world.lives:
            world.load_changes(life)


def unfinished(world: World) -> list[str]:
    """Reruns that nothing holds, and that are not at their end or that of their log."""
    ends = {
        deployment.use_case: deployment.until
        for deployment in world.store.registry.deployments()
        if deployment.until
    }
    found = []
    for stream in world.store.registry.streams():
        held = stream.state is not State.ACTIVE or stream.id in world.decisions.stopped
        untils = {} if held else ends.get(stream.id.use_case) or {}
        stops = {
            until: place_at(world.topics.end_of(_topic(stream.id, until), number_of(until)))
            for until in untils
        }
        stands = {until: world.generations.now(LaneId(*stream.id, until)) for until in untils}
        for partition, until in untils.items():
            now, end = stands[partition], min(until, stops[partition])
            if now is None or now.at < number_at(end):
                found.append(f"the rerun {stream.id} stands at {now and now.at} of {end}")
        if untils and all(until <= stops[partition] for partition, until in untils.items()):
            found.append(f"the rerun {stream.id} is done, and nobody has ended it")
    return found


def _topic(stream: StreamId, lane: str) -> str:
    return topic_of(LaneId(*stream, lane))


class _Person:
    """A store for somebody who may die before any change."""

    def __init__(self, world: World) -> None:
        self.registry = _Registry(world)
        self.progress = _Progress(world)


class _Registry:
    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        if name in ("deploy", "add_stream"):
            _step(self._world)
        return getattr(self._world.store.registry, name)


class _Progress:
    def __init__(self, world: World) -> None:
        self._world = world

    def seek(
        self,
        stream: StreamId,
        offsets: Mapping[str, Place],
        topic_id: str | None,
        *more: Any,
        **how: Any,
    ) -> None:
        """As the store's; a decision like any other seek."""
        _step(self._world)
        self._world.store.progress.seek(stream, offsets, topic_id, *more, **how)
        self._world.decisions.sought(stream, offsets, topic_id)


def _step(world: World) -> None:
    if world.odds.driver_killed and world.rng.random() < _DIES:
        raise Killed("a person")
