"""What can happen, one function each, and the scheduler's choice of it.

What happens to processes is here, to topics in ``brokers.py``, and what people do in
``operators.py``.

Each action takes a moment of the fake clock. While an actor sleeps inside a call, the same
scheduler goes on with everybody else for as long as it sleeps, mostly for longer than a lease.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.testing.simulation import brokers, operators, reruns
from headrace.testing.simulation.lives import Life
from headrace.testing.simulation.world import LEASE_S, World

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
    awake = [life for life in world.lives if not life.turning and life.asleep_until_s <= now_s]
    if awake:
        world.turn(world.rng.choice(awake))


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
        if not life.turning and _by(world, world.odds.drains_cut):
            world.cut_drain(life)
        else:
            world.kill(life.actor)


def _by(world: World, odds: float) -> bool:
    """Chance; one that is not asked for draws nothing, so that seeds play what they played."""
    return bool(odds) and world.rng.random() < odds


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
    asleep = [flight for flight in world.cluster.flights if flight.running and not flight.whole]
    if asleep and world.odds.task_paused:
        flight = world.rng.choice(asleep)
        world.say(f"an executor with a bin of {flight.wave.id} is thought lost")
        world.counts["executors lost"] += 1
        for attempt in flight.running:
            attempt.actor.hurt()
        world.cluster.lose_executor(flight)


def _look_at_deployments(world: World) -> None:
    life = _somebody(world)
    if life is not None:
        world.load_changes(life)


def _store(world: World) -> None:
    if world.odds.store_before:
        world.store_down = not world.store_down
        world.say(f"store {'down' if world.store_down else 'up'}")


def _wall_clock_jumps(world: World) -> None:
    world.clock.wall_s += world.rng.choice([-3600.0, 3600.0])


def _somebody(world: World) -> Life | None:
    return world.rng.choice(world.lives) if world.lives else None


_CHOICES: dict[Callable[[World], None], float] = {
    _turn: 45.0,
    World.run_bin: 30.0,
    World.run_beside: 6.0,
    _wait: 3.0,
    _start_driver: 2.0,
    _kill_driver: 0.7,
    _pause_driver: 0.7,
    _drain: 0.2,
    _lose_executor: 4.0,
    _store: 0.7,
    _wall_clock_jumps: 0.2,
    brokers.send: 8.0,
    brokers.gap: 0.5,
    brokers.broker: 0.7,
    brokers.leader: 1.0,
    brokers.expire: 1.0,
    brokers.cut: 1.0,
    brokers.cut_off: 1.0,
    brokers.delete: 0.7,
    brokers.make_again: 3.0,
    brokers.widen: 0.4,
    operators.tenant_state: 0.7,
    operators.stream_state: 0.7,
    operators.throttle: 0.8,
    operators.weight: 0.2,
    operators.add_tenant: 0.5,
    operators.remove: 0.5,
    operators.add_again: 1.5,
    operators.seek_somewhere: 1.5,
    operators.deploy: 0.4,
    reruns.begin_one: 0.5,
    _look_at_deployments: 1.0,
    operators.decide_something: 1.0,
}
_ACTIONS, _WEIGHTS = list(_CHOICES), list(_CHOICES.values())
