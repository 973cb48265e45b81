"""Rows in another database than the store's: exactly-once, by intent.

Store and target may be different servers, so no transaction has both. The wave was written down
before it runs, so whoever runs it again has the very same slices. What is left is to know, then,
what an earlier attempt has done, and to keep out one that lives on.

*What was done* stands in the target: each lane has a note (`marks.py`), written in the transaction
that writes the sink's rows, that says which wave came last, from where to where, under which epoch.
So both are there or neither is. Under this wave's id, or that of a wave it is a part of, it says
that the effect is there already, and how far it came. Under any other id it says nothing of the
kind, since a lane may have been sent back: then the same records come again, as they should.

*Who is kept out*: an attempt first locks the notes of its lanes, so it waits for whoever writes
them. A note of a later holder (a higher epoch) refuses it. Then it writes, and last of all it asks
the store whether its lanes still stand where its slices begin, under its epochs (a move to where
they are); one that woke up after its wave was settled, or its stream was sought, is told no, and
nothing of it is kept. What is left open is the moment between that answer and the commit: a stream
that is sought in it may have the effect of its old slice beside those of the new ones.

A commit whose answer is lost is looked for: the notes are locked once more, which waits
for the lost transaction to end, and tell.

Used without recorded waves (at-least-once, at-most-once), no notes are left or asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from sqlalchemy import Connection

from headrace.connectors.outcomes import failed
from headrace.connectors.sql.marks import LaneKey, Mark, leave, take
from headrace.connectors.sql.servers import Target
from headrace.connectors.sql.writer import SUPERSEDED, SentElsewhereError
from headrace.connectors.standing import gone
from headrace.connectors.wave_marks import done_before, leaves_a_mark
from headrace.errors import TargetMissing
from headrace.model.streams import LaneId
from headrace.ports import Effect, Positions, Site, Written


class Elsewhere:
    """Another database as a place for rows that may come again; see ``writer.Place``."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def begin(self) -> AbstractContextManager[Connection]:
        """A transaction of the target."""
        return self._target.begin()

    def admit(self, connection: Connection, effects: Sequence[Effect]) -> list[Written | None]:
        """All of them: nothing is known of what was written before."""
        return [None] * len(effects)

    def wrote(self, effect: Effect) -> Written:
        """Positions are in another database."""
        return Written()

    def settle(self, connection: Connection, effects: Sequence[Effect]) -> None:
        """Nothing."""

    def is_done(self, connection: Connection, effect: Effect) -> bool:
        """What is there already is told when it is asked to be admitted, if it is known at all."""
        return False


class ElsewhereOnce(Elsewhere):
    """The same for recorded waves, whose effects are there once."""

    def __init__(self, target: Target, site: Site, where: str) -> None:
        super().__init__(target)
        self._positions: Positions = site.positions
        self._wave_id = site.wave_id
        self._installation = site.connections.installation
        self._where = where

    def admit(self, connection: Connection, effects: Sequence[Effect]) -> list[Written | None]:
        """Those that no attempt has written, and no later holder has gone past."""
        lanes = {
            self._key(piece.lane)
            for effect in effects
            if leaves_a_mark(effect)
            for piece in effect.slices
        }
        marks = take(connection, lanes)
        return [self._admitted(effect, marks) for effect in effects]

    def settle(self, connection: Connection, effects: Sequence[Effect]) -> None:
        """Leave the marks; then see that every lane still stands where its slice begins."""
        marking = [effect for effect in effects if leaves_a_mark(effect)]
        leave(
            connection,
            {
                self._key(piece.lane): Mark(piece.epoch, self._wave_id, piece.from_offset, reached)
                for effect in marking
                for piece, reached in zip(effect.slices, effect.reached, strict=True)
            },
        )
        gone = self._gone(marking)
        if gone:
            raise SentElsewhereError(gone)

    def _admitted(self, effect: Effect, marks: dict[LaneKey, Mark]) -> Written | None:
        found = [marks.get(self._key(piece.lane)) for piece in effect.slices]
        done = done_before(found, effect, self._wave_id)
        if done is not None:
            return Written(reached=done)
        known = [mark for mark in found if mark is not None]
        newest = max((mark.epoch for mark in known), default=0)
        if all(piece.epoch >= newest for piece in effect.slices):
            return None
        return self._outdated(effect, newest)

    def _outdated(self, effect: Effect, newest: int) -> Written:
        """A zombie's; or the store forgot epochs that it gave, and then only a person knows."""
        if self._gone([effect]):
            return SUPERSEDED
        piece = effect.slices[0]
        return failed(
            TargetMissing(
                f"{self._where}: it has rows of {piece.lane} under epoch {newest}, and the store "
                f"is at {piece.epoch}: was the store restored from a backup? See that no other "
                "driver writes here, then delete the lane's row of headrace_written"
            )
        )

    def _gone(self, effects: Sequence[Effect]) -> list[Effect]:
        """Effects of which a lane is not where its slice begins, or another's by now."""
        return [effects[index] for index in gone(self._positions, dict(enumerate(effects)))]

    def _key(self, lane: LaneId) -> LaneKey:
        use_case, tenant, name = lane
        return LaneKey(self._installation, use_case, tenant, str(name))
