"""The end of a run: all faults stop, and everything has to come to rest.

Twice, if a stream is suspended because Kafka lost its records: first without anybody deciding about
it, since it may hold up nobody else, and then with a person who seeks and resumes it.
"""

from __future__ import annotations

from collections import Counter

from headrace.board import HeldStream
from headrace.cycle.late_claims import LOOK_S
from headrace.cycle.lineage import doubtful
from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.model.buckets import replaced
from headrace.model.lane_names import number_of
from headrace.model.places import number_at
from headrace.model.streams import LaneId, State, StreamId, Throttle
from headrace.policies.data_loss import CUT_PATIENCE_S, LIST_PATIENCE_S
from headrace.testing.simulation.brokers import make_again
from headrace.testing.simulation.operators import decide, resume
from headrace.testing.simulation.topics import lane_of, tenant_of, topic_of
from headrace.testing.simulation.world import LOOKED_S, World

#: rounds in which it has to come to rest besides those of its records: some leases and all waits
#: after trouble
_MOST_ROUNDS = 150
_RESTS = 3
#: between two turns
_STEP_S = 2.0
#: waves after one another in which all lanes are looked at whose ends only reading tells
_LOOKS = 20


def settle(world: World) -> list[str]:
    """Stop all faults and go on until nothing is left to do; why not, if it never rests."""
    _stop_faults(world)
    wrong = _stopped_unseen(world) or _rest(world, frozenset())
    world.counts["tenants added by drivers"] = len(world.left_to_drivers - world.unknown_tenants)
    if world.decisions.stopped and not wrong:
        world.counts["streams that waited for a person"] += len(world.decisions.stopped)
        lost = frozenset(world.decisions.stopped)
        wrong = _waiting(world, lost) or _rest(world, lost)
        again = sorted(str(stream) for stream in world.decisions.stopped)
        wrong = wrong or [f"{name} lost records again, and Kafka none" for name in again]
    return wrong


def standing_still(world: World, name: str) -> list[str]:
    """Lanes that are not at the end of their topics although nothing holds them."""
    positions = [one for one in world.store.progress.load_positions() if one.lane.use_case == name]
    places = {position.lane: position.next_offset for position in positions}
    divided, found = world.decisions.divided, list[str]()
    for stream in world.store.registry.streams():
        waits = stream.state is State.REMOVED or stream.id in world.decisions.stopped
        read = [] if waits or stream.id.use_case != name else world.deployed.topics_of(stream.id)
        for topic, partition in (
            (one, number) for one in read for number in world.topics.there(one)
        ):
            end = world.log.edges(topic, partition).stop
            stands = divided.stands(stream.id, lane_of(stream.id, topic, partition).name)
            if stands != end:
                found.append(f"{topic}[{partition}] stands at {stands}, not {end}")
        lineage = {one.lane.name: one.parents for one in positions if one.lane.stream == stream.id}
        for lane, until in replaced({} if waits else lineage).items():
            if places[LaneId(*stream.id, lane)] < until:
                found.append(f"{lane} of {stream.id} is not done up to {until}")
        found += [
            f"{lane} of {stream.id} is without some of its buckets"
            for lane in divided.incomplete(stream.id)
            if not waits and stream.id.use_case == name
        ]
    return found


def _stop_faults(world: World) -> None:
    world.calm, world.store_down = True, False
    world.cluster.calm = True
    world.topics.switch(down=False)
    world.say("CALM: no more faults")
    if world.deployed.more_topics:
        _go_on_without(world)
    while set(world.topics.made) - set(world.topics.partitions):
        make_again(world)
    _show_all(world)
    if world.topics.cuts or world.odds.unheard:
        # Whoever first asked while there was no leader finds a cut when topics are looked at; and
        # whoever was told of a topic by a broker that had not heard finds another one.
        world.topics.changed_s = world.clock.monotonic_s()
    for tenant in world.store.registry.tenants():
        # No more than needed: what operators change makes drivers look at everything again.
        if tenant.state is State.SUSPENDED:
            world.store.registry.set_tenant_state(tenant.name, State.ACTIVE)
            world.decisions.left_alone.tenant_resumed(tenant.name)
        if tenant.state is not State.REMOVED and tenant.throttle != Throttle():
            world.store.registry.set_throttle(tenant.name, Throttle())


