"""Sinks that remember what was written: one for each way to keep a guarantee.

`Notebook` knows no transactions: at-most-once and at-least-once have in it what happened, in order;
exactly-once by intent has what stands there at the end, by the effects' identities. `TwinTable` is
the twin of ``SqlTable``: rows and positions in one transaction of the store's twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from headrace.errors import SinkUnavailable, StoreUnavailable
from headrace.model.streams import LaneId
from headrace.ports import Effect, Site, Written
from headrace.testing.ledger import Found, Place

#: columns of what the simulation's handler returns
COLUMNS = {
    "tenant": "text",
    "topic": "text",
    "lane": "bigint",
    "place": "bigint",
    "generation": "bigint",
}
TABLE = "found"

Identity = tuple[tuple[LaneId, int, int], ...]


class Done(NamedTuple):
    """An effect, with the generation of its lane that it was started in."""

    found: Found
    generation: int
    #: of the effect it is part of, where a sink knows effects by their identities
    identity: Identity = ()


Wrote = Sequence[Done]


def done_in(rows: Sequence[Any], identity: Identity = ()) -> list[Done]:
    """Rows, each with the columns of ``COLUMNS``, as effects."""
    return [
        Done(
            Found(each["tenant"], Place(each["topic"], each["lane"], each["place"])),
            each["generation"],
            identity,
        )
        for each in rows
    ]


@dataclass(slots=True)
class Notebook:
    """A sink for everything but exactly-once by transaction."""

    exactly_once: Literal["intent"] | None
    #: whether a write fails now
    fails: Callable[[], bool]
    #: told of effects: whose slice it was, and what was written
    wrote: Callable[[str, Wrote], None]
    #: what happened, in order
    happened: list[Done] = field(default_factory=list)
    #: records of which effects stand there, by the effects' identities
    kept: dict[Identity, list[Found]] = field(default_factory=dict)
    #: effects that were written again with another content: what stood there, and what does now
    changed: list[tuple[list[Found], list[Found]]] = field(default_factory=list)

    def prepare(self, site: Site) -> None:
        """Nothing to make."""

    def open(self, site: Site) -> _Page:
        """A writer for one bin."""
        return _Page(self, site.positions)

    @property
    def done(self) -> list[Done]:
        """What a checker finds; the same effect written again in a generation is once there."""
        if self.exactly_once is None:
            return self.happened
        return list(dict.fromkeys(self.happened))

    def note(self, effect: Effect) -> None:
        """Write one effect down."""
        spans = zip(effect.slices, effect.reached, strict=True)
        identity = tuple((piece.lane, piece.from_offset, reached) for piece, reached in spans)
        rows = effect.output.to_pylist() if effect.output.num_columns else []
        done = done_in(rows, identity)
        found = [each.found for each in done]
        before = self.kept.get(identity, found)
        if before != found:
            self.changed.append((before, found))
        self.kept[identity] = found
        self.happened += done
        self.wrote(effect.slices[0].lane.tenant, done)


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
        return [Written()] * len(effects)

    def close(self) -> None:
        """Nothing to give up."""


@dataclass(frozen=True, slots=True)
class TwinTable:
    """A table in the store's twin."""

    exactly_once: Literal["transaction"] = "transaction"

    def prepare(self, site: Site) -> None:
        """The first row makes it."""

    def open(self, site: Site) -> _TableWriter:
        """A writer for one bin."""
        return _TableWriter(site.positions)


@dataclass(frozen=True, slots=True)
class _TableWriter:
    positions: Any

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        try:
            with self.positions.begin() as transaction:
                return [self._write(transaction, each) for each in effects]
        except StoreUnavailable as error:
            raise SinkUnavailable(str(error)) from error

    def _write(self, transaction: Any, effect: Effect) -> Written:
        moves = effect.moves
        moved = self.positions.advance_in(transaction, moves)
        if not all(moved):
            back = [move.undone() for move, made in zip(moves, moved, strict=True) if made]
            self.positions.advance_in(transaction, back)
            return Written(superseded=True)
        if effect.output.num_columns:
            transaction.insert(TABLE, effect.output.to_pylist())
        return Written(committed=True)

    def close(self) -> None:
        """Nothing to give up."""
