"""The doors around ports: the places where processes die and sleep, and where calls fail.

A kill between two instructions matters only if something outside changed between them, so it is
enough to let a process die right before or right after each call to a port. A *door* stands around
a port for one actor and is that place: it asks the world before the call and after it. Inside a
transaction a process may die, but nobody else can do anything meanwhile, so none sleeps there.

What a port's answer can be besides the right one is here as well: none, a part of it, an old one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from headrace.errors import BrokerUnavailable, EngineStopped, OutcomeUnknown, StoreUnavailable
from headrace.model.receipts import Behind
from headrace.model.records import Move
from headrace.model.state import StateChanges
from headrace.model.streams import Slice
from headrace.model.waves import Wave
from headrace.ports import DeadLetter, SliceBatch, advance_groups
from headrace.spark.row_places import place_of_row
from headrace.spark.slice_errors import error_of
from headrace.testing.simulation.actors import Actor, Killed, Stage

#: what a driver decides about lanes as a whole
_DECISIONS = ("start_lanes", "set_stream_state", "keep")
#: the same, if the store says that it was done
_ANSWERED = ("skip_lost", "pass_over", "forget_lanes", "stay")


class Door:
    """Any port, for one actor."""

    def __init__(self, whole: Any, actor: Actor, stage: Stage, name: str) -> None:
        self._whole, self._actor, self._stage, self._name = whole, actor, stage, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if not callable(found):
            return found

        def called(*args: Any, **options: Any) -> Any:
            return self._called(name, *args, **options)

        self.__dict__[name] = called
        return called

    def _called(self, name: str, *args: Any, **options: Any) -> Any:
        what = f"{self._name}.{name}"
        self._before(what)
        self._does(name, args)
        answer = getattr(self._whole, name)(*args, **options)
        self._did(name, args, answer)
        self._after(what)
        return self._told(name, answer)

    def _before(self, what: str) -> None:
        self._stage.step(self._actor, f"before {what}")

    def _after(self, what: str) -> None:
        self._stage.step(self._actor, f"after {what}")

    def _does(self, name: str, args: Sequence[Any]) -> None:
        """Something is done now, and nothing comes between."""

    def _did(self, name: str, args: Sequence[Any], answer: Any) -> None:
        """Something was really done, whatever the caller learns of it."""

    def _told(self, name: str, answer: Any) -> Any:
        """What the caller learns."""
        del name
        return answer

    def _happens(self, odds: float) -> bool:
        return not self._stage.calm and self._stage.rng.random() < odds


class PartDoor(Door):
    """A part of the store, which at times does not answer, before or after it did as asked."""

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
        elif name in _DECISIONS or (name in _ANSWERED and answer):
            self._stage.decided(name, args)
        elif name == "join":
            self._stage.replaced(args[0], self._actor)
        elif name == "adopt" and answer:
            self._stage.replaced(args[2].name, self._actor)


class ProgressDoor(PartDoor):
    """The progress, where waves are written down."""

    def record_intent(self, wave: Wave, driver: str) -> bool:
        """As the store's; whoever does not hear of it has taken the wave all the same."""
        try:
            recorded: bool = self._called("record_intent", wave, driver)
        except (Killed, StoreUnavailable):
            self._stage.recorded(self._actor, wave, heard=False)
            raise
        if recorded:
            self._stage.recorded(self._actor, wave, heard=True)
        return recorded

    def _does(self, name: str, args: Sequence[Any]) -> None:
        if name == "pass_over":
            self._stage.left_alone.is_to_pass_over(args[0])


class MembershipDoor(PartDoor):
    """The drivers, who take streams and give them back."""

    def join(
        self, driver: str, use_cases: Collection[str], *, process: str = "", again: bool = False
    ) -> int:
        """As the store's."""
        self._again = again
        number: int = self._called("join", driver, use_cases, process=process, again=again)
        return number

    def _did(self, name: str, args: Sequence[Any], answer: Any) -> None:
        super()._did(name, args, answer)
        left = self._stage.left_alone
        if name == "hold":
            left.held(args[1], answer)
        elif name == "release":
            left.given_back(args[0])
        elif name == "leave":
            left.has_left(*args)
        elif name == "join" and not self._again:
            left.is_gone(args[0], heir=args[0])
        elif name == "adopt" and answer:
            left.is_gone(args[2].name, heir=args[0])


class StoreDoor(PartDoor):
    """The store, with a door around each part."""

    @property
    def registry(self) -> PartDoor:
        """That of the store."""
        return PartDoor(self._whole.registry, self._actor, self._stage, "registry")

    @property
    def membership(self) -> MembershipDoor:
        """That of the store."""
        return MembershipDoor(self._whole.membership, self._actor, self._stage, "membership")

    @property
    def progress(self) -> ProgressDoor:
        """That of the store."""
        return ProgressDoor(self._whole.progress, self._actor, self._stage, "progress")

    @property
    def failures(self) -> PartDoor:
        """Those of the store."""
        return PartDoor(self._whole.failures, self._actor, self._stage, "failures")

    @property
    def positions(self) -> PositionsDoor:
        """Those of the store."""
        return PositionsDoor(self._whole.positions, self._actor, self._stage, "positions")