def _show_all(world: World) -> None:
    for topic in world.topics.partitions:
        for partition in world.topics.there(topic):
            world.log.set_leader(topic, partition, True)
            if partition not in world.topics.listed(topic):
                world.topics.show(topic, partition)


def _go_on_without(world: World) -> None:
    """Topics that are away stay so for longer than anything is asked for before it is decided."""
    _show_all(world)
    for _ in range(round((TOPICS_EVERY_S + 2 * LIST_PATIENCE_S) / _STEP_S)):
        _round(world, _STEP_S, frozenset())


def _stopped_unseen(world: World) -> list[str]:
    """Lanes stopped at records that are cut away: it is told before anybody decides about them."""
    for failure in world.store.failures.every(only_open=True) if world.odds.cuts else ():
        _cut_before(world, failure.slice.lane)
    if not _cut_away(world):
        return []
    world.counts["cuts before the record of a stopped lane"] += 1
    for _ in range(round((TOPICS_EVERY_S + 2 * CUT_PATIENCE_S) / _STEP_S)):
        _round(world, _STEP_S, frozenset(), decides=False)
    return [f"{lane} is stopped behind the end of its log, unseen" for lane in _cut_away(world)]


def _cut_before(world: World, lane: LaneId) -> None:
    topic, number, now = topic_of(lane), number_of(lane.name), world.generations.now(lane)
    taking = topic in world.topics.partitions and number in world.topics.taking(topic)
    if now is None or not taking or world.log.hides_end(topic, number):
        return
    if world.log.edges(topic, number).start >= now.at:
        return
    if (chance := world.rng.random()) < world.odds.cuts:
        # Before what it is stopped at, or right at that.
        end = now.at - (chance < world.odds.cuts / 2)
        world.topics.cut(topic, number, before=end)
        world.say(f"{topic}[{number}] is cut to {end}")
        world.decisions.lost(topic)


def _cut_away(world: World) -> list[LaneId]:
    at = {position.lane: position.next_offset for position in world.store.progress.load_positions()}
    return [
        lane
        for failure in world.store.failures.every(only_open=True)
        if _is_beyond(
            world, lane := failure.slice.lane, number_at(max(at[lane], failure.skipped_to))
        )
        and not world.log.hides_end(topic_of(lane), number_of(lane.name))
    ]


def _waiting(world: World, lost: frozenset[StreamId]) -> list[str]:
    """Whoever lost records is suspended alone, and all others are done."""
    states = {stream.id: stream.state for stream in world.store.registry.streams()}
    wrong = [
        f"{stream} lost records, and is {states[stream]}"
        for stream in sorted(lost)
        if states[stream] is not State.SUSPENDED
    ]
    return wrong + [
        text for name in sorted(world.deployed.use_cases) for text in standing_still(world, name)
    ]


def _rest(world: World, decided: frozenset[StreamId]) -> list[str]:
    """Go on until everything rests but streams that lost records, if nobody decided about them."""
    rests = 0
    for number in range(_most_rounds(world)):
        round_s = _STEP_S if number < _MOST_ROUNDS // 5 else 10.0
        _round(world, round_s, decided)
        rests = rests + 1 if _at_rest(world) else 0
        changed_s = max(world.topics.changed_s + LOOKED_S, world.moved_late_s + 2 * LOOK_S)
        # The rounds of a rest come behind the last look, which may find something to do.
        unseen_s = changed_s + _RESTS * round_s - world.clock.monotonic_s()
        if rests == _RESTS and unseen_s > 0:
            world.clock.move(unseen_s)
            rests = 0
        elif rests == _RESTS:
            return []
    return [f"it does not come to rest: {_why(world)}"]


def _most_rounds(world: World) -> int:
    """Where lanes are merged and a call is dear, a round may do one record of a stream."""
    log, topics = world.log, world.topics
    longest = Counter[str]()
    for topic in topics.partitions:
        records = sum(len(log.edges(topic, number)) for number in topics.there(topic))
        longest[tenant_of(topic)] += records
    return _MOST_ROUNDS + max(longest.values())


