"""What a suite of a sink says of it: how to make it, where it works, how to read back.

The laws that it is then held to are in ``sink_contract.py``, which is what a suite derives from.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple
from unittest import mock

import pyarrow as pa

from headrace.model.buckets import BUCKETS, Bucket
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.record_versions import version_of
from headrace.model.streams import LaneId, Slice
from headrace.ports import Effect, Sink, SinkWriter, Site, Written
from headrace.process import crash_points
from headrace.process.crash_points import PlayedKill
from headrace.spark.refused_rows import as_a_whole

USE_CASE = "contract"


class Seen(NamedTuple):
    """A value found where the sink wrote it."""

    #: what a reader can tell a repeat by: equal for the same row of the same effect
    identity: str
    value: str


class State(NamedTuple):
    """What a record makes of a key."""

    key: str
    value: str
    #: of its record
    version: int
    #: the key is gone with it
    gone: bool = False

    @property
    def text(self) -> str:
        """The one value that a suite writes for it and reads back."""
        return f"{self.key} is {self.value}"


class SinkSuite(ABC):
    """What a suite of a sink says; see ``sink_contract.py``."""

    #: cases of ``sink_cases.py`` that this sink cannot have, each with the reason
    cannot_have: ClassVar[Mapping[str, str]] = {}

    #: column that ``wrong_table`` lacks or has with a wrong type
    wrong_column = "value"

    # what a user of the suite says

    @abstractmethod
    def make_sink(self) -> Sink:
        """A sink; equal ones each time."""

    @abstractmethod
    def site(self) -> Site:
        """Where it works: empty at the start of a test, the same within one."""

    @abstractmethod
    def table(self, values: Sequence[str]) -> pa.Table:
        """A handler's table with one row for each value, in order; values are unique in a test."""

    @abstractmethod
    def refused_table(self) -> pa.Table:
        """A table that this sink refuses; its schema may be right."""

    @abstractmethod
    def wrong_table(self) -> pa.Table:
        """A table without ``wrong_column``, or with a wrong type of it."""

    @abstractmethod
    def read_back(self) -> list[Seen]:
        """All that was written, read by other means; rows of one effect in their order."""

    def odd_tables(self) -> dict[str, pa.Table]:
        """More tables, by what is odd about them, that this sink may have trouble with."""
        return {}

    def place(self, effect: Effect) -> None:  # noqa: B027 - most sinks move no positions
        """Put the positions of an effect where it starts; only where the sink moves them."""

    def losing_an_answer(self) -> AbstractContextManager[object] | None:
        """Within it the target takes what it is given next, and its answer to that is lost.

        None where that cannot be: nothing answers, or the client can ask again in safety.
        """
        return None

    def states(self, states: Sequence[State]) -> pa.Table:
        """A handler's table of what became of keys; each value is the ``text`` of its state.

        Only a sink that keeps the newest of a key has more to say than this: the key, the version
        if it takes one from the table, and whether the key is gone.
        """
        return self.table([state.text for state in states])

    def dying_in_a_write(self) -> AbstractContextManager[object]:
        """Within it the next write ends in the middle, as if its process had been killed there.

        It raises ``PlayedKill``. This one does at the step ``mid-write`` of
        ``process/crash_points.py``.
        """
        return kills_in_the_middle()

    def refusing_for_now(self) -> AbstractContextManager[object] | None:
        """Within it the target takes nothing, and will later."""
        return None

    def forgetting(self) -> bool:
        """Make the target forget what it knew of earlier writes; whether it knew anything."""
        return False

    @property
    def writes_once(self) -> bool:
        """Whether an effect that is written again is there once, on this site."""
        return self.make_sink().exactly_once is not None

    def lane(self, topic: str, number: int) -> str:
        """The name of a lane; of two numbers there are two."""
        return named(topic, number)

    # helpers

    def effect(
        self,
        table: pa.Table,
        *,
        tenant: str = "acme",
        partition: int = 0,
        from_offset: int = 0,
        depth: int = 0,
    ) -> Effect:
        """An effect of one slice that stands for as many records as it has rows, at least one."""
        reached = from_offset + max(table.num_rows, 1)
        lane = LaneId(USE_CASE, tenant, self.lane(f"{tenant}.visits", partition))
        piece = Slice(
            lane, f"{tenant}.visits", place_at(from_offset), place_at(reached), 1, depth=depth
        )
        made = Effect(
            (piece,),
            (place_at(reached),),
            table,
            move_positions=self._transacts,
            version=version_of(depth, reached - 1),
        )
        self.place(made)
        return made

    @property
    def _transacts(self) -> bool:
        return self.make_sink().exactly_once == "transaction"

    @contextmanager
    def writer(self, sink: Sink | None = None) -> Iterator[SinkWriter]:
        """A writer of a prepared sink; closed in the end."""
        sink = sink or self.make_sink()
        sink.prepare(self.site())
        with closing(sink.open(self.site())) as writer:
            yield _Whole(writer)

    def _values(self) -> list[str]:
        return [seen.value for seen in self.read_back()]


class InBuckets:
    """Before a suite: its lanes are buckets of one partition, as with order ``key``.

    Their places are those of the partition, so a sink that keeps or names something for a lane has
    to tell them apart by their whole names alone.
    """

    def lane(self, topic: str, number: int) -> str:
        """The bucket of this number."""
        return Bucket(named(topic, 0), number, BUCKETS).name


@dataclass(frozen=True, slots=True)
class _Whole:
    """A writer for which an effect is refused as a whole where it names rows of it."""

    writer: SinkWriter

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        told = self.writer.write(effects)
        for effect, written in zip(effects, told, strict=True):
            rows = [refused.row for refused in written.refused]
            assert rows == sorted(set(rows)), "rows are named once, in their order"
            assert not rows or 0 <= rows[0] <= rows[-1] < effect.output.num_rows
            assert not (rows and effect.move_positions), "positions move with whole effects alone"
            before = [refused.row for refused in written.refused if refused.error is not None]
            waits = [refused.row for refused in written.refused if refused.error is None]
            assert not waits or (before and before[0] < waits[0]), "a row waits for one before it"
        return [as_a_whole(written) for written in told]

    def close(self) -> None:
        self.writer.close()


@contextmanager
def kills_in_the_middle(due: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Within it writers are killed in the middle of a write, where ``due`` says so.

    It holds for all threads of the process, so it is begun once, around them, and never in each.
    """

    def stop(step: str, use_case: str, wanted: str) -> None:
        del use_case, wanted
        if step == "mid-write" and due():
            raise PlayedKill

    asked = {crash_points.VARIABLE: "mid-write:1:unused"}
    with mock.patch.dict(os.environ, asked), mock.patch.object(crash_points, "_stop", stop):
        yield
