"""Sinks that remember what was written: one for each way to keep a guarantee.

`Notebook` knows no transactions: at-most-once and at-least-once have in it what happened, in order;
exactly-once by intent has what stands there at the end, by the effects' identities. `MemoryTable`
stands for ``SqlTable``: rows and positions in one transaction of the store in memory, or rows
alone.
`Picky` stands around any of them and refuses single records. It also plays that each tenant has a
database of its own, which may be locked, or for which others leave no time.

What a notebook was told may be in it although nobody hears so, as mail that was sent: that a write
failed says nothing of what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa

from headrace.connectors.outcomes import failed
from headrace.errors import SinkRefused, SinkUnavailable, StoreUnavailable, TenantsSinkSlow
from headrace.model.places import number_at
from headrace.model.streams import LaneId
from headrace.ports import Effect, Site, Written
from headrace.testing.ledger import Found, Place

#: columns of what the simulation's handler returns
COLUMNS = {
    "reader": "text",
    "tenant": "text",
    "topic": "text",
    "lane": "bigint",
    "place": "bigint",
    "generation": "bigint",
    "name": "text",
}


def table_of(use_case: str) -> str:
    """The name of its table."""
    return f"found_{use_case.replace('-', '_')}"


Identity = tuple[tuple[LaneId, int, int], ...]


class Done(NamedTuple):
    """An effect, with the generation of its lane that it was started in."""

    #: the use case, or the rerun of it
    reader: str
    found: Found
    generation: int
    #: of the effect it is part of, where a sink knows effects by their identities
    identity: Identity = ()
    #: the name of the lane that it was read in
    name: str = ""


Wrote = Sequence[Done]


def effect_lane(effect: Done) -> LaneId:
    """The lane that an effect was read in."""
    tenant, place = effect.found
    whole = f"{place.topic.partition('#')[0]}[{place.partition}]"
    return LaneId(effect.reader, tenant, effect.name or whole)


def done_in(rows: Sequence[Any], identity: Identity = ()) -> list[Done]:
    """Rows, each with the columns of ``COLUMNS``, as effects."""
    return [
        Done(
            row["reader"],
            Found(row["tenant"], Place(row["topic"], row["lane"], row["place"])),
            row["generation"],
            identity,
            row["name"],
        )
        for row in rows
    ]


@dataclass(slots=True)
class Notebook:
    """A sink for everything but exactly-once by transaction."""

    exactly_once: Literal["intent"] | None
    #: whether a write fails now, and whether its answer is lost
    fails: Callable[[], bool]
    unsure: Callable[[], bool]
    #: told of effects: whose slice it was, and what was written
    wrote: Callable[[str, Wrote], None]
    #: what happened, in order
    happened: list[Done] = field(default_factory=list)
    #: records of which effects stand there, by the effects' identities
    kept: dict[Identity, list[Found]] = field(default_factory=dict)
    #: what stands under the id of each wave of a handler that writes by it
    by_wave: dict[str, list[Done]] = field(default_factory=dict)
    #: calls that began under each id, and the one that wrote last
    _begun: Counter[str] = field(default_factory=Counter)
    _wrote: Counter[str] = field(default_factory=Counter)
    #: ids under which a call wrote last that had slept while a later one wrote
    overtaken: set[str] = field(default_factory=set)
    #: effects that were written again with another content: what stood there, and what does now
    changed: list[tuple[list[Found], list[Found]]] = field(default_factory=list)

    def prepare(self, site: Site) -> None:
        """Nothing to make."""

    def open(self, site: Site) -> _Page:
        """A writer for one bin."""
        return _Page(self, site.positions)

    @property
    def done(self) -> list[Done]:
        """What a checker finds; the same effect written again in a generation is once there.

        What was written under the id of a wave is there as long as nothing else is.
        """
        if self.exactly_once is None:
            return self.happened
        stands = set(chain.from_iterable(self.by_wave.values()))
        happened = dict.fromkeys(self.happened)
        return [effect for effect in happened if effect.identity or effect in stands]

    def begins(self, wave_id: str) -> int:
        """A call begins under the id of its wave; its number."""
        self._begun[wave_id] += 1
        return self._begun[wave_id]

    def replace(self, wave_id: str, call: int, effects: Sequence[Done]) -> None:
        """Put effects in the place of all that stands under an id.

        A person may send a lane to where it is while a call sleeps, and the recorded slice runs
        again in the new generation. What the sleeper then writes as it stands there takes nothing
        away: it remains an effect of that generation.
        """
        stood = {_whenever(effect): effect for effect in self.by_wave.get(wave_id, ())}
        if call < self._wrote[wave_id]:
            self.overtaken.add(wave_id)
        self._wrote[wave_id] = call
        self.by_wave[wave_id] = [
            max(effect, stood.get(_whenever(effect), effect), key=lambda one: one.generation)
            for effect in effects
        ]

    def note(self, effect: Effect) -> None:
        """Write one effect down."""
        spans = zip(effect.slices, effect.reached, strict=True)
        identity = tuple(
            (piece.lane, number_at(piece.from_offset), number_at(reached))
            for piece, reached in spans
        )
        rows = effect.output.to_pylist() if effect.output.num_columns else []
        done = done_in(rows, identity)
        found = [effect.found for effect in done]
        before = self.kept.get(identity, found)
        if before != found:
            self.changed.append((before, found))
        self.kept[identity] = found
        self.happened += done
        self.wrote(effect.slices[0].lane.tenant, done)


def _whenever(effect: Done) -> Done:
    """The same effect, in whichever generation; no handler is told of that."""
    return effect._replace(generation=0)


@dataclass(frozen=True, slots=True)
class _Page:
    book: Notebook
    #: of the task, which may die here
    door: Any

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        for effect in effects:
            self.door.step("before sink.write")
            if self.book.fails():
                self.door.hurt()
                raise SinkUnavailable("the simulation's sink does not answer")
            self.book.note(effect)
        self.door.step("after sink.write")
        if self.book.unsure():
            self.door.hurt()
            raise SinkUnavailable("the answer of the simulation's sink was lost")
        return [Written()] * len(effects)

    def close(self) -> None:
        """Nothing to give up."""


@dataclass(frozen=True, slots=True)
class MemoryTable:
    """A table in the store in memory."""

    name: str
    exactly_once: Literal["transaction"] = "transaction"
    keeps_state: ClassVar[bool] = True

    def prepare(self, site: Site) -> None:
        """The first row makes it."""

    def open(self, site: Site) -> TableWriter:
        """A writer for one bin."""
        return TableWriter(site.positions, self.name)


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Writes groups of effects, a transaction for each group; one that is lost is not repeated."""

    positions: Any
    name: str

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all of them, or none."""
        try:
            with self.positions.begin() as transaction:
                return [self._write(transaction, effect) for effect in effects]
        except StoreUnavailable as error:
            raise SinkUnavailable(str(error)) from error

    def _write(self, transaction: Any, effect: Effect) -> Written:
        moves = effect.moves if effect.move_positions else ()
        moved = self.positions.advance_in(transaction, moves) if moves else []
        if not all(moved):
            back = [move.undone() for move, made in zip(moves, moved, strict=True) if made]
            self.positions.advance_in(transaction, back)
            return Written(superseded=True)
        if moves and effect.state is not None:
            self.positions.save_state_in(transaction, [effect.state])
        if effect.output.num_columns:
            transaction.insert(self.name, effect.output.to_pylist())
        return Written(committed=effect.move_positions)

    def close(self) -> None:
        """Nothing to give up."""


@dataclass(frozen=True, slots=True)
class Picky:
    """A sink that refuses effects with certain records, one by one or all it is given at once."""

    sink: Any
    #: whether it takes an effect with this record
    takes: Callable[[Place], bool]
    #: it raises, and does not say which of several it was
    raises: bool
    #: whether a tenant's own database is locked now, and whether others left it no time
    locks: Callable[[], bool]
    late: Callable[[], bool]

    @property
    def exactly_once(self) -> Literal["transaction", "intent"] | None:
        """That of the sink."""
        found: Literal["transaction", "intent"] | None = self.sink.exactly_once
        return found

    def prepare(self, site: Site) -> None:
        """As the sink does."""
        self.sink.prepare(site)

    def open(self, site: Site) -> _PickyWriter:
        """A writer for one bin."""
        return _PickyWriter(self, self.sink.open(site), site.positions)

    def check(self, table: pa.Table) -> None:
        """Say of a table, before it is written, that there is a record in it that is not taken."""
        if self.refuses(table):
            raise SinkRefused(_REFUSED)

    def refuses(self, table: pa.Table) -> bool:
        """Whether a record is in it that is not taken."""
        rows = table.to_pylist() if table.num_columns else []
        return not all(self.takes(done.found.place) for done in done_in(rows))


@dataclass(slots=True)
class _PickyWriter:
    picky: Picky
    writer: Any
    #: of the task
    door: Any
    #: one tenant of the bin had its time, which may be all there is
    begun: bool = False

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        refused = [self.picky.refuses(effect.output) for effect in effects]
        if self.picky.raises and any(refused):
            self.door.hurt()
            raise SinkRefused(_REFUSED)
        told = [
            failed(SinkRefused(_REFUSED)) if no else self._kept_off(effect)
            for effect, no in zip(effects, refused, strict=True)
        ]
        taken = [
            effect for effect, not_written in zip(effects, told, strict=True) if not not_written
        ]
        answers = iter(self.writer.write(taken) if taken else ())
        return [not_written or next(answers) for not_written in told]

    def _kept_off(self, effect: Effect) -> Written | None:
        """Why a tenant's own database is not written to, if it is not."""
        if self.begun and effect.may_repeat and self.picky.late():
            return Written(untried=True)
        self.begun = True
        if not self.picky.locks():
            return None
        self.door.hurt()
        return failed(TenantsSinkSlow("the simulation's database of a tenant is locked"))

    def close(self) -> None:
        self.writer.close()


_REFUSED = "the simulation's sink does not take this one"
