"""State of keys against an oracle that computes it anew from the log.

Real tasks run on a store, one inside the other: each may die or sleep wherever it calls a port,
while others take its lanes over, run them, and send them back. The handler counts the records of
each key, and writes down what it counted. Whatever happened, two things hold. What was ever written
of a record, be it by a zombie, is what the log says of the records before it: so no handler was
given another state than that of exactly these. And what the store has in the end is the same.

Drivers are not here: what they plan and commit is played by the larger simulation.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, cast

import pyarrow as pa

from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.buckets import bucket_of, divided, whole_lane
from headrace.model.lane_names import number_of
from headrace.model.places import Place, number_at, place_at
from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin
from headrace.ports import Connections, Effect, SliceBatch, Written
from headrace.spark.key_hash import bucket_of_key
from headrace.spark.task import WorkerClients, run_bin
from headrace.state.copies import StateCopies
from headrace.state.tables import StateTable
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessWork
from headrace.testing.memory_store import MemoryStore
from headrace.testing.records import records
from headrace.testing.simulation.actors import Actor, Killed
from headrace.testing.simulation.doors import PositionsDoor
from headrace.testing.simulation.sinks import MemoryTable
from headrace.use_cases import UseCase, use_case

STREAM = StreamId("count", "acme")
TOPIC = "acme.visits"
_KEYS = [b"a", b"b", b"c", b"d"]
#: a record that its handler calls bad, and one that clears its key's counter
_BAD, _CLEAR = b"bad", b"clear"
_DEEPEST = 3
_TABLE = "counted"
_COLUMNS: list[pa.Field[Any]] = [pa.field("key", pa.binary()), pa.field("count", pa.int64())]


@dataclass(frozen=True, slots=True)
class Told:
    """What was written of one record."""

    lane: str
    offset: int
    epoch: int
    count: int


@dataclass(eq=False)
class StateWorld:
    """One run."""

    rng: Random
    store: MemoryStore
    guarantee: Literal["at-most-once", "at-least-once", "exactly-once"]
    order: Literal["lane", "key"]
    #: records of each lane of the log: key and value
    log: dict[str, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    #: ranges that each lane passed since its state began, and what it passed over all
    passed: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    every: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: the same ranges as they were when an epoch began, and where its lanes stood
    then: dict[int, dict[str, tuple[list[tuple[int, int]], int]]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    calm: bool = False
    depth: int = 0
    #: what two workers know
    copies: tuple[StateCopies, StateCopies] = field(
        default_factory=lambda: (StateCopies(most_lane_bytes=800), StateCopies())
    )

    def __post_init__(self) -> None:
        """Begin the stream."""
        self.log = {f"{TOPIC}[{number}]": [] for number in range(2)}
        self.store.registry.deploy(Deployment("count", "count.py", "0" * 64, "{tenant}.visits"))
        self.store.registry.add_tenant(Tenant("acme"))
        buckets = 3 if self.order == "key" else 1
        self.lanes = [name for lane in self.log for name in divided(lane, buckets)]
        start = LaneStart(STREAM, "id", dict.fromkeys(self.lanes, place_at(0)))
        self.store.progress.start_lanes([start])
        self.passed = {lane: [] for lane in self.lanes}
        self.table = StateTable(_TABLE, pa.schema(_COLUMNS), key="key", scope=self.order)
        self._take_over()
        self.work = InProcessWork(
            code=b"",
            options=(),
            connections=Connections({}, "sqlite:///simulated.db"),
            reader=cast("Any", None),
            positions=cast("Any", None),
            dead_letters=cast("Any", None),
            use_case=self._counting(),
        )

    # what doors ask

    def step(self, actor: Actor, what: str) -> None:
        """Kill an actor here, or let it sleep, or nothing."""
        del what
        if self.calm:
            return
        roll = self.rng.random()
        if roll < 0.02:
            self.counts["killed"] += 1
            raise Killed(actor.name)
        if roll < 0.08 and not actor.shielded and self.depth < _DEEPEST:
            self.counts["slept"] += 1
            self.depth += 1
            for _ in range(self.rng.randint(1, 4)):
                self.act()
            self.depth -= 1

    def store_fails(self, actor: Actor, when: str) -> bool:
        """Whether the store does not answer now."""
        del actor, when
        return not self.calm and self.rng.random() < 0.02

    def commits_late(self, actor: Actor, commit: Callable[[], None]) -> bool:
        """Every commit is heard of, or is not, at once."""
        del actor, commit
        return False

    def moved(self, move: Move) -> None:
        """A position was moved."""
        span = number_at(move.from_offset), number_at(move.to_offset)
        self.passed[move.lane.name].append(span)
        handled = self.replay(move.lane.name, [span], Counter())
        self.every.update((move.lane.name, offset) for offset in handled)

    def answer_lost(self, move: object) -> None:
        """Whoever moved it does not know."""
        self.counts["answers lost"] += 1

    # what happens

    def act(self) -> None:
        """One thing happens."""
        (happens,) = self.rng.choices(
            [self._append, self._run, self._take_over, self._seek], [3, 5, 1, 0.7]
        )
        happens()

    def settle(self) -> None:
        """All that is left is handled, and nothing goes wrong any more."""
        self.calm = True
        self._take_over()
        while pieces := self._slices(self.lanes):
            self._run_bin(pieces)

    def _append(self) -> None:
        lane = self.rng.choice(list(self.log))
        for _ in range(self.rng.randint(1, 8)):
            value = self.rng.choices([b"", _BAD, _CLEAR], [8, 1, 2])[0]
            self.log[lane].append((self.rng.choice(_KEYS), value))

    def _run(self) -> None:
        some = self.rng.sample(self.lanes, self.rng.randint(1, len(self.lanes)))
        if pieces := self._slices(some):
            with suppress(Killed):
                self._run_bin(pieces)

    def _take_over(self) -> None:
        self.epoch = self.store.membership.hold([STREAM])[STREAM]
        at = self._positions()
        self.then[self.epoch] = {
            lane: (list(passed), number_at(at[lane])) for lane, passed in self.passed.items()
        }

    def _seek(self) -> None:
        """A lane of the log goes somewhere; back only without its state."""
        lane = self.rng.choice(list(self.log))
        to, forget = self.rng.randint(0, len(self.log[lane])), self.rng.random() < 0.5
        offsets = {name: place_at(to) for name in self.lanes if whole_lane(name) == lane}
        before = self._positions()
        back = any(offset < before[name] for name, offset in offsets.items())
        try:
            self.store.progress.seek(STREAM, offsets, forget_state=forget)
        except ConfigError:
            self.counts["seeks refused"] += 1
            return
        if forget or back:  # back it goes only where there was no state
            self.passed |= {name: [] for name in offsets}
        self._take_over()
        self.counts["seeks"] += 1

    def replay(
        self, lane: str, ranges: Sequence[tuple[int, int]], counts: Counter[bytes]
    ) -> dict[int, int]:
        """Count the records of ranges of a lane anew; the count at each, by its offset."""
        found, bucket = dict[int, int](), bucket_of(lane)
        for offset in (offset for span in ranges for offset in range(*span)):
            key, value = self.log[whole_lane(lane)][offset]
            mine = bucket is None or bucket_of_key(key, bucket.of) == bucket.number
            if not mine or value == _BAD:
                continue
            counts[key] += 1
            found[offset] = counts[key]
            if value == _CLEAR:
                del counts[key]
        return found

    def was(self, told: Told) -> int | None:
        """What the log says of a record as it was handled under an epoch."""
        passed, stood = self.then[told.epoch][told.lane]
        return self.replay(told.lane, [*passed, (stood, told.offset + 1)], Counter()).get(
            told.offset
        )

    def _slices(self, names: Sequence[str]) -> list[Slice]:
        found, at = list[Slice](), self._positions()
        for name in names:
            end = len(self.log[whole_lane(name)])
            begin = number_at(at[name])
            until = end if self.calm else min(end, begin + self.rng.randint(1, 6))
            if begin < until:
                lane = LaneId(*STREAM, name)
                found.append(Slice(lane, TOPIC, at[name], place_at(until), self.epoch))
        return found

    def _positions(self) -> dict[str, Place]:
        known = self.store.progress.load_positions([STREAM])
        return {position.lane.name: position.next_offset for position in known}

    def _run_bin(self, pieces: Sequence[Slice]) -> None:
        self.counts["bins"] += 1
        actor = Actor(f"task {self.counts['bins']}", "task")
        door = PositionsDoor(self.store.positions, actor, cast("Any", self), "positions")
        letters = MemoryDeadLetters()
        clients = WorkerClients(_Reader(self, actor), cast("Any", door), letters)
        clients = replace(clients, state=self.rng.choice(self.copies))
        hasty = not self.calm and self.rng.random() < 0.2
        budget_s = -1.0 if hasty else math.inf
        receipts = run_bin(self.work, Bin(tuple(pieces), 1.0), budget_s, clients=clients)
        self.counts["copies"] += sum(receipt.state_hits for receipt in receipts)

    def _counting(self) -> UseCase:
        sink = MemoryTable(_TABLE) if self.guarantee == "exactly-once" else _Book(self)

        def count(given: pa.Table, context: Any) -> pa.Table:
            return counted(given, context)

        made = use_case(
            topic="{tenant}.visits",
            sink=cast("Any", sink),
            guarantee=self.guarantee,
            order=self.order,
            state=[self.table],
            bad_record="dead-letter",
        )
        return made(count)


def counted(given: pa.Table, context: Any) -> pa.Table:
    """The use case: how often each key came; raises for a bad record after it saved."""
    state, (piece,) = context.state[_TABLE], context.slices
    known: dict[bytes, int] = {
        row["key"]: row["count"] for row in state.load(given["key"]).to_pylist()
    }
    rows, bad = list[dict[str, Any]](), None
    for row, record in enumerate(given.select(["key", "value", "offset"]).to_pylist()):
        if record["value"] == _BAD and bad is None:
            bad = row
        key = record["key"]
        known[key] = known.get(key, 0) + 1
        lane, offset = piece.lane.name, record["offset"]
        rows.append({"lane": lane, "offset": offset, "epoch": piece.epoch, "count": known[key]})
        if record["value"] == _CLEAR:
            del known[key]
    state.delete([key for key in dict.fromkeys(given["key"].to_pylist()) if key not in known])
    state.save(pa.table({"key": [*known], "count": pa.array(known.values(), pa.int64())}))
    if bad is not None:
        raise context.bad_record(bad, "the simulation's own")
    return pa.Table.from_pylist(rows)


@dataclass(frozen=True, slots=True)
class _Reader:
    world: StateWorld
    actor: Actor

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Each slice in some batches; its task may die or sleep between two."""
        del batch_records
        for piece in slices:
            lane, until = piece.lane.name, number_at(piece.until_offset)
            at = number_at(piece.from_offset)
            while at < until:
                self.world.step(self.actor, "before reader.read")
                end = min(until, at + self.world.rng.randint(1, 6))
                some = self.world.log[whole_lane(lane)][at:end]
                table = records(
                    [value for _, value in some],
                    topic=TOPIC,
                    partition=number_of(lane),
                    first_offset=at,
                    keys=[key for key, _ in some],
                )
                yield SliceBatch(piece, table, place_at(end), last=end == until)
                at = end

    def close(self) -> None:
        """Nothing to give up."""


