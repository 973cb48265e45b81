"""The use cases of a run: what is drawn of each, its sink, and the one handler that all have.

The handler tells of each record whose it is, which record it is by its own content, and in which
generation of its lane it was started, so that a sink's books can be read without believing anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal, Protocol, cast

import pyarrow as pa

from headrace.cycle.reruns import renewed_by
from headrace.errors import HandlerSlow, RegistryUnavailable, SinkUnavailable
from headrace.model.records import Deployment
from headrace.model.restarts import Restart
from headrace.model.streams import (
    BadRecordPolicy,
    DataLossPolicy,
    Guarantee,
    LaneId,
    Order,
    Slice,
    StreamId,
    original,
)
from headrace.ports import (
    Connections,
    Decoded,
    Format,
    Payloads,
    Sink,
    Site,
    Store,
    Undecoded,
    Waiting,
)
from headrace.spark.timeouts import CallOverdue
from headrace.testing.clock import FakeClock
from headrace.testing.ledger import Place
from headrace.testing.simulation.frames import FrameHandler
from headrace.testing.simulation.keys import lane_with
from headrace.testing.simulation.sinks import Notebook, Picky, Wrote, table_of
from headrace.testing.simulation.topics import ALL, LIST, ONE, PATTERN, TOPIC, Read, named
from headrace.testing.simulation.touched import Touched
from headrace.testing.simulation.troubles import GOOD, Stuck, WorkerDies, trouble_of
from headrace.use_cases import SliceContext, UseCase, use_case

GUARANTEES = (
    "at-most-once",
    "at-least-once",
    "exactly-once, by transaction",
    "exactly-once, by intent",
)
#: seconds that a call may take before its wave is ended
TIMEOUT_S = 1.0
#: seconds for which nobody committed, and how old records may be, if there is a limit
_RESTARTS = ((2.0, None), (6.0, None), (6.0, 3.0), (10.0, 30.0))
#: part of those that read a pattern, which add tenants of whom it finds topics
_CREATE = 0.5
#: part of the use cases whose handlers are given a whole wave
_WAVES = 0.2
#: of ten others, those whose records are decoded before
_DECODE_OF_TEN = 4


class Surroundings(Protocol):
    """What handlers and sinks ask of the world."""

    calm: bool
    touched: Touched

    def sink_fails(self) -> bool:
        """Whether a write fails now."""

    def sink_unsure(self) -> bool:
        """Whether the answer to a write is lost."""

    def sink_locks(self) -> bool:
        """Whether the database that a tenant has for itself is locked now."""

    def sink_late(self) -> bool:
        """Whether others left a tenant no time."""

    def takes(self, place: Place) -> bool:
        """Whether a sink takes what comes of a record."""

    def dawdles(self) -> bool:
        """Whether a call of a handler takes too long."""

    def wrote(self, slice_of: str, done: Wrote) -> None:
        """An effect was written."""

    def generation(self, lane: LaneId) -> int:
        """The generation that the slice was started in which runs now."""

    def heard(self, piece: Slice) -> None:
        """A handler is called with a part of a slice."""

    def hurt_wave(self) -> None:
        """A fault may have touched any slice of the wave that runs now."""

    def say(self, text: str) -> None:
        """Tell whoever reads along."""

    @property
    def hides_ends(self) -> bool:
        """Whether of some lanes only reading tells where they end."""

    @property
    def for_all_of_100(self) -> float:
        """How many of a hundred use cases read a topic for all."""

    @property
    def at_end_of_100(self) -> float:
        """How many of a hundred use cases have streams that begin at the end."""

    @property
    def restarts_of_100(self) -> float:
        """How many of a hundred use cases pass over what is too old of streams left alone."""

    @property
    def lists(self) -> float:
        """What part of use cases reads a list of topics."""

    @property
    def patterns(self) -> float:
        """What part of those that read no list reads what a pattern matches."""

    @property
    def divided_of_10(self) -> float:
        """Of how many of ten use cases that could have buckets partitions are divided."""

    @property
    def by_place_of_10(self) -> float:
        """Of how many of ten of those they are divided by place, not by key."""


@dataclass(eq=False, slots=True)
class Deployed:
    """All use cases, with their sinks."""

    rng: Random
    clock: FakeClock
    store: Store
    world: Surroundings
    counts: Counter[str]
    #: makes a table of a name
    table: Callable[[str], Sink]
    use_cases: dict[str, UseCase] = field(default_factory=dict)
    books: dict[str, Notebook] = field(default_factory=dict)
    loss: dict[str, DataLossPolicy] = field(default_factory=dict)
    #: what use cases read
    reads: dict[str, Read] = field(default_factory=dict)
    #: use cases that add tenants of whom their pattern finds topics
    creating: set[str] = field(default_factory=set)
    #: use cases that read a topic for all
    for_all: set[str] = field(default_factory=set)
    #: use cases whose streams begin at the end
    at_end: set[str] = field(default_factory=set)
    #: what use cases say that pass over what is too old
    restarts: dict[str, Restart] = field(default_factory=dict)
    #: use cases that were deployed with another order or guarantee than at first
    mixed: set[str] = field(default_factory=set)

    def add(self, guarantee: str) -> None:
        """A new use case."""
        name = guarantee.replace(", by", "").replace(" ", "-")
        own = self.rng.getstate()[1][3 + len(self.use_cases)]
        at_end = own // 100 % 100 < self.world.at_end_of_100
        if at_end and not self.world.hides_ends:
            self.at_end.add(name)
        restarts = own // 10_000 % 100 < self.world.restarts_of_100
        if restarts and not self.world.hides_ends:
            self.restarts[name] = Restart(*_RESTARTS[own // 1_000_000 % len(_RESTARTS)])
        if own % 100 < self.world.for_all_of_100:
            self.for_all.add(name)
            self.counts["use cases of a topic for all"] += 1
        self.reads[name] = self._read(name, own)
        wave = "transaction" not in guarantee and self.rng.random() < _WAVES
        # Neither these nor merged lanes can be had where only reading tells where lanes end.
        wave = wave and not self.world.hides_ends
        options = {"name": name, "guarantee": guarantee.partition(",")[0]}
        made = self._of_waves(options) if wave else self._of_slices(guarantee, options)
        self.use_cases[name] = made
        self.loss[name] = self.rng.choice(list(DataLossPolicy))
        self.deploy(name)

    def _read(self, name: str, own: int) -> Read:
        """What it reads; whether that is a list is a chance of its own, as `_order`'s is."""
        if name in self.for_all:
            return ALL
        chance, world = Random(own), self.world  # noqa: S311 - chance, not secrecy
        if chance.random() < world.lists:
            self.counts["use cases of a list"] += 1
            return LIST
        if chance.random() < world.patterns:
            self.counts["use cases of a pattern"] += 1
            if chance.random() < _CREATE:
                self.creating.add(name)
            return PATTERN
        return ONE

    @property
    def more_topics(self) -> list[str]:
        """Topics that a tenant has besides the one that all have."""
        read = {topic for one in self.reads.values() if one is not ALL for topic in one.topics}
        return sorted(read - {TOPIC})

    def topics_of(self, stream: StreamId) -> list[str]:
        """The topics that a stream reads, once they are there."""
        return self.reads[original(stream.use_case)].of(stream.tenant)

    def _of_slices(self, guarantee: str, options: dict[str, Any]) -> UseCase:
        exact: Literal["intent"] | None = "intent" if "intent" in guarantee else None
        sink: Any
        if "transaction" in guarantee or (exact is None and self.rng.random() < 0.5):
            sink = self.table(table_of(options["name"]))
        else:
            sink = self._book(options["name"], exact)
        world = self.world
        raises = self.rng.random() < 0.3
        sink = Picky(sink, world.takes, raises, world.sink_locks, world.sink_late)
        sink.prepare(Site(Connections({}, "sqlite:///simulated.db"), self.store.positions))
        return use_case(
            topic=self.reads[options["name"]].said,
            sink=sink,
            **self._order(["lane", "lane", "stream"]),
            bad_record=self.rng.choice(["suspend", "suspend", "dead-letter", "fail"]),
            decode=self._format(options["guarantee"]),
            **options,
        )(self._handle)

    def _order(self, orders: Sequence[str]) -> dict[str, Any]:
        """An order, and how many buckets.

        Whether it is by key, or by place, is a chance of its own, as `_format`'s is.
        """
        chosen = self.rng.choice(orders)
        if self.world.hides_ends:
            return {"order": Order.LANE}
        own = self.rng.getstate()[1][2]
        if chosen == Order.STREAM or own % 10 >= self.world.divided_of_10:
            return {"order": chosen}
        order = Order.NONE if own // 30 % 10 < self.world.by_place_of_10 else Order.KEY
        return {"order": order, "buckets": 2 + own // 10 % 3}

    def _format(self, guarantee: str) -> Format | None:
        """Of some use cases bad records are none that decode.

        Not of those of at-most-once: their handler tells what a bad record may cost. The chance is
        of its own, as any other of the run would be another for it.
        """
        decodes = self.rng.getstate()[1][1] % 10 < _DECODE_OF_TEN
        return Decodable(self._kind) if decodes and guarantee != "at-most-once" else None

    def _kind(self, value: bytes | None) -> str:
        """What a record does now."""
        return trouble_of(value).now(self.clock.monotonic_s(), calm=self.world.calm)

    def _of_waves(self, options: dict[str, Any]) -> UseCase:
        exact: Literal["intent"] | None = "intent" if "exact" in options["guarantee"] else None
        name, world = options["name"], self.world

        def stumble(value: bytes | None, piece: Slice) -> None:
            self._stumble_in_frame(value, piece)

        def place(topic: str, partition: int, offset: int, value: bytes | None) -> Place:
            return Place(named(topic, trouble_of(value).log), partition, offset)

        def generation(piece: Slice) -> int:
            return world.generation(piece.lane)

        return use_case(
            topic=self.reads[name].said,
            form="wave",
            order=self.rng.choice(["lane", "none"]),
            bad_record=self.rng.choice(["suspend", "fail"]),
            decode=self._format(options["guarantee"]),
            **options,
        )(FrameHandler(self._book(name, exact), stumble, place, generation, world.heard))

    def _book(self, name: str, exact: Literal["intent"] | None) -> Notebook:
        world = self.world
        made = Notebook(exact, world.sink_fails, world.sink_unsure, world.wrote)
        self.books[name] = made
        return made

    def use_case(self, name: str) -> UseCase:
        """A use case, or the one that a rerun is of under the rerun's name."""
        return replace(self.use_cases[original(name)], name=name)

    def loss_of(self, stream: StreamId) -> DataLossPolicy:
        """What becomes of a stream that lost records."""
        known = self.loss.get(stream.use_case)
        return DataLossPolicy.FAIL if known is None else known  # reruns fail, always

    def change_terms(self, name: str) -> None:
        """Another order for a use case, and where its sink can do both, another guarantee."""
        made = self.use_cases[name]
        if made.form == "wave":
            return
        both = made.sink is not None and made.sink.exactly_once == "intent"
        guarantees = [Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE] if both else []
        guarantee = self.rng.choice(guarantees or [made.guarantee])
        chosen = self._order([Order.LANE, Order.STREAM])
        order = Order(chosen["order"])
        self.use_cases[name] = replace(made, **{**chosen, "order": order}, guarantee=guarantee)
        self.mixed.add(name)
        self.counts["terms changed"] += 1
        self.world.say(f"{name} is {guarantee}, order {order} from now on")

    def deploy(self, name: str) -> None:
        """A use case, or a new version of it, in the store."""
        made, loss = self.use_cases[name], self.loss[name]
        self.counts["deployments"] += 1
        deployment = Deployment(
            name,
            "m.py",
            f"{self.counts['deployments']:064}",
            made.topic,
            order=made.order,
            starting_offsets="latest" if name in self.at_end else "earliest",
            buckets=made.divides_by,
            restart=self.restarts.get(name),
            bad_record=made.bad_record,
            data_loss=loss,
            handler_timeout_s=TIMEOUT_S,
            creates_tenants=name in self.creating,
        )
        self.store.registry.deploy(deployment)
        for rerun in self.store.registry.deployments():
            if rerun.until and original(rerun.use_case) == name:
                self.store.registry.deploy(renewed_by(deployment, rerun))
        self.world.say(
            f"deployed {name} (order {made.order}, bad: {made.bad_record}, data loss: {loss})"
        )

    def _handle(self, table: pa.Table, context: SliceContext) -> pa.Table:
        for piece in context.slices:
            self.world.heard(piece)
        if self.world.dawdles():
            self._touch(context)
            raise HandlerSlow("the simulation's handler takes too long")
        troubles = [trouble_of(value) for value in table["value"].to_pylist()]
        for row, trouble in enumerate(troubles):
            now_s = self.clock.monotonic_s()
            self._stumble(table, row, trouble.now(now_s, calm=self.world.calm), context)
        lanes = cast("list[int]", table["partition"].to_pylist())
        reader = context.slices[0].lane.use_case
        read = cast("list[str]", table["topic"].to_pylist())
        offsets = cast("list[int]", table["offset"].to_pylist())
        own = [lane_with(context.slices, place) for place in map(Place, read, lanes, offsets)]
        topics = [named(topic, trouble.log) for topic, trouble in zip(read, troubles, strict=True)]
        return pa.table(
            {
                "reader": pa.array([reader] * table.num_rows, pa.string()),
                "tenant": pa.array([context.tenant] * table.num_rows, pa.string()),
                "topic": pa.array(topics, pa.string()),
                "lane": pa.array(lanes, pa.int64()),
                "place": table["offset"].combine_chunks(),
                "generation": pa.array([self.world.generation(lane) for lane in own], pa.int64()),
                "name": pa.array([lane.name for lane in own], pa.string()),
            }
        )

    def _stumble(self, table: pa.Table, row: int, kind: str, context: SliceContext) -> None:
        if kind == GOOD:
            return
        claims = self.use_cases[context.use_case].claims
        if kind == "bad":
            if claims:
                self._touch_from(table, row, context)
            raise context.bad_record(row, "bad")
        if claims or kind in ("kills", "sticks", "down"):
            self._touch(context)
        if kind != "refused":
            raise _RAISED[kind]()

    def _stumble_in_frame(self, value: bytes | None, piece: Slice) -> None:
        kind = self._kind(value)
        if kind == GOOD:
            return
        if kind == "down" or self.use_cases[original(piece.lane.use_case)].claims:
            self.world.hurt_wave()
        # What hangs or kills here hangs or kills the driver itself, and is not played.
        raise _RAISED["down" if kind == "down" else "raises"]()

    def _touch_from(self, table: pa.Table, row: int, context: SliceContext) -> None:
        """With at-most-once a bad record costs none before it, and none behind it if set aside."""
        if self.use_cases[context.use_case].bad_record is BadRecordPolicy.DEAD_LETTER:
            return
        reader, lost = context.slices[0].lane.use_case, table.slice(row)
        found = (cast("list[Any]", lost[name].to_pylist()) for name in Place._fields)
        for topic, partition, offset in zip(*found, strict=True):
            self.world.touched.places.add((reader, Place(topic, partition, offset)))

    def _touch(self, context: SliceContext) -> None:
        for piece in context.slices:
            self.world.touched.piece(piece.lane.use_case, piece)


@dataclass(frozen=True, slots=True)
class Decodable:
    """Bytes as they are, but for bad records, and those whose schema nobody tells now."""

    kind: Callable[[bytes | None], str]

    def schema(self, column: str) -> pa.Schema:
        """The same column."""
        return pa.schema([pa.field(column, pa.binary())])

    def decode(self, payloads: Payloads) -> Decoded:
        """All but the bad ones, up to the first whose schema is not to be had."""
        values = payloads.bytes.to_pylist()
        kinds = [self.kind(value) for value in values]
        known = kinds.index("down") if "down" in kinds else len(kinds)
        bad = [row for row in range(known) if kinds[row] == "bad"]
        good = [values[row] for row in range(known) if kinds[row] != "bad"]
        away = Waiting(known, RegistryUnavailable("the simulation's registry is away"))
        return Decoded(
            pa.table({"value": pa.array(good, pa.binary())}),
            tuple(Undecoded(row, "bad") for row in bad),
            away if known < len(kinds) else None,
        )


_RAISED: dict[str, Callable[[], BaseException]] = {
    "raises": lambda: ValueError("the simulation's handler cannot take this one"),
    "hangs": CallOverdue,
    "sticks": lambda: Stuck("it does not come back"),
    "kills": lambda: WorkerDies("it takes its worker along"),
    "down": lambda: SinkUnavailable("what the simulation's handler calls is down"),
}
