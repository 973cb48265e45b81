"""Positions by decision, and intents: each method a transaction around a function of the room."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headrace.model.lineage import Lineage
from headrace.model.places import Place
from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import Position, Slice, StreamId
from headrace.model.waves import Wave
from headrace.ports import Finished
from headrace.store import intents, lanes, left_alone, lost, reads
from headrace.store import parents as lineage
from headrace.store.database import Database
from headrace.store.revision import changing


class SqlProgress:
    """``headrace.ports.Progress`` on SQLite or PostgreSQL. Safe in several threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions by lane, of all streams or of some."""
        with self._database.read() as connection:
            return lanes.load(connection, streams)

    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs."""
        with self._database.write() as connection:
            # In one order for everybody, so that two drivers cannot wait for each other.
            for lane_start in sorted(starts, key=lambda start: start.stream):
                lanes.start(connection, lane_start)

    def forget_lanes(
        self,
        stream: StreamId,
        names: Collection[str],
        epoch: int,
        topics: Collection[str] = (),
    ) -> bool:
        """Forget lanes that are done and that their log does not list any more."""
        with self._database.write() as connection:
            return lanes.forget(connection, stream, names, epoch, topics)

    def seek(
        self,
        stream: StreamId,
        offsets: Mapping[str, Place],
        topic_id: str | None = None,
        parents: Lineage | None = None,
        gone: Collection[str] = (),
        *,
        forget_state: bool = False,
    ) -> None:
        """Set positions, and the id of the topic they are in, under a new epoch."""
        with changing(self._database) as connection:
            turned = lanes.seek(
                connection, stream, offsets, topic_id, parents, gone, forget_state=forget_state
            )
            lineage.decide(connection, stream, parents, gone, offsets.keys())
            intents.leave_behind(connection, stream, merged=turned or bool(gone))

    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
        parents: Lineage | None = None,
        gone: Collection[str] = (),
    ) -> int | None:
        """Go on behind what Kafka no longer has; return the new epoch, or None if refused."""
        with changing(self._database) as connection:
            epoch = lost.skip(connection, stream, moves, failures, topic_id, anew=bool(gone))
            if epoch is not None:
                sent = {move.lane.name for move in moves}
                lineage.decide(connection, stream, parents, gone, sent)
                back = any(move.to_offset < move.from_offset for move in moves)
                intents.leave_behind(connection, stream, merged=back, moves=moves)
            return epoch

    def pass_over(
        self, stream: StreamId, moves: Sequence[Move], failures: Sequence[Failure]
    ) -> int | None:
        """Go on behind what is too old; return the new epoch, or None if refused."""
        with changing(self._database) as connection:
            epoch = lost.skip(connection, stream, moves, failures, None)
            if epoch is not None:
                sent = {move.lane.name for move in moves}
                lineage.decide(connection, stream, None, (), sent)
                intents.leave_behind(connection, stream, merged=False)
                left_alone.forget(connection, stream, epoch)
            return epoch

    def stay(self, stream: StreamId, epoch: int) -> bool:
        """Let a stream that was left alone go on where it is."""
        with self._database.write() as connection:
            return left_alone.forget(connection, stream, epoch)

    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down before it runs; the same wave twice is once."""
        with self._database.write() as connection:
            return intents.record(connection, wave, driver)

    def take_turn(self, going: Wave, tenants: Sequence[str], driver: str) -> bool:
        """Write down for which tenants of a recorded wave its next call is."""
        with self._database.write() as connection:
            return intents.take_turn(connection, going, tenants, driver)

    def finish_intent(
        self,
        wave_id: str,
        moves: Sequence[Move],
        driver: str | None = None,
        *,
        over: Collection[Slice] = (),
        nothing: Collection[Slice] = (),
        parts: Sequence[Wave] = (),
    ) -> Finished:
        """Move positions, and keep what is still to do of the wave, in one transaction."""
        with self._database.write() as connection:
            reads.forget(connection, over)
            return intents.finish(connection, wave_id, moves, driver, [*over, *nothing], parts)

    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, of one driver or of all; oldest first."""
        if driver is None:
            with self._database.read() as connection:
                return intents.pending(connection)
        with self._database.write() as connection:
            return intents.settled(connection, driver)