@dataclass(frozen=True, slots=True)
class _Book:
    """A sink without transactions, whose answers may be lost."""

    world: StateWorld
    exactly_once: None = None

    def prepare(self, site: object) -> None:
        """Nothing to make."""

    def open(self, site: Any) -> _Page:
        """A writer for one bin."""
        return _Page(self.world, site.positions)


@dataclass(frozen=True, slots=True)
class _Page:
    world: StateWorld
    door: Any

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        for effect in effects:
            self.door.step("before sink.write")
            self.world.told += _told(effect.output.to_pylist())
        self.door.step("after sink.write")
        if not self.world.calm and self.world.rng.random() < 0.05:
            raise SinkUnavailable("the answer of the simulation's sink was lost")
        return [Written()] * len(effects)

    def close(self) -> None:
        """Nothing to give up."""


def _told(rows: Sequence[Mapping[str, Any]]) -> list[Told]:
    return [Told(**row) for row in rows]


def judge(world: StateWorld) -> list[str]:
    """Everything that is wrong at the end."""
    once = world.guarantee == "exactly-once"
    told = _told(world.store.rows(_TABLE)) if once else world.told
    wrong = [
        f"{one}: the log says {count}" for one in told if (count := world.was(one)) != one.count
    ]
    kept, left = _kept(world), _left(world)
    if kept != left:
        wrong.append(f"the store has {kept}, and the log says {left}")
    size, counted_ = _size(world), sum(map(len, (kept[lane] for lane in kept)))
    if size != counted_:
        wrong.append(f"{counted_} rows are there, and {size} are counted")
    written = Counter((one.lane, one.offset) for one in told)
    if once:
        wrong += _differ(written, world.every)
    if world.guarantee == "at-most-once":
        wrong += _differ(written, written & world.every)
    return wrong