class PositionsDoor(PartDoor):
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
        for move in self._moves:
            self._stage.moved(move)
        try:
            self._after("positions.commit")
        except OutcomeUnknown:
            for move in self._moves:
                self._stage.answer_lost(move)
            raise

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

    def advance_groups(
        self, groups: Sequence[Sequence[Move]], states: Sequence[StateChanges | None] = ()
    ) -> list[bool]:
        """As the store's, step by step; or late, when positions may have been read back."""
        if self._stage.commits_late(self._actor, lambda: self._commit_late(groups, states)):
            raise OutcomeUnknown("the simulation's store commits, and nobody hears of it")
        return advance_groups(self, groups, states)

    def save_state_in(self, connection: Any, states: Sequence[StateChanges]) -> None:
        """Change state in the caller's transaction."""
        self._stage.step(self._actor, "before positions.save_state_in")
        self._whole.save_state_in(connection, states)

    def _commit_late(
        self, groups: Sequence[Sequence[Move]], states: Sequence[StateChanges | None]
    ) -> None:
        for group, made in zip(groups, self._whole.advance_groups(groups, states), strict=True):
            for move in group if made else ():
                self._stage.moved_late(move)

    def _did(self, name: str, args: Sequence[Any], answer: Any) -> None:
        super()._did(name, args, answer)
        counts = self._stage.counts
        if name == "reads_of":
            counts["slices read as before"] += sum(read is not None for read in answer)
        elif name == "record_reads":
            for mine, kept in zip(args[0], answer, strict=True):
                counts["reads written down"] += kept == mine
                counts["reads of lanes that moved"] += kept is None
                counts["reads that differ"] += kept not in (None, mine)

    def step(self, what: str) -> None:
        """A sink without transactions says where it is."""
        self._stage.step(self._actor, what)

    def hurt(self) -> None:
        """A sink without transactions fails."""
        self._actor.hurt()


class ReaderDoor(Door):
    """A reader whose task may die or sleep between two batches, and whose brokers may go.

    As a real one, it gives slices in any order, and ends one in its middle.
    """

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """As the reader's."""
        ended: set[Slice] = set()
        mixed = self._stage.rng.sample(slices, len(slices))
        for batch in self._whole.read(mixed, batch_records):
            self._before("reader.read")
            if batch.slice in ended:
                continue
            if batch.error is None and self._happens(self._stage.odds.reads_end):
                ended.add(batch.slice)
                yield cut_short(batch, self._stage.rng)
            elif batch.slice.is_open and self._happens(self._stage.odds.reads_less):
                ended.add(batch.slice)
                yield less(batch, self._stage.rng)
            else:
                yield batch


def cut_short(batch: SliceBatch, rng: Random) -> SliceBatch:
    """What of a batch came before its broker went."""
    error = error_of(BrokerUnavailable("the simulation's broker goes"))
    offsets = [place_of_row(batch.records, row) for row in range(batch.records.num_rows)]
    rows = rng.randint(0, len(offsets))
    reached = [*offsets, batch.reached][rows]
    return SliceBatch(batch.slice, batch.records.slice(0, rows), reached, True, error)


def less(batch: SliceBatch, rng: Random) -> SliceBatch:
    """A part of a batch with which its slice ends, as its log gave no more in this visit."""
    part = cut_short(batch, rng)
    return replace(part, error=None, behind=Behind(rng.choice([None, 1.0])))


class LogDoor(Door):
    """The log, of which no broker may answer, or not all, or late."""

    def _before(self, what: str) -> None:
        super()._before(what)
        if self._happens(self._stage.odds.log_slow):
            self._stage.dawdle(self._actor, what)
        if self._happens(self._stage.odds.log_fails):
            raise BrokerUnavailable("the simulation's brokers do not answer")

    def _told(self, name: str, answer: Any) -> Any:
        if name == "topics":
            return self._stage.told_topics(self._actor, answer)
        if name == "all_topics":
            return self._stage.told_names(self._actor, answer)
        if not isinstance(answer, dict):
            return answer
        if name == "end_offsets":
            answer = {at: self._stage.believed_end(at, end) for at, end in answer.items()}
        return {at: offset for at, offset in answer.items() if not self._left_out()}

    def _left_out(self) -> bool:
        return self._happens(self._stage.odds.log_partial)


class EngineDoor(Door):
    """A driver's engine, which may have ended."""

    def _before(self, what: str) -> None:
        super()._before(what)
        if what == "engine.finished" and self._happens(self._stage.odds.engine_stops):
            self._actor.hurt()
            raise EngineStopped


class LettersDoor(Door):
    """The dead letters, which may not be kept, or kept late, or kept and nobody hears of it."""

    def keep(self, letters: Sequence[DeadLetter]) -> None:
        """As the port's."""
        self._before("letters.keep")
        if letters and self._happens(self._stage.odds.letters_slow):
            self._stage.dawdle(self._actor, "letters.keep")
        fails = bool(letters) and self._happens(self._stage.odds.letters_fail)
        kept = self._stage.rng.randint(0, len(letters)) if fails else len(letters)
        self._whole.keep(letters[:kept])
        for letter in letters[:kept]:
            self._stage.set_aside(letter)
        self._after("letters.keep")
        if fails:
            self._stage.unkept(self._actor, letters)
            raise BrokerUnavailable("the simulation's dead letters are not kept")

    def ready(self, topic: str) -> bool:
        """As the port's; a letter may have to wait for its topic."""
        ready: bool = self._whole.ready(topic)
        return ready and not self._happens(self._stage.odds.letters_unready)
