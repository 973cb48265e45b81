"""Which streams were left alone in a run, known without asking the store for its own note of it.

It is told who took and gave back which streams, and when lanes were moved, in the moment in which
the store has it. So it knows which streams a driver held that is gone, and for how long nobody had
moved any lane of them since somebody was to: since they were taken while they were free, or a
person let them go on. Only these may pass over what is too old, once for each time; and nothing
new of them may be planned before that was decided.

What holds a lane is looked at in the moment before it is passed over, as the decision ends that: a
record that stops it, or what it follows, and slices of its stream that are to run again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.buckets import whole_lane
from headrace.model.lineage import followers
from headrace.model.places import OPEN, Place
from headrace.model.records import FailureState, Move
from headrace.model.restarts import Restart
from headrace.model.streams import LaneId, State, StreamId
from headrace.ports import Log, Store
from headrace.testing.clock import FakeClock


@dataclass(eq=False, slots=True)
class LeftAlone:
    """Who holds what, when it was moved, and what was left alone."""

    store: Store
    clock: FakeClock
    #: streams of which it is to be decided where they go on
    left: set[StreamId] = field(default_factory=set)
    _holders: dict[StreamId, str] = field(default_factory=dict)
    _moved_s: dict[StreamId, float] = field(default_factory=dict)
    _expected_s: dict[StreamId, float] = field(default_factory=dict)
    #: of the stream that passes over now: lanes that are stopped, and what follows them
    _stopped: set[LaneId] = field(default_factory=set)
    _following: set[LaneId] = field(default_factory=set)
    #: where its recorded slices are due
    _owed: list[LaneId] = field(default_factory=list)

    def moved(self, stream: StreamId) -> None:
        """A lane of it was moved, by work or by decision."""
        self._moved_s[stream] = self.clock.monotonic_s()

    def resumed(self, stream: StreamId) -> None:
        """A person lets it go on."""
        self._expected_s[stream] = self.clock.monotonic_s()

    def tenant_resumed(self, tenant: str) -> None:
        """A person lets a tenant go on."""
        for stream in self.store.registry.streams():
            if stream.id.tenant == tenant:
                self.resumed(stream.id)

    def held(self, driver: str, streams: Collection[StreamId]) -> None:
        """A driver has taken streams."""
        for stream in set(streams) - self._holders.keys():
            self._expected_s[stream] = self.clock.monotonic_s()
        self._holders |= dict.fromkeys(streams, driver)

    def given_back(self, driver: str) -> None:
        """A driver has given back some of its streams."""
        free = {stream.id for stream in self.store.registry.streams() if stream.holder is None}
        for stream in self._held_by(driver) & free:
            del self._holders[stream]

    def has_left(self, driver: str, number: int, running: Collection[StreamId]) -> None:
        """A driver has left in good order all but what still runs, unless it was replaced."""
        numbers = {peer.name: peer.number for peer in self.store.membership.drivers()}
        if numbers.get(driver, number) == number:
            for stream in self._held_by(driver).difference(running):
                del self._holders[stream]

    def is_gone(self, driver: str, heir: str) -> None:
        """Another process has what a driver did not give back."""
        now_s, states = self.clock.monotonic_s(), self._states()
        for stream in self._held_by(driver):
            self._holders[stream] = heir
            restart, is_active = states.get(stream, (None, False))
            since_s = max(self._moved_s.get(stream, now_s), self._expected_s.get(stream, 0.0))
            silent_s = now_s - since_s
            if restart is not None and is_active and silent_s >= restart.after_s:
                self.left.add(stream)

    def decided(self, stream: StreamId) -> None:
        """It is decided where it goes on."""
        self.left.discard(stream)

    def added_again(self, stream: StreamId) -> None:
        """It has no lanes, and so nothing to pass over, until somebody begins them."""
        self.left.discard(stream)
        self._moved_s.pop(stream, None)
        self._holders.pop(stream, None)

    def is_to_pass_over(self, stream: StreamId) -> None:
        """A stream passes over what is too old in the next moment."""
        progress = self.store.progress
        positions = {at.lane: at for at in progress.load_positions([stream])}
        lineage = {lane.name: at.parents for lane, at in positions.items()}
        self._stopped = {
            failure.slice.lane
            for failure in self.store.failures.every(stream)
            if failure.state is FailureState.OPEN
        }
        behind = followers({lane.name for lane in self._stopped}, lineage)
        self._following = {LaneId(*stream, name) for name in behind}
        pieces = (piece for wave in progress.pending_intents() for piece in wave.slices)
        self._owed = [
            piece.lane
            for piece in pieces
            if piece.lane in positions and positions[piece.lane].next_offset == piece.from_offset
        ]

    def held_back(self, moves: Sequence[Move], *, merged: bool) -> list[str]:
        """What of these moves passes over where something stands against it.

        Args:
            moves: of the stream of which it was told last that it is to pass over.
            merged: its lanes go on together, or none does.
        """
        lanes = [move.lane for move in moves]
        found = [f"{lane} passes over what was recorded of it" for lane in self._owed]
        found += [
            f"{lane} passes over the record that it is stopped at"
            for lane in lanes
            if lane in self._stopped
        ]
        found += [
            f"{lane} passes over records, and follows what is stopped"
            for lane in lanes
            if lane in self._following
        ]
        if merged and self._stopped:
            found.append(f"{lanes[0].stream} passes over records, and one of its lanes is stopped")
        return found

    def too_soon(
        self, stream: StreamId, moves: Sequence[Move], misled: Mapping[str, Place], log: Log
    ) -> list[str]:
        """What of these moves passes over what is not old enough.

        It was decided before, so by now all that it may pass over is older still.

        Args:
            stream: that goes on.
            moves: of its lanes, which are in the log.
            misled: where others of its lanes are whose leaders may have told a low end; what waits
                there counts, though such a lane may have gone nowhere.
            log: with its records, if it answers.
        """
        restart, _ = self._states()[stream]
        if restart is None:
            return [f"{stream} passes over records, and its use case does not want that"]
        firsts = [(whole_lane(move.lane.name), move.from_offset) for move in moves]
        firsts += [(whole_lane(name), at) for name, at in misled.items()]
        now_s, lanes = self.clock.now_s(), {name for name, _ in firsts}
        starts, waited = log.start_offsets(lanes), log.offsets_at(lanes, now_s - restart.after_s)
        found = []
        told, moved = starts.keys() & waited.keys(), {whole_lane(move.lane.name) for move in moves}
        if told >= moved and not any(
            max(first, starts[name]) < waited[name] for name, first in firsts if name in told
        ):
            found.append(f"{stream} passes over records that have not waited")
        if restart.max_age_s is not None:
            fresh = log.offsets_at(lanes, now_s - restart.max_age_s)
            found += [
                f"{move.lane} passes over records that are not too old"
                for move in moves
                if move.to_offset > fresh.get(whole_lane(move.lane.name), OPEN)
            ]
        return found

    def _held_by(self, driver: str) -> set[StreamId]:
        return {stream for stream, holder in self._holders.items() if holder == driver}

    def _states(self) -> dict[StreamId, tuple[Restart | None, bool]]:
        """What may become of each stream, and whether it is active."""
        registry = self.store.registry
        says = {deployment.use_case: deployment.restart for deployment in registry.deployments()}
        going = {tenant.name for tenant in registry.tenants() if tenant.state is State.ACTIVE}
        return {
            stream.id: (
                says[stream.id.use_case],
                stream.state is State.ACTIVE and stream.id.tenant in going,
            )
            for stream in registry.streams()
        }
