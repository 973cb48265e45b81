"""The use cases of a run: what is drawn of each, its sink, and the one handler that all have.

The handler tells of each record whose it is, which record it is by its own content, and in which
generation of its lane it was started, so that a sink's books can be read without believing anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Protocol, cast

import pyarrow as pa

from headrace.errors import HandlerSlow, SinkUnavailable
from headrace.model.records import Deployment
from headrace.model.streams import DataLossPolicy, LaneId, Slice
from headrace.ports import Connections, Sink, Site, Store
from headrace.testing.clock import FakeClock
from headrace.testing.simulation.sinks import Notebook, Wrote
from headrace.testing.simulation.topics import named
from headrace.use_cases import SliceContext, UseCase, use_case

TOPIC = "{tenant}.visits"
GUARANTEES = (
    "at-most-once",
    "at-least-once",
    "exactly-once, by transaction",
    "exactly-once, by intent",
)


class Surroundings(Protocol):
    """What handlers and sinks ask of the world."""

    calm: bool

    def sink_fails(self) -> bool:
        """Whether a write fails now."""

    def dawdles(self) -> bool:
        """Whether a call of a handler takes too long."""

    def wrote(self, slice_of: str, done: Wrote) -> None:
        """An effect was written."""

    def touch(self, use_case: str, piece: Slice) -> None:
        """A fault may have touched a slice."""

    def generation(self, lane: LaneId) -> int:
        """The generation that the slice was started in which runs now."""

    def say(self, text: str) -> None:
        """Tell whoever reads along."""


@dataclass(eq=False, slots=True)
class Deployed:
    """All use cases, with their sinks."""

    rng: Random
    clock: FakeClock
    store: Store
    world: Surroundings
    counts: Counter[str]
    #: makes the table of exactly-once by transaction
    table: Callable[[], Sink]
    use_cases: dict[str, UseCase] = field(default_factory=dict)
    books: dict[str, Notebook] = field(default_factory=dict)
    loss: dict[str, DataLossPolicy] = field(default_factory=dict)

    def add(self, guarantee: str) -> None:
        """A new use case."""
        name = guarantee.replace(", by", "").replace(" ", "-")
        sink: Sink
        if guarantee == "exactly-once, by transaction":
            sink = self.table()
        else:
            exact: Literal["intent"] | None = "intent" if "intent" in guarantee else None
            sink = self.books[name] = Notebook(exact, self.world.sink_fails, self.world.wrote)
        sink.prepare(Site(Connections({}, "sqlite:///simulated.db"), self.store.positions))
        self.use_cases[name] = use_case(
            topic=TOPIC,
            sink=sink,
            name=name,
            guarantee=guarantee.partition(",")[0],
            order=self.rng.choice(["lane", "lane", "stream"]),
            bad_record=self.rng.choice(["suspend", "suspend", "dead-letter", "fail"]),
        )(self._handle)
        self.loss[name] = self.rng.choice(list(DataLossPolicy))
        self.deploy(name)

    def deploy(self, name: str) -> Deployment:
        """A use case, or a new version of it, in the store."""
        made, loss = self.use_cases[name], self.loss[name]
        self.counts["deployments"] += 1
        deployment = Deployment(
            name,
            "m.py",
            f"{self.counts['deployments']:064}",
            TOPIC,
            order=made.order,
            bad_record=made.bad_record,
            data_loss=loss,
        )
        self.store.deploy(deployment)
        self.world.say(
            f"deployed {name} (order {made.order}, bad: {made.bad_record}, data loss: {loss})"
        )
        return deployment

    def _handle(self, table: pa.Table, context: SliceContext) -> pa.Table:
        if self.world.dawdles():
            self._touch(context)
            raise HandlerSlow("the simulation's handler takes too long")
        values = [(value or b"").decode().rpartition("#") for value in table["value"].to_pylist()]
        for row, (kind, _, _) in enumerate(values):
            self._stumble(row, kind, context)
        lanes = cast("list[int]", table["partition"].to_pylist())
        own = {
            lane: self.world.generation(LaneId(context.use_case, context.tenant, lane))
            for lane in dict.fromkeys(lanes)
        }
        read = zip(cast("list[str]", table["topic"].to_pylist()), values, strict=True)
        topics = [named(topic, int(log)) for topic, (_, _, log) in read]
        return pa.table(
            {
                "tenant": pa.array([context.tenant] * table.num_rows, pa.string()),
                "topic": pa.array(topics, pa.string()),
                "lane": pa.array(lanes, pa.int64()),
                "place": table["offset"].combine_chunks(),
                "generation": pa.array([own[lane] for lane in lanes], pa.int64()),
            }
        )

    def _stumble(self, row: int, what: str, context: SliceContext) -> None:
        kind, _, until = what.partition(":")
        if kind in ("bad", "raises") and self.use_cases[context.use_case].claims:
            self._touch(context)
        if kind == "bad":
            raise context.bad_record(row, "bad")
        if kind == "raises":
            raise ValueError("the simulation's handler cannot take this one")
        if kind == "down" and not self.world.calm and self.clock.monotonic_s() < float(until):
            self._touch(context)
            raise SinkUnavailable("what the simulation's handler calls is down")

    def _touch(self, context: SliceContext) -> None:
        for piece in context.slices:
            self.world.touch(context.use_case, piece)