def _kept(world: StateWorld) -> dict[str, dict[bytes, int]]:
    """What the store has, by lanes of the log."""
    found = defaultdict[str, dict[bytes, int]](dict)
    for (_, lane), rows in world.store.data.state.rows.items():
        for kept in rows:
            (row,) = world.table.table_of([rows[kept]]).to_pylist()
            found[lane][kept.key] = row["count"]
    return dict(found)


def _left(world: StateWorld) -> dict[str, dict[bytes, int]]:
    """What the log says."""
    found = defaultdict[str, dict[bytes, int]](dict)
    for lane in world.lanes:
        counts = Counter[bytes]()
        world.replay(lane, world.passed[lane], counts)
        found[whole_lane(lane)] |= counts
    return {lane: rows for lane, rows in found.items() if rows}


def _size(world: StateWorld) -> int:
    return sum(size.rows for size in world.store.data.state.sizes.values())


def _differ(written: Counter[tuple[str, int]], moved: Counter[tuple[str, int]]) -> list[str]:
    both = written.keys() | moved.keys()
    found = [place for place in sorted(both) if written[place] != moved[place]]
    return [f"written {written[at]} times and passed {moved[at]} times: {at}" for at in found]


def simulate_state(
    seed: int,
    store: Callable[[], MemoryStore] = MemoryStore,
    actions: int = 80,
) -> tuple[list[str], Counter[str]]:
    """One run; what is wrong with it, and what happened how often.

    Args:
        seed: of everything that is drawn.
        store: makes the store, which may have a fault.
        actions: how much happens before the faults stop.
    """
    rng = Random(seed)  # noqa: S311 - a simulation
    guarantee: Literal["at-most-once", "at-least-once", "exactly-once"] = rng.choice(
        ["at-most-once", "at-least-once", "exactly-once"]
    )
    order: Literal["lane", "key"] = rng.choice(["lane", "key"])
    world = StateWorld(rng, store(), guarantee, order)
    for _ in range(actions):
        world.act()
    world.settle()
    return judge(world), world.counts
