"""The end of a run: all faults stop, it has to come to rest, and the books must balance.

What each guarantee allows is said here and nowhere else. Exactly-once allows nothing. At-most-once
may lose, and at-least-once may do twice, only records of slices that were in flight when something
happened to whoever ran them. Records that can never be handled were set aside or skipped. Order is
judged by when an effect was first made; by intent there is no order, as effects replace each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.streams import Guarantee, State, Throttle
from headrace.ports import TopicPartition
from headrace.testing.ledger import Found, Place, Verdict
from headrace.testing.simulation.play import decide
from headrace.testing.simulation.sinks import found_in
from headrace.testing.simulation.world import World

#: rounds in which it has to come to rest: some leases and all waits after trouble
_MOST_ROUNDS = 150
_RESTS = 3
_NAMED = 3


def settle(world: World) -> list[str]:
    """Stop all faults and go on until nothing is left to do; why not, if it never rests."""
    world.calm, world.store_down, world.log.down = True, False, False
    world.say("CALM: no more faults")
    for topic, partitions in world.partitions.items():
        for partition in range(partitions):
            world.log.set_leader(topic, partition, True)
    for tenant in world.store.tenants():
        # No more than needed: what operators change makes drivers look at everything again.
        if tenant.state is State.SUSPENDED:
            world.store.set_tenant_state(tenant.name, State.ACTIVE)
        if tenant.state is not State.REMOVED and tenant.throttle != Throttle():
            world.store.set_throttle(tenant.name, Throttle())
    rests = 0
    for number in range(_MOST_ROUNDS):
        _round(world, 2.0 if number < _MOST_ROUNDS // 5 else 10.0)
        rests = rests + 1 if _at_rest(world) else 0
        if rests == _RESTS:
            return []
    return [f"it does not come to rest: {_why(world)}"]


def judge(world: World) -> list[str]:
    """Everything that is wrong at the end."""
    wrong = [
        str(each)
        for each in (world.chain.report(), world.flight.report(), world.isolation.report())
        if not each.clean
    ]
    wrong += _kept_lanes(world)
    for name in sorted(world.use_cases):
        wrong += [f"{name}: {each}" for each in _use_case(world, name)]
        wrong += [f"{name}: {each}" for each in _standing_still(world, name)]
    for name, book in sorted(world.books.items()):
        changed = book.changed if book.exactly_once == "intent" else []
        wrong += [f"{name}: effect {each} was replaced by another" for each in changed]
    return wrong


def _kept_lanes(world: World) -> list[str]:
    """Lanes that nothing can be planned for, as a wave has them that is over."""
    return [
        f"{name} partition {partition} is kept by wave {lane.wave}, which is over"
        for life in world.lives
        for name, held in life.driver.board.streams.items()
        for partition, lane in held.lanes.items()
        if lane.wave is not None and lane.wave not in life.driver.board.flights
    ]


def _round(world: World, seconds: float) -> None:
    if not any(not life.driver._draining for life in world.lives):
        world.start_driver("d0")
    for failure in world.store.failures(only_open=True):
        decide(world, failure.id or 0)
    for stream in world.store.streams():
        if stream.state is State.SUSPENDED:
            world.store.set_stream_state(stream.id, State.ACTIVE)
    for life in list(world.lives):
        world.turn(life)
    while world.cluster.runnable:
        world.run_bin()
    world.clock.move(seconds)


def _at_rest(world: World) -> bool:
    boards = [life.driver.board for life in world.lives]
    held = [stream for board in boards for stream in board.streams]
    wanted = {each.id for each in world.store.streams() if each.state is State.ACTIVE}
    return (
        all(life.driver.idle for life in world.lives)
        and not any(each.has_work for board in boards for each in board.streams.values())
        and not world.cluster.flights
        and not world.store.failures(only_open=True)
        and not world.store.pending_intents()
        and wanted <= set(held)
    )


def _why(world: World) -> str:
    told = [f"intents {[each.id for each in world.store.pending_intents()]}"]
    told += [f"flights {[each.wave.id for each in world.cluster.flights]}"]
    told += [f"failures {[str(e.slice) for e in world.store.failures(only_open=True)]}"]
    for stream in world.store.streams():
        told.append(f"{stream.id} {stream.state} held by {stream.holder}")
    for life in world.lives:
        board = life.driver.board
        working = [str(name) for name, each in board.streams.items() if each.has_work]
        told.append(f"{life.actor.name} holds {len(board.streams)}, has work in {working}")
        told.append(f"replays {[wave.id for _, wave in life.driver.committer.replays]}")
    return "; ".join(told)


def _use_case(world: World, name: str) -> list[str]:
    use_case = world.use_cases[name]
    verdict = world.ledger.judge(_found(world, name))
    may_lose = world.poisoned | _of_removed(world, verdict.lost)
    may_repeat: set[Place] = set()
    touched = {place for of, place in world.touched if of == name}
    if use_case.guarantee is Guarantee.AT_MOST_ONCE:
        may_lose |= touched
    if use_case.guarantee is Guarantee.AT_LEAST_ONCE:
        may_repeat = touched
    late: Sequence[Place] = () if use_case.intends else verdict.out_of_order
    if use_case.guarantee is Guarantee.AT_MOST_ONCE:
        # A task that sleeps between its claim and its effect makes it when it wakes up.
        late = [each for each in late if each not in touched]
    _count(world, verdict)
    return [
        f"{len(places)} {kind}: {', '.join(str(each) for each in places[:_NAMED])}"
        for kind, places in (
            ("lost", [each for each in verdict.lost if each not in may_lose]),
            ("twice", [each for each in verdict.twice if each not in may_repeat]),
            ("foreign", list(verdict.foreign)),
            ("out of order", list(late)),
        )
        if places
    ]


def _count(world: World, verdict: Verdict) -> None:
    world.counts["records checked"] += verdict.records
    world.counts["lost as allowed"] += len(verdict.lost)
    world.counts["twice as allowed"] += len(verdict.twice)


def _found(world: World, name: str) -> list[Found]:
    book = world.books.get(name)
    return book.found if book is not None else found_in(world.make.rows(world.store))


def _of_removed(world: World, places: Sequence[Place]) -> set[Place]:
    gone = {f"{tenant}.visits" for tenant in world.removed}
    return {place for place in places if place.topic in gone}


def _standing_still(world: World, name: str) -> list[str]:
    """Lanes that are not at their end although nothing holds them."""
    at = {
        (each.lane.tenant, each.lane.partition): each.next_offset
        for each in world.store.load_positions()
        if each.lane.use_case == name
    }
    found = []
    for topic, partitions in world.partitions.items():
        tenant = topic.partition(".")[0]
        lanes = [] if tenant in world.removed else range(partitions)
        for partition in lanes:
            place = TopicPartition(topic, partition)
            end = world.log.end_offsets([place])[place]
            if at.get((tenant, partition)) != end:
                found.append(
                    f"{topic}[{partition}] stands at {at.get((tenant, partition))}, not {end}"
                )
    return found