def _round(
    world: World, seconds: float, decided: frozenset[StreamId], *, decides: bool = True
) -> None:
    if not any(not life.driver._draining for life in world.lives):
        world.start_driver("d0")
    for failure in world.store.failures.every(only_open=True) if decides else ():
        decide(world, failure.id or 0)
    for stream in world.store.registry.streams():
        free = stream.id in decided or stream.id not in world.decisions.stopped
        if stream.state is State.SUSPENDED and free:
            resume(world, stream.id)
    while world.late_commits:
        world.commit_late()
    while world.jobs:
        world.run_beside()
    for life in list(world.lives):
        world.load_changes(life)
        world.turn(life)
    _run_bins(world)
    if world.hides_ends:
        _look(world)
    world.clock.move(seconds)


def _look(world: World) -> None:
    """What only reading tells is known when that has come back; then others are looked at."""
    for _ in range(_LOOKS):
        if not world.cluster.flights:
            return
        for life in list(world.lives):
            world.turn(life)
        _run_bins(world)


def _run_bins(world: World) -> None:
    while world.cluster.runnable:
        world.run_bin()


def _at_rest(world: World) -> bool:
    boards = [life.driver.board for life in world.lives]
    held = [stream for board in boards for stream in board.streams]
    served = {
        deployment.use_case
        for deployment in world.store.registry.deployments()
        if deployment.until != {}
    }
    active = {
        stream.id for stream in world.store.registry.streams() if stream.state is State.ACTIVE
    }
    wanted = {stream for stream in active if stream.use_case in served}
    at = {position.lane: position.next_offset for position in world.store.progress.load_positions()}
    pieces = (piece for wave in world.store.progress.pending_intents() for piece in wave.slices)
    # One whose lane has moved on holds nobody; it goes when its wave is looked at as a whole.
    recorded = (piece for piece in pieces if at.get(piece.lane) == piece.from_offset)
    return (
        not any(_is_beyond(world, lane, number_at(at_)) for lane, at_ in at.items())
        and all(life.driver.idle for life in world.lives)
        and not any(life.driver.observer._topics.doubts_lists for life in world.lives)
        and not any(_goes_on(stream) for board in boards for stream in board.streams.values())
        and not world.cluster.flights
        and not world.store.failures.every(only_open=True)
        and all(piece.lane.stream in world.decisions.stopped for piece in recorded)
        and wanted <= set(held)
        and not world.unknown_tenants
    )


def _goes_on(held: HeldStream) -> bool:
    """Whether it has something to do, or will when it is sure of what its log told."""
    waits = held.state is State.ACTIVE and held.waiting is not None
    return held.has_work or (waits and (bool(doubtful(held)) or held.another is not None))


def _is_beyond(world: World, lane: LaneId, offset: int) -> bool:
    """Whether a lane that is served stands behind the end of its log, as one that was cut."""
    now = world.generations.now(lane)
    stream = next(stream for stream in world.store.registry.streams() if stream.id == lane.stream)
    topic = topic_of(lane)
    there = world.topics.has(topic, number_of(lane.name))
    served = stream.state is State.ACTIVE and lane.stream not in world.decisions.stopped
    if now is None or not there or not served or now.log != world.topics.made[topic]:
        return False
    return offset > world.log.edges(topic, number_of(lane.name)).stop


def _why(world: World) -> str:
    told = [f"unknown tenants {sorted(world.unknown_tenants)}"] if world.unknown_tenants else []
    told += [f"intents {[wave.id for wave in world.store.progress.pending_intents()]}"]
    told += [f"flights {[flight.wave.id for flight in world.cluster.flights]}"]
    told += [f"failures {[str(e.slice) for e in world.store.failures.every(only_open=True)]}"]
    for stream in world.store.registry.streams():
        told.append(f"{stream.id} {stream.state} held by {stream.holder}")
    for life in world.lives:
        board = life.driver.board
        working = [str(name) for name, stream in board.streams.items() if stream.has_work]
        told.append(f"{life.actor.name} holds {len(board.streams)}, has work in {working}")
        told.append(f"replays {[wave.id for _, wave in life.driver.recorded.waiting]}")
    return "; ".join(told)
