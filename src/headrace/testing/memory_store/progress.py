"""Where lanes are by decision, and the waves that were written down, in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headrace.errors import lanes_divided, stream_removed
from headrace.model.buckets import divided_otherwise
from headrace.model.lineage import Lineage, depths, is_undecided
from headrace.model.places import Place
from headrace.model.records import Failure, FailureState, LaneStart, Move
from headrace.model.streams import PassedRange, Position, Slice, State, StreamId, ids_left, original
from headrace.model.topic_lists import id_without, is_another, is_of, others
from headrace.model.waves import Wave
from headrace.ports import Finished
from headrace.testing.memory_store import recorded
from headrace.testing.memory_store.data import Data, alone
from headrace.testing.memory_store.positions import MemoryPositions


class MemoryProgress:
    """``headrace.ports.Progress`` in memory."""

    def __init__(self, data: Data) -> None:
        self.data = data

    @alone
    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions, of all streams or of some."""
        wanted = self.data.streams if streams is None else set(streams)
        for name in wanted:
            self.data.stream(name)
        return [
            position
            for stream in sorted(wanted)
            for _, position in sorted(self.data.positions[stream].items())
        ]

    @alone
    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs."""
        for start in starts:
            self.data.stream(start.stream)
        for start in starts:
            if self.data.stream(start.stream).topic_id not in (
                start.known_id,
                start.topic_id,
                None,
            ) or start.epoch not in (self.data.stream(start.stream).epoch, None):
                continue
            known = self.data.stream(start.stream)
            if start.begins and (known.topic_id is not None or known.begun_without_topic):
                continue
            if start.topic_id is None:
                self.data.set_stream(start.stream, begun_without_topic=True)
                continue
            self._be_of(start.stream, start.topic_id)
            lanes = self.data.positions[start.stream]
            early = {name for name, of in start.parents.items() if is_undecided(of, lanes)}
            new = {
                name: at for name, at in start.offsets.items() if name not in lanes.keys() | early
            }
            self.data.put(start.stream, new, start.parents, deeper=start.deeper)
            followed = {name: start.parents[name] for name in new if name in start.parents}
            self.data.follow(start.stream, followed)

    @alone
    def forget_lanes(
        self,
        stream: StreamId,
        names: Collection[str],
        epoch: int,
        topics: Collection[str] = (),
    ) -> bool:
        """Forget lanes that are done and that their log does not list any more."""
        known = self.data.stream(stream)
        if known.epoch != epoch:
            return False
        if topics and known.topic_id is not None:
            self.data.set_stream(stream, topic_id=id_without(known.topic_id, topics))
        if topics:
            self.data.leave_behind(stream, names)
        self.data.forget(stream, names)
        self.data.expect(stream)
        return True

    @alone
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
        """Set positions, whatever they were, and the topic's id, or none."""
        known = self.data.stream(stream)
        if known.state is State.REMOVED:
            raise stream_removed(stream.tenant, stream.use_case)
        there = self.data.positions[stream].keys() - set(gone)
        if divided_otherwise(offsets, there):
            raise lanes_divided(stream.tenant, stream.use_case)
        other = others(known.topic_id, topic_id)
        self.data.state.sent(
            stream,
            {name: self.data.positions[stream][name].next_offset for name in there},
            offsets,
            other,
            forget=forget_state,
        )
        self.data.changed()
        recorded.leave_reads_behind(self.data, stream)
        self._turn_to(stream, topic_id, known.epoch + 1)
        if offsets:
            self.data.set_stream(stream, silent_s=None)
        self.data.deepen(stream)
        self.data.failures.release(stream, {*offsets, *gone})
        before = {name: at.next_offset for name, at in self.data.positions[stream].items()}
        self.data.put(stream, offsets, parents)
        self.data.passed_over(stream, dict.fromkeys(offsets))
        self._turned(stream, parents, gone, offsets)
        turned = gone or any(before.get(name) != offset for name, offset in offsets.items())
        recorded.leave_behind(self.data, stream, merged=bool(turned))

    @alone
    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
        parents: Lineage | None = None,
        gone: Collection[str] = (),
    ) -> int | None:
        """Let lanes of a stream go on behind what the log no longer has: all of them or none."""
        known, lanes = self.data.stream(stream), self.data.positions.get(stream, {})
        places = [(lanes.get(move.lane.name), move) for move in moves]
        there = all(at is not None and self.data.matches(at, move) for at, move in places)
        epochs = {move.epoch for move in moves} | {note.slice.epoch for note in failures}
        if known.state is State.REMOVED or epochs != {known.epoch} or not there:
            return None
        self.data.changed()
        recorded.leave_reads_behind(self.data, stream)
        back = any(move.to_offset < move.from_offset for move in moves)
        if gone or back or is_another(known.topic_id, topic_id):
            self.data.deepen(stream)
        self._turn_to(stream, topic_id, known.epoch + 1)
        self.data.put(stream, {move.lane.name: move.to_offset for move in moves})
        ranges = {
            move.lane.name: PassedRange(_untold_from(at, move), move.to_offset)
            for at, move in places
            if move.to_offset > move.from_offset
        }
        other = others(known.topic_id, topic_id)
        gone_by = dict.fromkeys(move.lane.name for move in moves if is_of(move.lane.name, other))
        self.data.passed_over(stream, ranges | gone_by)
        gone_with = FailureState.SKIPPED
        self.data.failures.release(stream, {move.lane.name for move in moves}, gone_with)
        self._turned(stream, parents, gone, [move.lane.name for move in moves])
        recorded.leave_behind(self.data, stream, merged=back, moves=moves)
        for failure in failures:
            self.data.failures.note(failure)
        return known.epoch + 1

    @alone
    def pass_over(
        self, stream: StreamId, moves: Sequence[Move], failures: Sequence[Failure]
    ) -> int | None:
        """Let lanes of a stream that was left alone go on behind what is too old."""
        topic_id = self.data.stream(stream).topic_id
        epoch = None if topic_id is None else self.skip_lost(stream, moves, failures, topic_id)
        if epoch is not None:
            self.data.set_stream(stream, silent_s=None)
        return epoch

    @alone
    def stay(self, stream: StreamId, epoch: int) -> bool:
        """Let a stream that was left alone go on where it is."""
        if self.data.stream(stream).epoch != epoch:
            return False
        self.data.set_stream(stream, silent_s=None)
        return True

    @alone
    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down, if its streams are held; the same wave twice is once."""
        there = (self.data.stream(piece.lane.stream).state for piece in wave.slices)
        if driver is not None and (State.REMOVED in there or not self._holds(driver, wave)):
            return False
        known, _ = self.data.intents.setdefault(wave.id, (wave, driver))
        assert known == wave, f"wave {wave.id} is written down with other slices"
        return True

    @alone
    def take_turn(self, going: Wave, tenants: Sequence[str], driver: str) -> bool:
        """Write down for which tenants of a recorded wave its next call is."""
        known, of = self.data.intents.get(going.id, (None, None))
        if known is None or of != driver or not self._holds(driver, going):
            return False
        self.data.intents[going.id] = (replace(known, turn=tuple(tenants)), of)
        return True

    def _holds(self, driver: str, wave: Wave) -> bool:
        """Whether a driver holds all streams of a wave."""
        streams = ((self.data.stream(piece.lane.stream), piece.epoch) for piece in wave.slices)
        return all((stream.holder, stream.epoch) == (driver, epoch) for stream, epoch in streams)

    @alone
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
        """Move positions, and keep what is still to do of the wave."""
        moved = MemoryPositions(self.data).advance(moves)
        done = {(move.lane, move.from_offset) for move, ok in zip(moves, moved, strict=True) if ok}
        recorded.take(self.data, wave_id, done)
        recorded.settle(self.data, wave_id, driver, over, nothing, parts)
        names = {wave_id, *(part.id for part in parts)}
        waves = self.data.intents.items()
        return Finished(moved, [w for n, (w, of) in waves if n in names and driver in (None, of)])

    @alone
    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, of one driver or of all; oldest first."""
        return [wave for wave, of in self.data.intents.values() if driver in (None, of)]

    def _turned(
        self,
        stream: StreamId,
        parents: Lineage | None,
        gone: Collection[str],
        sent: Collection[str],
    ) -> None:
        """Let lanes be no more, and the others follow these, if it is said what they follow."""
        self.data.forget(stream, gone)
        if parents is not None:
            lanes = self.data.positions.get(stream, {})
            self.data.follow(
                stream, {name: parents.get(name, ()) for name in lanes.keys() & {*parents, *sent}}
            )
            if original(stream.use_case) != stream.use_case:
                return  # as deep as what it reads again
            followed = {name: at.parents for name, at in lanes.items() if at.parents}
            deep = depths(lanes, followed, {}, self.data.depths.get(stream, 0))
            for name, position in lanes.items():
                lanes[name] = replace(position, depth=deep[name])

    def _be_of(self, stream: StreamId, topic_id: str | None) -> None:
        """Let a stream be of this topic, and keep which it was of."""
        known = self.data.stream(stream)
        left = ids_left(known.left_ids, known.topic_id, topic_id)
        self.data.set_stream(stream, topic_id=topic_id, left_ids=left)

    def _turn_to(self, stream: StreamId, topic_id: str | None, epoch: int) -> None:
        """Let a stream be of this topic, and all its lanes under this epoch.

        What was recorded of another topic is forgotten.
        """
        was = self.data.stream(stream).topic_id
        if other := others(was, topic_id):
            recorded.forget(self.data, stream, other)
        self._be_of(stream, topic_id)
        self.data.set_stream(stream, epoch=epoch)
        lanes = self.data.positions.get(stream, {})
        self.data.put(stream, {name: at.next_offset for name, at in lanes.items()})


def _untold_from(at: Position | None, move: Move) -> Place:
    """Where begins what nobody was told yet that it was passed over."""
    return (
        move.from_offset if at is None or at.passed_range is None else at.passed_range.from_offset
    )
