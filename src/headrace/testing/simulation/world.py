"""What the actors of a simulation live in, and the books of what was sent and done.

Everything that outlives a process is here: log, store, cluster, sinks; and what only an observer
knows: which records were sent, which effects were made, and which slices a fault may have touched.
What can happen is ``play.py``'s, what must not is ``judge.py``'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, cast

import pyarrow as pa

from headrace.cycle.driver import Driver, Parts
from headrace.errors import Fenced, SinkUnavailable, StoreUnavailable
from headrace.model.plans import Limits
from headrace.model.receipts import Receipt
from headrace.model.records import Deployment, Move
from headrace.model.streams import Tenant
from headrace.model.waves import Wave
from headrace.ports import Connections, Sink, Site, Store, WaveResult
from headrace.spark.task import Kept
from headrace.testing.chain_checker import OffsetChain
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_twin import DeadLettersTwin
from headrace.testing.flight_checker import SingleFlight
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Found, Ledger, Place
from headrace.testing.log_twin import LogTwin, Row
from headrace.testing.simulation.actors import (
    Actor,
    Door,
    Killed,
    PositionsDoor,
    ReaderDoor,
    StoreDoor,
)
from headrace.testing.simulation.cluster import Cluster, Engine
from headrace.testing.simulation.odds import Odds, draw
from headrace.testing.simulation.sinks import Notebook
from headrace.use_cases import SliceContext, UseCase, use_case

TOPIC = "{tenant}.visits"
LEASE_S = 5.0
GUARANTEES = (
    "at-most-once",
    "at-least-once",
    "exactly-once, by transaction",
    "exactly-once, by intent",
)
#: driver asleep inside a driver asleep inside a task asleep
_DEEPEST = 3


@dataclass(eq=False, slots=True)
class Life:
    """A driver's process."""

    name: str
    actor: Actor
    driver: Driver
    engine: Engine
    #: it is inside a turn, asleep
    turning: bool = False
    #: it does nothing before this monotonic second
    asleep_until_s: float = 0.0
    #: somebody else has its name or its streams, and it may not know
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Make:
    """What a test can put in place of the real parts."""

    store: Callable[[], Store]
    #: the table of exactly-once by transaction, and what is in it at the end
    table: Callable[[], Sink]
    rows: Callable[[Store], Sequence[Any]]
    engine: type[Engine] = Engine
    driver: type[Driver] = Driver


