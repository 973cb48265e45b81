"""What the actors of a simulation live in, and the books of what was done.

Everything that outlives a process is here: log, store, cluster, sinks; and what only an observer
knows: where lanes were sent, which effects were made, and which slices a fault may have touched.
What can happen is ``play.py``'s, what must not is ``judge.py``'s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Literal, cast

from headrace.cycle.driver import DriverParts
from headrace.cycle.topics import TOPICS_EVERY_S, TOPICS_STEP_S
from headrace.errors import EngineStopped, Fenced, StoreUnavailable
from headrace.model.places import OPEN, number_at
from headrace.model.plans import Limits
from headrace.model.receipts import Receipt
from headrace.model.records import Move
from headrace.model.streams import LaneId, Slice, Tenant
from headrace.model.waves import Wave
from headrace.ports import DeadLetter, Store, TopicInfo, WaveResult
from headrace.spark.task import WorkerClients
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.flight_checker import SingleFlight
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Place
from headrace.testing.simulation.actors import Actor, Killed
from headrace.testing.simulation.beside import Beside, Job
from headrace.testing.simulation.cluster import Cluster
from headrace.testing.simulation.decisions import Decisions
from headrace.testing.simulation.deployed import GUARANTEES, Deployed
from headrace.testing.simulation.doors import (
    EngineDoor,
    LettersDoor,
    LogDoor,
    PositionsDoor,
    ReaderDoor,
    StoreDoor,
)
from headrace.testing.simulation.generations import Generations
from headrace.testing.simulation.left_alone import LeftAlone
from headrace.testing.simulation.lives import Life, Make
from headrace.testing.simulation.odds import Odds, draw
from headrace.testing.simulation.rates import Rates
from headrace.testing.simulation.sinks import Wrote
from headrace.testing.simulation.store_clock import tell_time
from headrace.testing.simulation.topics import FOR_ALL, LATER, TOPIC, WorldTopics, topic_of
from headrace.testing.simulation.touched import Touched
from headrace.testing.simulation.unheard import PersonsLog, Unheard

LEASE_S = 5.0
#: what a driver calls the thread that keeps its dead letters
LETTERS = "letters"
#: driver asleep inside a driver asleep inside a task asleep
_DEEPEST = 3
#: chance of a tenant, where a use case adds those of whom it finds topics
_LEFT_TO_DRIVERS = 0.5
#: for each tenant whose database is locked: others who find no time left
_LATE = 0.8
#: after so long a topic that was made again has been looked at, if brokers answer
LOOKED_S = TOPICS_EVERY_S + 2 * TOPICS_STEP_S


@dataclass(eq=False)
class World:
    """One run."""

    rng: Random
    make: Make
    #: told of everything that happens, if anybody wants to read it
    tell: Callable[[str], None] | None = None
    #: how often these faults come, whatever else is drawn
    given: Mapping[str, float] = field(default_factory=dict)
    #: lets everybody else go on while somebody sleeps
    meanwhile: Callable[[], None] = lambda: None
    calm: bool = False
    depth: int = 0
    store_down: bool = False
    #: actors whom the store did not answer in their turn
    refused: set[str] = field(default_factory=set)
    lives: list[Life] = field(default_factory=list)
    #: what drivers do beside their turns, and did not begin yet
    jobs: list[Job] = field(default_factory=list)
    #: claims that the store has not committed yet, and whose answers are lost
    late_commits: list[Callable[[], None]] = field(default_factory=list)
    #: when the last of them moved a position
    moved_late_s: float = -math.inf
    touched: Touched = field(default_factory=Touched)
    #: tenants that nobody adds but drivers
    left_to_drivers: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Make log, store, cluster and use cases; no driver yet."""
        rng = self.rng
        self.odds: Odds = replace(draw(rng), **self.given)
        self.clock, self.letters = FakeClock(), MemoryDeadLetters()
        self.store = self.make.store()
        # The clock of a database; those of drivers may jump.
        tell_time(self.store, self.clock.monotonic_s)
        self.generations, self.rates = Generations(), Rates()
        self.flight, self.isolation = SingleFlight(), Isolation()
        self.topics = WorldTopics(rng, self.odds, self.clock, self.isolation)
        self.log = self.topics.log
        self.unheard = Unheard(self.topics, self.counts)
        #: as people's commands ask it
        self.asked_log = cast("Any", PersonsLog(self.log, self))
        self.cluster = Cluster(
            rng, self.odds, self.log, self.letters, self._clients, self.store.positions, self._start
        )
        self.topics.hides = self.odds.hides
        self.deployed = Deployed(rng, self.clock, self.store, self, self.counts, self.make.table)
        self.decisions = Decisions(
            self.store, self.topics, self.deployed, self.generations, self.counts
        )
        for guarantee in rng.sample(GUARANTEES, rng.choice([1, 1, 2])):
            self.deployed.add(guarantee)
        if self.deployed.for_all:
            self.topics.make(FOR_ALL)
        for _ in range(rng.randint(1, 3)):
            self.add_tenant()

    # what doors ask

    def step(self, actor: Actor, what: str) -> None:
        """Kill an actor here, or let it sleep, or nothing."""
        if actor.dead:
            raise Killed(actor.name)
        if self.calm:
            return
        driver = actor.kind == "driver"
        killed = self.odds.driver_killed if driver else self.odds.task_killed
        paused = self.odds.driver_paused if driver else self.odds.task_paused
        roll = self.rng.random()
        if roll < killed:
            self.say(f"KILL {actor.name} {what}")
            self.counts[f"{actor.kind}s killed"] += 1
            actor.hurt()
            self.kill(actor)
            raise Killed(actor.name)
        if roll < killed + paused and not actor.shielded and self.depth < _DEEPEST:
            self.counts[f"{actor.kind}s paused"] += 1
            actor.hurt()
            self._sleep(actor, what)

    def dawdle(self, actor: Actor, what: str) -> None:
        """A call takes long, and everybody else goes on meanwhile."""
        if not actor.shielded and self.depth < _DEEPEST:
            self.counts["slow calls"] += 1
            self._sleep(actor, f"inside {what}")

    def _sleep(self, actor: Actor, what: str) -> None:
        self.say(f"PAUSE {actor.name} {what}")
        self.depth += 1
        self.meanwhile()
        self.depth -= 1
        self.say(f"WAKE {actor.name} {what}{' dead' if actor.dead else ''}")
        if actor.dead:
            raise Killed(actor.name)

    def believed_end(self, lane: str, end: int) -> int:
        """Where a log ends for whoever asks its leader, which may have been cut off."""
        if end == number_at(OPEN):
            return end
        told, until_s = self.topics.stale.get(lane, (end, 0.0))
        stale = not self.calm and self.clock.monotonic_s() < until_s
        return min(end, told) if stale else end

    def told_topics(self, who: object, known: dict[str, TopicInfo]) -> dict[str, TopicInfo]:
        """What somebody is told of topics."""
        if self.calm or not self.odds.unheard:
            return known
        return self.unheard.told(who, known)

    def told_names(self, who: object, names: Collection[str]) -> Collection[str]:
        """Which topics somebody is told of."""
        if self.calm or not self.odds.unheard:
            return names
        return self.unheard.told_names(who, names)

    def store_fails(self, actor: Actor, when: Literal["before", "after"]) -> bool:
        """Whether the store does not answer now."""
        if self.calm:
            return False
        odds = self.odds.store_before if when == "before" else self.odds.store_after
        fails = (when == "before" and self.store_down) or self.rng.random() < odds
        if fails:
            self.counts[f"store failed {when}"] += 1
            self.say(f"store fails {when} for {actor.name}")
            self.refused.add(actor.name)
            actor.hurt()
        return fails

    def commits_late(self, actor: Actor, commit: Callable[[], None]) -> bool:
        """Whether the answer to a claim is lost now, and its server commits it later."""
        if self.calm or not self.odds.commits_late or self.rng.random() > self.odds.commits_late:
            return False
        self.say(f"nobody answers the claim of {actor.name}")
        self.counts["commits late"] += 1
        self.late_commits.append(commit)
        actor.hurt()
        return True

    def moved_late(self, move: Move) -> None:
        """A position was moved by a claim that nobody waits for; somebody has to find it."""
        self._moved(move)
        self.moved_late_s = self.clock.monotonic_s()
        held = (life.driver.board.streams.get(move.lane.stream) for life in self.lives)
        if not any(of is not None and of.epoch == move.epoch for of in held):
            self.counts["commits late, and nobody held the lane"] += 1

    def moved(self, move: Move) -> None:
        """A position was moved."""
        self._moved(move)
        self.rates.moved(move, self.topics.records_in(move))

    def answer_lost(self, move: Move) -> None:
        """Whoever moved a position does not know."""
        self.rates.answer_lost(move, self.topics.records_in(move))

    def _moved(self, move: Move) -> None:
        self.say(f"moved {move.lane} {move.from_offset} to {move.to_offset} (epoch {move.epoch})")
        self.generations.moved(move)
        ranges, use_case = self.decisions.passed_ranges, self.deployed.use_case(move.lane.use_case)
        if ranges.untold(move) and not use_case.claims and self.topics.good_in(move):
            ranges.goes_on(move)
        self.decisions.moved(move.lane, move.to_offset)

    def decided(self, name: str, args: Sequence[Any]) -> None:
        """A driver decided about lanes as a whole."""
        self.say(f"{name} {', '.join(str(argument) for argument in args)}")
        self.decisions.decided(name, args)

    def set_aside(self, letter: DeadLetter) -> None:
        """A dead letter is kept."""
        self.rates.set_aside(letter)

    def unkept(self, actor: Actor, letters: Sequence[DeadLetter]) -> None:
        """With at-most-once a task loses all of a call of which it cannot keep a letter."""
        name = letters[0].slice.lane.use_case
        if actor.kind == "task" and self.deployed.use_case(name).claims:
            actor.hurt()

    def recorded(self, actor: Actor, wave: Wave, *, heard: bool) -> None:
        """A wave is written down, or may be, and whoever wrote does not know."""
        self.rates.recorded(actor, wave, heard=heard)
        self.decisions.given_up.recorded(wave)

    def replaced(self, driver: str, by: Actor) -> None:
        """Another process has a driver's name, or its streams: what it runs is a zombie's."""
        for life in self.lives:
            if life.name == driver and life.actor is not by:
                self.say(f"{life.actor.name} is replaced by {by.name}")
                self.counts["drivers replaced"] += 1
                life.replaced = True
                life.actor.hurt()

    # processes

    def start_driver(self, name: str) -> Life:
        """A new process; one of the same name that lives will be fenced."""
        self.counts["drivers started"] += 1
        run = f"r{self.counts['drivers started']}"
        actor = Actor(f"driver {name} ({run})", "driver")
        engine = self.make.engine(
            self.cluster,
            actor,
            lambda wave: self._launched(life, wave),
            lambda result: self._returned(actor, result),
            self.touched.wave,
        )
        parts = DriverParts(
            cast("Store", StoreDoor(self.store, actor, self, "store")),
            cast("Any", LogDoor(self.log, actor, self, "log")),
            cast("Any", EngineDoor(engine, actor, self, "engine")),
            cast("Any", LettersDoor(self.letters, actor, self, "letters")),
            self.clock,
        )

        def beside(of: str) -> Beside:
            return Beside(actor, partial(self._is_late, of), self.jobs, of)

        limits = Limits(slice_records=6, bins_per_wave=2, min_bin_s=0.001)
        driver = self.make.driver(parts, run, limits, name=name, lease_s=LEASE_S, threads=beside)
        driver.failing.chance = self.rng.random
        life = Life(name, actor, driver, engine)
        actor.hurt = lambda: self._touch_all(life)
        self.lives.append(life)
        self.say(f"START {actor.name}")
        self.load_changes(life)
        return life

    def load_changes(self, life: Life) -> None:
        """Give a driver what was deployed since it looked last; what does not load, later.

        It does so between two turns, as its process does, and may die or sleep over it.
        """
        if life.turning:
            return
        life.turning = True
        with suppress(Killed):
            self._load_changes(life)
        life.turning = False

    def _load_changes(self, life: Life) -> None:
        for deployment in self.store.registry.deployments():
            known = life.driver.deployed.get(deployment.use_case)
            over = deployment.until == {}  # a rerun that is over, or not begun yet
            late = known is not None and not self.calm and self.rng.random() < self.odds.loads_late
            if known != deployment and not over and not late:
                use_case = self.deployed.use_case(deployment.use_case)
                life.engine.take(use_case, deployment)
                life.driver.take(use_case, deployment)

    def turn(self, life: Life) -> None:
        """One turn of a driver, as far as it comes."""
        life.turning, life.turned_s, name = True, self.clock.monotonic_s(), life.actor.name
        self.refused.discard(name)
        try:
            life.driver.turn()
            self.decisions.left_out(life.driver.board)
            if life.driver.drained:
                self._leave(life)
        except (Killed, StoreUnavailable):
            pass
        except (Fenced, EngineStopped) as end:
            self.say(f"{life.actor.name} stops: {type(end).__name__}")
            stopped = isinstance(end, EngineStopped)
            self.counts["engines ended"] += stopped
            self.counts["engines ended without a store"] += stopped and name in self.refused
            self.kill(life.actor)
        finally:
            life.turning = False

    def cut_drain(self, life: Life) -> None:
        """A driver drained for too long: it ends, and gives back first what it can."""
        self.counts["drains cut"] += 1
        self.counts["drains cut beside what was idle"] += any(
            of not in life.driver.board.busy_streams for of in life.driver.board.streams
        )
        life.turning = True
        with suppress(Killed, StoreUnavailable):
            life.driver.cancel_all()
            self._leave(life)
        life.turning = False
        self.kill(life.actor)

    def _leave(self, life: Life) -> None:
        life.driver.leave()
        self.say(f"{life.actor.name} has left")
        self.kill(life.actor)

    def run_beside(self) -> None:
        """Something that a driver handed over, as far as it comes, or a commit that is late."""
        if self.late_commits and self.rng.random() < 0.5:
            self.commit_late()
        elif self.jobs:
            job = self.rng.choice(self.jobs)
            if job.of == LETTERS and self.odds.letters_late and self._is_late(LETTERS):
                return
            self.jobs.remove(job)
            self.say(f"{job.actor.name} goes on beside its turns")
            self.counts["calls beside turns"] += 1
            with suppress(Killed):
                job.run()

    def commit_late(self) -> None:
        """The store goes on with a commit of which nobody waits for the answer."""
        self.say("a claim is committed late, if nobody was faster")
        self.late_commits.pop(self.rng.randrange(len(self.late_commits)))()

    def _is_late(self, of: str) -> bool:
        late = self.odds.letters_late if of == LETTERS else 0.0
        return not self.calm and self.rng.random() < (late or self.odds.beside_late)

    def kill(self, actor: Actor) -> None:
        """A process is gone; of a driver's tasks all die, or none."""
        actor.dead = True
        self.jobs[:] = [job for job in self.jobs if job.actor is not actor]
        if actor.kind == "driver":
            self.lives = [life for life in self.lives if life.actor is not actor]
            self.cluster.owner_died(actor, tasks_too=self.rng.random() < 0.5)

    def run_bin(self) -> None:
        """One bin of one wave, as far as it comes."""
        runnable = self.cluster.runnable
        if runnable:
            flight = self.rng.choice(runnable)
            self.say(f"run a bin of {flight.wave.id}")
            self.cluster.run(flight, self.touched.wave, calm=self.calm)

    def add_tenant(self) -> None:
        """A tenant with a topic."""
        name = f"t{self.counts['tenants']}"
        self.counts["tenants"] += 1
        topic, at_end = TOPIC.format(tenant=name), self.odds.at_end
        if at_end and self.topics.partitions and self.rng.random() < at_end:
            self.topics.announce(topic)
        else:
            self.topics.make(topic)
        for more in self.deployed.more_topics:
            if more == LATER:
                self.topics.announce(more.format(tenant=name))
            else:
                self.topics.make(more.format(tenant=name))
        # The first is there, so that people have somebody to decide about.
        if self.deployed.creating and name != "t0" and self.rng.random() < _LEFT_TO_DRIVERS:
            self.left_to_drivers.add(name)
        else:
            self.store.registry.add_tenant(Tenant(name))

    @property
    def unknown_tenants(self) -> set[str]:
        """Those that drivers have to add, as they have topics, and did not yet."""
        return self.left_to_drivers - {tenant.name for tenant in self.store.registry.tenants()}

    def say(self, text: str) -> None:
        """Tell whoever reads along."""
        if self.tell is not None:
            self.tell(f"{self.clock.monotonic_s():9.2f}s {'  ' * self.depth}{text}")

    # what handlers and sinks ask, and the books

    @property
    def hides_ends(self) -> bool:
        """Whether of some lanes only reading tells where they end."""
        return bool(self.odds.hides)

    @property
    def for_all_of_100(self) -> float:
        """How many of a hundred use cases read a topic for all."""
        return 100 * self.odds.for_all

    @property
    def at_end_of_100(self) -> float:
        """How many of a hundred use cases have streams that begin at the end."""
        return 100 * self.odds.at_end

    @property
    def restarts_of_100(self) -> float:
        """How many of a hundred use cases pass over what is too old of streams left alone."""
        return 100 * self.odds.restarts

    @property
    def lists(self) -> float:
        """What part of use cases reads a list of topics."""
        return self.odds.lists

    @property
    def patterns(self) -> float:
        """What part of those that read no list reads what a pattern matches."""
        return self.odds.patterns

    @property
    def left_alone(self) -> LeftAlone:
        """Which streams were left alone."""
        return self.decisions.left_alone

    @property
    def divided_of_10(self) -> float:
        """Of how many of ten use cases that could have buckets partitions are divided."""
        return 10 * self.odds.divided

    @property
    def by_place_of_10(self) -> float:
        """Of how many of ten of those they are divided by place, not by key."""
        return 10 * self.odds.by_place

    def sink_fails(self) -> bool:
        """Whether a write fails now."""
        return not self.calm and self.rng.random() < self.odds.sink_fails

    def sink_unsure(self) -> bool:
        """Whether the answer to a write is lost."""
        return not self.calm and self.rng.random() < self.odds.sink_unsure

    def sink_locks(self) -> bool:
        """Whether the database that a tenant has for itself is locked now."""
        locked = not self.calm and bool(self.odds.locks) and self.rng.random() < self.odds.locks
        self.counts["tenants' databases locked"] += locked
        return locked

    def sink_late(self) -> bool:
        """Whether others left a tenant no time."""
        often = self.odds.locks * _LATE
        late = not self.calm and bool(often) and self.rng.random() < often
        self.counts["effects not tried"] += late
        return late

    def takes(self, place: Place) -> bool:
        """Whether a sink takes what comes of a record."""
        found = self.topics.troubles.get(place)
        return found is None or found.kind != "refused"

    def dawdles(self) -> bool:
        """Whether a call of a handler takes too long."""
        return not self.calm and self.rng.random() < self.odds.dawdles

    def generation(self, lane: LaneId) -> int:
        """The generation that the slice was started in which runs now."""
        return self.cluster.generation(lane)

    def heard(self, piece: Slice) -> None:
        """A handler is called with a part of a slice."""
        self.decisions.passed_ranges.heard(piece)

    def hurt_wave(self) -> None:
        """A fault may have touched any slice of the wave that runs now."""
        self.touched.wave(self.cluster.inside.wave)

    def wrote(self, slice_of: str, done: Wrote) -> None:
        """An effect was written."""
        if done:
            first, last = done[0].found, done[-1].found
            self.say(f"wrote {first.place} to {last.place.offset} for {first.tenant}")
        for effect in done:
            self.isolation.wrote(effect.found.tenant, slice_of, effect.found.place)

    def _clients(self, actor: Actor, whole: WorkerClients) -> WorkerClients:
        return WorkerClients(
            cast("Any", ReaderDoor(whole.reader, actor, self, "reader")),
            cast("Any", PositionsDoor(whole.positions, actor, self, "positions")),
            cast("Any", LettersDoor(whole.dead_letters, actor, self, "letters")),
        )

    def _launched(self, life: Life, wave: Wave) -> None:
        self.say(f"wave {wave.id}: {', '.join(str(piece) for piece in wave.slices)}")
        self.flight.started(wave)
        tenants = {held.tenant.name: held.tenant for held in life.driver.board.streams.values()}
        turned_s, now_s = life.turned_s, self.clock.monotonic_s()
        self.rates.started(life.actor, wave, turned_s, now_s, tenants.get)
        if life.replaced:
            self.touched.wave(wave)
        for piece in wave.slices:
            self.decisions.may_run(piece, wave, replaced=life.replaced)
            topic, now = topic_of(piece.lane), self.generations.now(piece.lane)
            stopped_s = self.decisions.stopped.get(piece.lane.stream, life.turned_s)
            if stopped_s < life.turned_s:
                self.decisions.found.append(f"{piece} runs, and its stream waits for a person")
            # While no broker answers, or nobody was sent to ask, what the topic is nobody can know.
            unaware_s = self.unheard.unaware_since_s(life.actor, topic)
            looked_s = self.topics.answering_s(unaware_s, life.turned_s)
            asks = any(job.actor is life.actor for job in self.jobs)
            is_late = looked_s > LOOKED_S and not asks
            if now is not None and now.log < self.topics.made[topic] and is_late:
                self.decisions.found.append(
                    f"{piece} runs in a topic made again, and brokers answered for {looked_s:g} s"
                )

    def _start(self, wave: Wave) -> Mapping[LaneId, int]:
        for piece in filter(self.generations.is_late, wave.slices):
            self.touched.piece(wave.use_case, piece)
        return {piece.lane: self.generations.of_slice(piece) for piece in wave.slices}

    def _returned(self, actor: Actor, result: WaveResult) -> None:
        self.rates.returned(actor, result)
        told = [
            f"{receipt.slice} reached {receipt.reached}{_trouble(receipt)}"
            for receipt in result.receipts
        ]
        lost = "" if result.error is None else f" FAILED: {result.error.message}"
        self.say(f"back: {result.wave.id}{lost} {'; '.join(told)}")
        self.flight.ended(result.wave)

    def _touch_all(self, life: Life) -> None:
        for flight in life.driver.board.flights.values():
            self.touched.wave(flight.wave)
        for result in life.driver._results:
            self.touched.wave(result.wave)


def _trouble(receipt: Receipt) -> str:
    if receipt.superseded:
        return ", superseded"
    if receipt.error is None:
        return ""
    at = "" if receipt.error.offset is None else f" at {receipt.error.offset}"
    return f", {receipt.error.code}{at}"
