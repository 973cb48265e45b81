"""What can happen, one function each, and the scheduler's choice of it.

Each action takes a moment of the twin clock. While an actor sleeps inside a call, the same
scheduler goes on with everybody else for as long as it sleeps, mostly for longer than a lease.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headrace.errors import ConfigError
from headrace.model.streams import State, StreamId, Throttle
from headrace.testing.simulation.world import LEASE_S, Life, World

_NAMES = ("d0", "d1", "d2")
_MOMENTS_S = (0.0, 0.01, 0.05, 0.2)
_SLEEPS_S = (0.5, 1.5 * LEASE_S, 3 * LEASE_S)


def play(world: World, actions: int) -> None:
    """Let so many things happen."""
    rng = world.rng
    world.meanwhile = lambda: _meanwhile(world)
    for name in rng.sample(_NAMES, rng.choice([1, 1, 2, 3])):
        world.start_driver(name)
    for _ in range(actions):
        act(world)


def act(world: World) -> None:
    """One thing happens."""
    world.clock.move(world.rng.choice(_MOMENTS_S))
    (chosen,) = world.rng.choices(_ACTIONS, _WEIGHTS)
    chosen(world)


def _meanwhile(world: World) -> None:
    """What happens while somebody sleeps."""
    actions = world.rng.randint(4, 24)
    sleep_s = world.rng.choice(_SLEEPS_S)
    for _ in range(actions):
        world.clock.move(sleep_s / actions)
        act(world)


def _turn(world: World) -> None:
    now_s = world.clock.monotonic_s()
    awake = [each for each in world.lives if not each.turning and each.asleep_until_s <= now_s]
    if awake:
        world.turn(world.rng.choice(awake))


def _run_bin(world: World) -> None:
    world.run_bin()


def _send(world: World) -> None:
    topic, partition = _partition(world)
    world.send(topic, partition, world.rng.randint(1, 8))


def _gap(world: World) -> None:
    topic, partition = _partition(world)
    world.log.append_gap(topic, partition, world.rng.randint(1, 3))


def _wait(world: World) -> None:
    world.clock.move(world.rng.uniform(0.3, 3.0))


def _start_driver(world: World) -> None:
    if len(world.lives) < len(_NAMES):
        world.start_driver(world.rng.choice(_NAMES))


def _kill_driver(world: World) -> None:
    life = _somebody(world)
    if life is not None and world.odds.driver_killed:
        world.say(f"KILL {life.actor.name}")
        world.counts["drivers killed"] += 1
        life.actor.hurt()
        world.kill(life.actor)


def _pause_driver(world: World) -> None:
    life = _somebody(world)
    if life is not None and world.odds.driver_paused:
        sleep_s = world.rng.choice(_SLEEPS_S)
        world.say(f"PAUSE {life.actor.name} for {sleep_s:g} s between two turns")
        world.counts["drivers paused"] += 1
        life.actor.hurt()
        life.asleep_until_s = world.clock.monotonic_s() + sleep_s


def _drain(world: World) -> None:
    life = _somebody(world)
    if life is not None:
        world.say(f"{life.actor.name} is to drain")
        life.driver.drain()


def _lose_executor(world: World) -> None:
    asleep = [each for each in world.cluster.flights if each.running]
    if asleep and world.odds.task_paused:
        flight = world.rng.choice(asleep)
        world.say(f"an executor with a bin of {flight.wave.id} is thought lost")
        world.counts["executors lost"] += 1
        for attempt in flight.running:
            attempt.actor.hurt()
        world.cluster.lose_executor(flight)


def _store(world: World) -> None:
    if world.odds.store_before:
        world.store_down = not world.store_down
        world.say(f"store {'down' if world.store_down else 'up'}")


def _broker(world: World) -> None:
    world.log.down = not world.log.down
    world.say(f"broker {'down' if world.log.down else 'up'}")


def _leader(world: World) -> None:
    topic, partition = _partition(world)
    present = world.rng.random() < 0.5
    world.log.set_leader(topic, partition, present)
    world.say(f"{topic}[{partition}] {'has a' if present else 'lost its'} leader")


def _tenant_state(world: World) -> None:
    name = _tenant(world)
    state = world.rng.choice([State.ACTIVE, State.SUSPENDED])
    world.say(f"tenant {name}: {state}")
    with suppress(ConfigError):
        world.store.set_tenant_state(name, state)


def _stream_state(world: World) -> None:
    stream = StreamId(world.rng.choice(sorted(world.use_cases)), _tenant(world))
    state = world.rng.choice([State.ACTIVE, State.SUSPENDED])
    world.say(f"stream {stream}: {state}")
    with suppress(ConfigError):
        world.store.set_stream_state(stream, state)


def _throttle(world: World) -> None:
    limit = world.rng.choice([None, 0.5, 5.0])
    with suppress(ConfigError):
        world.store.set_throttle(_tenant(world), Throttle(records_per_s=limit))


def _weight(world: World) -> None:
    with suppress(ConfigError):
        world.store.set_weight(_tenant(world), world.rng.choice([0.1, 1.0, 10.0]))


def _add_tenant(world: World) -> None:
    if world.counts["tenants"] < 5:
        world.add_tenant()
        world.say(f"tenant t{world.counts['tenants'] - 1} added")


def _remove_tenant(world: World) -> None:
    name = _tenant(world)
    if len(world.removed) + 1 < world.counts["tenants"]:
        world.say(f"tenant {name} removed")
        world.removed.add(name)
        world.store.set_tenant_state(name, State.REMOVED)


def _deploy(world: World) -> None:
    name = world.rng.choice(sorted(world.use_cases))
    deployment = world.deploy(name, "a new version")
    for life in world.lives:
        if not life.turning:
            world.load(life, deployment)


def _wall_clock_jumps(world: World) -> None:
    world.clock.wall_s += world.rng.choice([-3600.0, 3600.0])


def _decide(world: World) -> None:
    found = world.store.failures(only_open=True)
    if found:
        decide(world, world.rng.choice(found).id or 0)


def decide(world: World, number: int) -> None:
    """Somebody skips what can never be handled, and retries everything else."""
    failure = world.store.failure(number)
    lane, offset = failure.slice.lane, failure.error.offset
    with suppress(ConfigError):
        if offset is not None and any(
            place[1:] == (lane.partition, offset) and place.topic == failure.slice.topic
            for place in world.poisoned
        ):
            world.store.skip_failure(number)
            world.say(f"failure {number} skipped: {lane} goes on at {failure.skipped_to}")
            world.chain.sent(lane, failure.skipped_to)
            return
    with suppress(ConfigError):
        world.store.retry_failure(number)
        world.say(f"failure {number} retried: {failure.error.message}")


def _partition(world: World) -> tuple[str, int]:
    topic = f"t{world.rng.randrange(world.counts['tenants'])}.visits"
    return topic, world.rng.randrange(world.partitions[topic])


def _tenant(world: World) -> str:
    return f"t{world.rng.randrange(world.counts['tenants'])}"


def _somebody(world: World) -> Life | None:
    return world.rng.choice(world.lives) if world.lives else None


_CHOICES: dict[Callable[[World], None], float] = {
    _turn: 45.0,
    _run_bin: 30.0,
    _send: 8.0,
    _gap: 0.5,
    _wait: 3.0,
    _start_driver: 2.0,
    _kill_driver: 0.7,
    _pause_driver: 0.7,
    _drain: 0.2,
    _lose_executor: 1.0,
    _store: 0.7,
    _broker: 0.7,
    _leader: 1.0,
    _tenant_state: 0.7,
    _stream_state: 0.7,
    _throttle: 0.4,
    _weight: 0.2,
    _add_tenant: 0.5,
    _remove_tenant: 0.2,
    _deploy: 0.3,
    _wall_clock_jumps: 0.2,
    _decide: 1.0,
}
_ACTIONS, _WEIGHTS = list(_CHOICES), list(_CHOICES.values())
