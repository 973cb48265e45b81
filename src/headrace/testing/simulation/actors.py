"""Processes that can die or sleep at any call they make, and the doors at which it happens.

A kill between two instructions matters only if something outside changed between them, so it is
enough to let a process die right before or right after each call to a port. A *door* stands around
a port for one actor and is that place: it asks the world before the call and after it. Inside a
transaction a process may die, but nobody else can do anything meanwhile, so none sleeps there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.records import Move
from headrace.model.streams import Slice
from headrace.ports import SliceBatch


class Killed(BaseException):
    """The process ends here; nothing of it runs on."""


@dataclass(eq=False, slots=True)
class Actor:
    """A driver's process, or one attempt of a task."""

    name: str
    kind: Literal["driver", "task"]
    dead: bool = False
    #: inside how many transactions it is
    shielded: int = 0
    #: tells the world which slices a fault of it may touch
    hurt: Callable[[], None] = lambda: None


class Stage(Protocol):
    """What doors ask."""

    def step(self, actor: Actor, what: str) -> None:
        """Somebody is about to do something, or has just done it; may kill it or let it sleep."""

    def store_fails(self, actor: Actor, when: Literal["before", "after"]) -> bool:
        """Whether the store does not answer now."""

    def moved(self, move: Move) -> None:
        """A position was moved, for good."""

    def decided(self, name: str, args: Sequence[Any]) -> None:
        """A driver decided about lanes as a whole: where they begin, go on, or stop."""

    def replaced(self, driver: str, by: Actor) -> None:
        """A driver of this name is not the one any more, or was given up for dead."""


class Door:
    """Any port, for one actor."""

    def __init__(self, whole: Any, actor: Actor, stage: Stage, name: str) -> None:
        self._whole, self._actor, self._stage, self._name = whole, actor, stage, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if not callable(found):
            return found
        what = f"{self._name}.{name}"

        def called(*args: Any, **options: Any) -> Any:
            self._before(what)
            answer = found(*args, **options)
            self._did(name, args, answer)
            self._after(what)
            return answer

        self.__dict__[name] = called
        return called

    def _before(self, what: str) -> None:
        self._stage.step(self._actor, f"before {what}")

    def _after(self, what: str) -> None:
        self._stage.step(self._actor, f"after {what}")

    def _did(self, name: str, args: Sequence[Any], answer: Any) -> None:
        """Something was really done, whatever the caller learns of it."""


class StoreDoor(Door):
    """The store, which at times does not answer, before or after it did what was asked."""

    @property
    def positions(self) -> PositionsDoor:
        """Those of the store."""
        return PositionsDoor(self._whole.positions, self._actor, self._stage, "positions")

    def _before(self, what: str) -> None:
        super()._before(what)
        if self._stage.store_fails(self._actor, "before"):
            raise StoreUnavailable("the simulation's store does not answer")

    def _after(self, what: str) -> None:
        super()._after(what)
        if self._stage.store_fails(self._actor, "after"):
            raise OutcomeUnknown("the answer of the simulation's store was lost")

    def _did(self, name: str, args: Sequence[Any], answer: Any) -> None:
        if name in ("advance", "finish_intent"):
            moves = args[0] if name == "advance" else args[1]
            moved = answer if name == "advance" else answer.moved
            for move, made in zip(moves, moved, strict=True):
                if made:
                    self._stage.moved(move)
        elif name in ("start_lanes", "set_stream_state") or (name == "skip_lost" and answer):
            self._stage.decided(name, args)
        elif name == "join":
            self._stage.replaced(args[0], self._actor)
        elif name == "adopt" and answer:
            self._stage.replaced(args[1].name, self._actor)


class PositionsDoor(StoreDoor):
    """The positions, whose transactions may end in any way."""

    @contextmanager
    def begin(self) -> Iterator[Any]:
        """As the store's; killed inside, nothing of it is kept."""
        self._before("positions.begin")
        self._moves: list[Move] = []
        self._actor.shielded += 1
        try:
            with self._whole.begin() as transaction:
                yield transaction
                self._stage.step(self._actor, "before positions.commit")
        finally:
            self._actor.shielded -= 1
        for each in self._moves:
            self._stage.moved(each)
        self._after("positions.commit")

    def advance_in(self, connection: Any, moves: Sequence[Move]) -> list[bool]:
        """Move positions in the caller's transaction; a move and its undoing are none."""
        self._stage.step(self._actor, "before positions.advance_in")
        answers: list[bool] = self._whole.advance_in(connection, moves)
        for move, made in zip(moves, answers, strict=True):
            if made and move.undone() in self._moves:
                self._moves.remove(move.undone())
            elif made:
                self._moves.append(move)
        return answers

    def step(self, what: str) -> None:
        """A sink without transactions says where it is."""
        self._stage.step(self._actor, what)

    def hurt(self) -> None:
        """A sink without transactions fails."""
        self._actor.hurt()


class ReaderDoor(Door):
    """A reader whose task may die or sleep between two batches."""

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """As the reader's."""
        for batch in self._whole.read(slices, batch_records):
            self._before("reader.read")
            yield batch
