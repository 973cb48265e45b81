"""Sinks that remember what was written: one for each way to keep a guarantee.

`Notebook` knows no transactions: at-most-once and at-least-once have in it what happened, in order;
exactly-once by intent has what stands there at the end, by the effects' identities. `TwinTable` is
the twin of ``SqlTable``: rows and positions in one transaction of the store's twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.errors import SinkUnavailable, StoreUnavailable
from headrace.model.streams import LaneId
from headrace.ports import Effect, Site, Written
from headrace.testing.ledger import Found, Place

#: columns of what the simulation's handler returns
COLUMNS = {"tenant": "text", "topic": "text", "lane": "bigint", "place": "bigint"}
TABLE = "found"

Identity = tuple[tuple[LaneId, int, int], ...]


def found_in(rows: Sequence[Any]) -> list[Found]:
    """Rows, each with the columns of ``COLUMNS``, as effects."""
    return [
        Found(each["tenant"], Place(each["topic"], each["lane"], each["place"])) for each in rows
    ]


@dataclass(slots=True)
class Notebook:
    """A sink for everything but exactly-once by transaction."""

    exactly_once: Literal["intent"] | None
    #: whether a write fails now
    fails: Callable[[], bool]
    #: told of effects: whose slice it was, and what was written
    wrote: Callable[[str, Sequence[Found]], None]
    #: what happened, in order
    happened: list[Found] = field(default_factory=list)
    #: what stands there, by the effects' identities
    kept: dict[Identity, list[Found]] = field(default_factory=dict)
    #: effects that were written again with another content
    changed: list[Identity] = field(default_factory=list)

    def prepare(self, site: Site) -> None:
        """Nothing to make."""

    def open(self, site: Site) -> _Page:
        """A writer for one bin."""
        return _Page(self, site.positions)

    @property
    def found(self) -> list[Found]:
        """What a checker finds."""
        if self.exactly_once is None:
            return self.happened
        return [each for effect in self.kept.values() for each in effect]

    def note(self, effect: Effect) -> None:
        """Write one effect down."""
        found = found_in(effect.output.to_pylist()) if effect.output.num_columns else []
        spans = zip(effect.slices, effect.reached, strict=True)
        identity = tuple((piece.lane, piece.from_offset, reached) for piece, reached in spans)
        if self.kept.get(identity, found) != found:
            self.changed.append(identity)
        self.kept[identity] = found
        self.happened += found
        self.wrote(effect.slices[0].lane.tenant, found)


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
