"""What people decide while everything runs: who is served, and where streams go on.

Each decision is one call to what ``headrace`` itself calls, at a moment in which anybody may sleep
or be dead. A person has no faults here: a decision that is refused was none, and one that is made
is in the store at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from headrace.errors import ConfigError, HeadraceError, Temporary
from headrace.model.buckets import whole_lane
from headrace.model.everyone import EVERYONE
from headrace.model.lane_names import named, number_of
from headrace.model.places import number_at
from headrace.model.records import Failure
from headrace.model.streams import RERUN_MARK, Slice, State, StreamId, Tenant, Throttle
from headrace.operating import quarantine
from headrace.operating.seeking import carry_out, planned
from headrace.testing.simulation.keys import is_in
from headrace.testing.simulation.troubles import is_poison
from headrace.testing.simulation.world import World

_MOST_TENANTS = 5
#: limits in bytes that are set in turn: a small record has some hundred, a large one four thousand
_BYTES_PER_S = (None, 500.0, 5_000.0)
#: chance that a person skips what would come through later
_HASTY = 0.2
#: chance that it is the tenant of topics for all
_OF_ALL = 0.3
#: chance that a person forgets what follows a lane that is sought
_ALONE = 0.3


def tenant_state(world: World) -> None:
    """Suspend or resume a tenant."""
    name = _tenant(world)
    state = world.rng.choice([State.ACTIVE, State.SUSPENDED])
    world.say(f"tenant {name}: {state}")
    with suppress(ConfigError):
        world.store.registry.set_tenant_state(name, state)
        if state is State.ACTIVE:
            world.decisions.left_alone.tenant_resumed(name)


def stream_state(world: World) -> None:
    """Suspend or resume a stream, whatever stopped it."""
    stream = world.rng.choice(world.store.registry.streams()).id
    state = world.rng.choice([State.ACTIVE, State.SUSPENDED])
    world.say(f"stream {stream}: {state}")
    with suppress(ConfigError):
        world.store.registry.set_stream_state(stream, state)
        if state is State.ACTIVE:
            world.decisions.left_alone.resumed(stream)
            world.decisions.stopped.pop(stream, None)


def throttle(world: World) -> None:
    """Set or lift a throttle."""
    world.counts["throttles"] += 1
    limit = world.rng.choice([None, 0.5, 5.0])
    bytes_per_s = _BYTES_PER_S[world.counts["throttles"] % len(_BYTES_PER_S)]
    with suppress(ConfigError):
        world.store.registry.set_throttle(_tenant(world), Throttle(limit, bytes_per_s))


def weight(world: World) -> None:
    """Set a weight."""
    with suppress(ConfigError):
        world.store.registry.set_weight(_tenant(world), world.rng.choice([0.1, 1.0, 10.0]))


def add_tenant(world: World) -> None:
    """Add a tenant that never was."""
    if world.counts["tenants"] < _MOST_TENANTS:
        world.add_tenant()
        world.say(f"tenant t{world.counts['tenants'] - 1} added")


def remove(world: World) -> None:
    """Remove a tenant that is not the last one, or a stream, for good or for a while."""
    there = [
        tenant for tenant in world.store.registry.tenants() if tenant.state is not State.REMOVED
    ]
    if len(there) > 1 and world.rng.random() < 0.5:
        name = world.rng.choice(there).name
        for lost in [stream for stream in world.decisions.stopped if stream.tenant == name]:
            del world.decisions.stopped[lost]
        world.say(f"tenant {name} removed")
        world.store.registry.set_tenant_state(name, State.REMOVED)
    elif world.rng.random() < world.odds.comes_and_goes:
        stream = _stream(world)
        if stream.tenant in world.unknown_tenants:
            return
        world.say(f"stream {stream} removed")
        world.decisions.stopped.pop(stream, None)
        world.store.registry.set_stream_state(stream, State.REMOVED)


def add_again(world: World) -> None:
    """Add a tenant or a stream that was removed: it begins afresh."""
    gone = [
        tenant.name for tenant in world.store.registry.tenants() if tenant.state is State.REMOVED
    ]
    streams = [
        stream.id for stream in world.store.registry.streams() if stream.state is State.REMOVED
    ]
    streams = [stream for stream in streams if stream.tenant not in gone]
    streams = [stream for stream in streams if RERUN_MARK not in stream.use_case]
    if not (gone or streams) or world.rng.random() >= world.odds.comes_and_goes:
        return
    world.counts["added again"] += 1
    if world.rng.randrange(len(gone) + len(streams)) < len(gone):
        tenant = world.rng.choice(gone)
        world.store.registry.add_tenant(Tenant(tenant))
        # With its reruns, which stay removed: nothing of an earlier tenant has a position.
        streams = [
            stream.id for stream in world.store.registry.streams() if stream.id.tenant == tenant
        ]
    else:
        streams = [world.rng.choice(streams)]
        world.store.registry.add_stream(streams[0])
    world.say(f"added again: {', '.join(str(stream) for stream in streams)}")
    for stream in streams:
        world.decisions.added_again(stream)


def seek_somewhere(world: World) -> None:
    """Seek a stream: to an edge, a time, or an offset of one partition or of all."""
    if world.rng.random() < world.odds.seeks:
        stream = _stream(world)
        with suppress(ConfigError, Temporary):
            _seek(world, stream, _target(world, world.deployed.topics_of(stream)))


def resume(world: World, stream: StreamId) -> None:
    """Seek a stream that is suspended because it lost something, and resume it.

    A rerun is given up: in another topic, or behind a gap, its end means nothing.
    """
    if stream in world.decisions.stopped and RERUN_MARK in stream.use_case:
        world.store.registry.set_stream_state(stream, State.REMOVED)
        world.decisions.stopped.pop(stream)
        return
    if stream in world.decisions.stopped:
        _seek(world, stream, "earliest")
    world.store.registry.set_stream_state(stream, State.ACTIVE)
    world.decisions.left_alone.resumed(stream)
    world.decisions.stopped.pop(stream, None)


def deploy(world: World) -> None:
    """A new version of a use case, at times under other terms."""
    name = world.rng.choice(sorted(world.deployed.use_cases))
    if world.rng.random() < world.odds.other_terms:
        world.deployed.change_terms(name)
    world.deployed.deploy(name)
    for life in world.lives:
        world.load_changes(life)


def decide_something(world: World) -> None:
    """Decide about an open failure."""
    found = world.store.failures.every(only_open=True)
    if found:
        decide(world, world.rng.choice(found).id or 0)


def decide(world: World, number: int) -> None:
    """Somebody skips what can never be handled, and retries everything else, mostly."""
    failure = world.store.failures.one(number)
    hasty = not world.calm and world.rng.random() < _HASTY
    with suppress(ConfigError, Temporary):
        if _hopeless(world, failure) or (hasty and failure.error.offset is not None):
            quarantine.skip(world.store.failures, world.letters, failure)
            _passed(world, failure)
            return
    with suppress(ConfigError):
        world.store.failures.retry(number)
        world.decisions.left_alone.resumed(failure.slice.lane.stream)
        world.say(f"failure {number} retried: {failure.error.message}")


def _hopeless(world: World, failure: Failure) -> bool:
    """Whether what it names can never be handled; if no record, whether nothing else is there."""
    if failure.error.offset is not None:
        return is_poison(failure.error.raw_value)
    if failure.error.code == "SinkRefused":
        return True  # nothing tells which of several merged or recorded ones it was
    piece = failure.slice
    with suppress(HeadraceError):
        name = piece.lane.name
        whole = replace(piece, lane=piece.lane._replace(name=whole_lane(name)))
        rows = [row for at, row in world.log.rows(whole) if is_in(name, at)]
        poison = [is_poison(row.value) for row in rows]
        # A recorded slice runs as it was, whatever its use case is by now, and cannot tell more.
        return any(poison) if _is_recorded(world, piece) else _only(poison)
    return False


def _is_recorded(world: World, piece: Slice) -> bool:
    recorded = (own for wave in world.store.progress.pending_intents() for own in wave.slices)
    return any(own.lane == piece.lane and own.from_offset == piece.from_offset for own in recorded)


def _only(poison: list[bool]) -> bool:
    return bool(poison) and all(poison)


def _passed(world: World, failure: Failure) -> None:
    lane = failure.slice.lane
    world.say(f"failure {failure.id} skipped: {lane} goes on at {failure.skipped_to}")
    if failure.error.offset is None:
        world.decisions.passed_over(failure.slice)
    world.generations.passed(lane, number_at(failure.skipped_to))
    world.decisions.moved(lane, failure.skipped_to)


def _seek(world: World, stream: StreamId, to: str) -> None:
    plan = planned(world.store, world.asked_log, stream, to, wait=lambda _: None)
    carry_out(world.store.progress, plan)
    world.say(f"stream {stream} sought to {to}: {plan.offsets}")
    world.decisions.sought(stream, plan.offsets, plan.topic_id, plan.gone)


def _target(world: World, topics: Sequence[str]) -> str:
    """What a person types, of a stream that reads these."""
    kind = world.rng.choice(["earliest", "latest", "time", "offset", "offset", "all"])
    if kind in ("earliest", "latest"):
        return kind
    if kind == "time":
        at_s = world.clock.now_s() - world.rng.uniform(0, 30)
        return datetime.fromtimestamp(at_s, UTC).isoformat()
    offset = world.rng.randint(0, 20)
    topic = topics[0] if len(topics) == 1 else world.rng.choice(topics)
    hidden = topics if kind == "all" else [topic]
    offset = min([offset, *(end for one in hidden for end in _hidden_ends(world, one))])
    if kind == "all":
        return str(offset)
    there = world.topics.listed(topic) if topic in world.topics.partitions else [0]
    partition = world.rng.choice(there)
    return json.dumps({topic: {str(partition): offset, **_what_follows(world, topic, partition)}})


def _what_follows(world: World, topic: str, partition: int) -> dict[str, int]:
    """All that follows a lane, at its beginning; without it the lane is not sought back."""
    if topic not in world.topics.partitions:
        return {}
    lineage, log = world.topics.lineage, world.topics.made[topic]
    followers = map(number_of, lineage.descendants(topic, log, named(topic, partition)))
    there = world.topics.listed(topic)
    found = {str(number): -2 for number in followers if number in there}
    return {} if found and world.rng.random() < _ALONE else found


def _hidden_ends(world: World, topic: str) -> list[int]:
    """True ends of lanes that tell none: nobody can say of a place that it is behind them."""
    there = world.topics.there(topic) if topic in world.topics.partitions else []
    return [world.topics.end_of(topic, n) for n in there if world.log.hides_end(topic, n)]


def _tenant(world: World) -> str:
    if world.deployed.for_all and world.rng.random() < _OF_ALL:
        return EVERYONE
    return f"t{world.rng.randrange(world.counts['tenants'])}"


def _stream(world: World) -> StreamId:
    name = world.rng.choice(sorted(world.deployed.use_cases))
    if name in world.deployed.for_all:
        return StreamId(name, EVERYONE)
    return StreamId(name, f"t{world.rng.randrange(world.counts['tenants'])}")