@dataclass(eq=False)
class World:
    """One run."""

    rng: Random
    make: Make
    #: told of everything that happens, if anybody wants to read it
    tell: Callable[[str], None] | None = None
    #: lets everybody else go on while somebody sleeps
    meanwhile: Callable[[], None] = lambda: None
    calm: bool = False
    depth: int = 0
    store_down: bool = False
    lives: list[Life] = field(default_factory=list)
    use_cases: dict[str, UseCase] = field(default_factory=dict)
    books: dict[str, Notebook] = field(default_factory=dict)
    #: use case and place of records that a fault may have touched
    touched: set[tuple[str, Place]] = field(default_factory=set)
    poisoned: set[Place] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    #: by topic
    partitions: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Make log, store, cluster and use cases; no driver yet."""
        rng = self.rng
        self.odds: Odds = draw(rng)
        self.clock, self.log, self.letters = FakeClock(), LogTwin(), DeadLettersTwin()
        self.store = self.make.store()
        self.ledger, self.chain = Ledger(), OffsetChain()
        self.flight, self.isolation = SingleFlight(), Isolation()
        self.cluster = Cluster(
            rng, self.odds, self.log, self.letters, self._clients, self.store.positions
        )
        for guarantee in rng.sample(GUARANTEES, rng.choice([1, 1, 2])):
            self._deploy_new(guarantee)
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
            self.say(f"PAUSE {actor.name} {what}")
            self.counts[f"{actor.kind}s paused"] += 1
            actor.hurt()
            self.depth += 1
            self.meanwhile()
            self.depth -= 1
            self.say(f"WAKE {actor.name} {what}{' dead' if actor.dead else ''}")
            if actor.dead:
                raise Killed(actor.name)

    def store_fails(self, actor: Actor, when: Literal["before", "after"]) -> bool:
        """Whether the store does not answer now."""
        if self.calm:
            return False
        odds = self.odds.store_before if when == "before" else self.odds.store_after
        fails = (when == "before" and self.store_down) or self.rng.random() < odds
        if fails:
            self.counts[f"store failed {when}"] += 1
            self.say(f"store fails {when} for {actor.name}")
            actor.hurt()
        return fails

    def moved(self, move: Move) -> None:
        """A position was moved."""
        self.say(f"moved {move.lane} {move.from_offset} to {move.to_offset} (epoch {move.epoch})")
        self.chain.moved(move.lane, move.from_offset, move.to_offset)

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
            self.cluster, actor, lambda wave: self._started(life, wave), self._returned
        )
        parts = Parts(
            cast("Store", StoreDoor(self.store, actor, self, "store")),
            cast("Any", Door(self.log, actor, self, "log")),
            cast("Any", Door(engine, actor, self, "engine")),
            cast("Any", Door(self.letters, actor, self, "letters")),
            self.clock,
        )
        limits = Limits(slice_records=6, bins_per_wave=2, min_bin_s=0.001)
        driver = self.make.driver(parts, run, limits, name=name, lease_s=LEASE_S)
        driver.failing.chance = self.rng.random
        life = Life(name, actor, driver, engine)
        actor.hurt = lambda: self._touch_all(life)
        self.lives.append(life)
        self.say(f"START {actor.name}")
        for deployment in self.store.deployments():
            self.load(life, deployment)
        return life

    def load(self, life: Life, deployment: Deployment) -> None:
        """Give a driver a use case, or its new version."""
        use_case = self.use_cases[deployment.use_case]
        life.engine.take(use_case, deployment)
        life.driver.take(use_case, deployment)

    def turn(self, life: Life) -> None:
        """One turn of a driver, as far as it comes."""
        life.turning = True
        try:
            life.driver.turn()
            if life.driver.drained:
                life.driver.leave()
                self.say(f"{life.actor.name} has left")
                self.kill(life.actor)
        except (Killed, StoreUnavailable):
            pass
        except Fenced:
            self.say(f"{life.actor.name} is fenced and stops")
            self.kill(life.actor)
        finally:
            life.turning = False

    def kill(self, actor: Actor) -> None:
        """A process is gone; of a driver's tasks all die, or none."""
        actor.dead = True
        if actor.kind == "driver":
            self.lives = [each for each in self.lives if each.actor is not actor]
            self.cluster.owner_died(actor, tasks_too=self.rng.random() < 0.5)

    def run_bin(self) -> None:
        """One bin of one wave, as far as it comes."""
        runnable = self.cluster.runnable
        if runnable:
            flight = self.rng.choice(runnable)
            self.say(f"run a bin of {flight.wave.id}")
            self.cluster.run(flight, self._touch, calm=self.calm)

    # records and tenants

    def add_tenant(self) -> None:
        """A tenant with a topic."""
        name = f"t{self.counts['tenants']}"
        self.counts["tenants"] += 1
        self.partitions[f"{name}.visits"] = self.rng.randint(1, 2)
        self.log.create_topic(f"{name}.visits", self.partitions[f"{name}.visits"])
        self.ledger.topic(name, f"{name}.visits")
        self.isolation.topic(name, f"{name}.visits")
        self.store.add_tenant(Tenant(name))

    def send(self, topic: str, partition: int, count: int) -> None:
        """Some records into a partition, a bad one among them if there are such."""
        until_s = self.clock.monotonic_s() + self.rng.uniform(0, 20)
        for _ in range(count):
            roll, value = self.rng.random(), b"good"
            if roll < self.odds.poison:
                value = self.rng.choice([b"bad", b"raises"])
            elif roll < self.odds.poison + self.odds.stumbles:
                value = f"down:{until_s}".encode()
            row = Row(value, timestamp_ms=int(self.clock.now_s() * 1000))
            place = Place(topic, partition, self.log.append(topic, partition, [row]))
            self.ledger.acknowledged(place)
            if value in (b"bad", b"raises"):
                self.poisoned.add(place)

    def deploy(self, name: str, guarantee: str) -> Deployment:
        """A use case, or a new version of it, in the store."""
        made = self.use_cases[name]
        self.counts["deployments"] += 1
        deployment = Deployment(
            name,
            "m.py",
            f"{self.counts['deployments']:064}",
            TOPIC,
            order=made.order,
            bad_record=made.bad_record,
        )
        self.store.deploy(deployment)
        self.say(f"deployed {name} ({guarantee}, order {made.order}, bad: {made.bad_record})")
        return deployment

    def say(self, text: str) -> None:
        """Tell whoever reads along."""
        if self.tell is not None:
            self.tell(f"{self.clock.monotonic_s():9.2f}s {'  ' * self.depth}{text}")

    def _deploy_new(self, guarantee: str) -> None:
        name = guarantee.replace(", by", "").replace(" ", "-")
        sink: Sink
        if guarantee == "exactly-once, by transaction":
            sink = self.make.table()
        else:
            exact: Literal["intent"] | None = "intent" if "intent" in guarantee else None
            sink = self.books[name] = Notebook(exact, self._sink_fails, self._wrote)
        sink.prepare(Site(Connections({}, "sqlite:///simulated.db"), self.store.positions))
        self.use_cases[name] = use_case(
            topic=TOPIC,
            sink=sink,
            name=name,
            guarantee=guarantee.partition(",")[0],
            order=self.rng.choice(["lane", "lane", "stream"]),
            bad_record=self.rng.choice(["suspend", "suspend", "dead-letter", "fail"]),
        )(self._handle)
        self.deploy(name, guarantee)

    def _handle(self, table: pa.Table, context: SliceContext) -> pa.Table:
        for row, value in enumerate(table["value"].to_pylist()):
            kind, _, until = (value or b"").decode().partition(":")
            if kind in ("bad", "raises") and self.use_cases[context.use_case].claims:
                self._touch_slices(context)
            if kind == "bad":
                raise context.bad_record(row, "bad")
            if kind == "raises":
                raise ValueError("the simulation's handler cannot take this one")
            if kind == "down" and not self.calm and self.clock.monotonic_s() < float(until):
                self._touch_slices(context)
                raise SinkUnavailable("what the simulation's handler calls is down")
        rows = table.num_rows
        return pa.table(
            {
                "tenant": pa.array([context.tenant] * rows, pa.string()),
                "topic": table["topic"].combine_chunks(),
                "lane": table["partition"].cast(pa.int64()).combine_chunks(),
                "place": table["offset"].combine_chunks(),
            }
        )

    # the books

    def _sink_fails(self) -> bool:
        return not self.calm and self.rng.random() < self.odds.sink_fails

    def _wrote(self, slice_of: str, found: Sequence[Found]) -> None:
        if found:
            first, last = found[0].place, found[-1].place
            self.say(f"wrote {first} to {last.offset} for {found[0].tenant}")
        for each in found:
            self.isolation.wrote(each.tenant, slice_of, each.place)

    def _clients(self, actor: Actor, whole: Kept) -> Kept:
        return Kept(
            cast("Any", ReaderDoor(whole.reader, actor, self, "reader")),
            cast("Any", PositionsDoor(whole.positions, actor, self, "positions")),
            cast("Any", Door(whole.dead_letters, actor, self, "letters")),
        )

    def _started(self, life: Life, wave: Wave) -> None:
        self.say(f"wave {wave.id}: {', '.join(str(each) for each in wave.slices)}")
        self.flight.started(wave)
        if life.replaced:
            self._touch(wave)

    def _returned(self, result: WaveResult) -> None:
        told = [f"{each.slice} reached {each.reached}{_trouble(each)}" for each in result.receipts]
        lost = "" if result.error is None else f" FAILED: {result.error.message}"
        self.say(f"back: {result.wave.id}{lost} {'; '.join(told)}")
        self.flight.ended(result.wave)

    def _touch_all(self, life: Life) -> None:
        for flight in life.driver.board.flights.values():
            self._touch(flight.wave)
        for result in life.driver._results:
            self._touch(result.wave)

    def _touch_slices(self, context: SliceContext) -> None:
        for piece in context.slices:
            self._touch_places(context.use_case, piece.topic, piece.lane.partition, piece)

    def _touch(self, wave: Wave) -> None:
        for piece in wave.slices:
            self._touch_places(wave.use_case, piece.topic, piece.lane.partition, piece)

    def _touch_places(self, name: str, topic: str, partition: int, piece: Any) -> None:
        for offset in range(piece.from_offset, piece.until_offset):
            self.touched.add((name, Place(topic, partition, offset)))


def _trouble(receipt: Receipt) -> str:
    if receipt.superseded:
        return ", superseded"
    if receipt.error is None:
        return ""
    at = "" if receipt.error.offset is None else f" at {receipt.error.offset}"
    return f", {receipt.error.code}{at}"
