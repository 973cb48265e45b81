"""Drivers, and what they hold, in memory.

Who may do what is decided here, under one lock: a stream is held by one driver, and a driver is the
last one of its name.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headrace.errors import Fenced
from headrace.model.records import Answer, Peer
from headrace.model.streams import State, StreamId
from headrace.policies.leases import joined
from headrace.policies.restarting import is_left
from headrace.testing.memory_store.data import Data, alone


class MemoryMembership:
    """``headrace.ports.Membership`` in memory."""

    def __init__(self, data: Data) -> None:
        self.data = data

    @alone
    def join(
        self, driver: str, use_cases: Collection[str], *, process: str = "", again: bool = False
    ) -> int:
        """Be this driver from now on; return the number to beat with."""
        before = self.data.processes.get(driver, ()) if driver in self.data.drivers else ()
        processes = joined(before, process, again=again)
        if processes is None:
            raise Fenced(f"another driver named {driver} was started on this store")
        self.data.changed()
        self.data.processes[driver] = processes
        if not again:
            self._note_left_alone(driver)
        number = self.data.revision
        self.data.answers.pop(driver, None)
        known = self.data.drivers.get(driver, Peer(driver, 0, 0, frozenset()))
        self.data.drivers[driver] = Peer(driver, number, known.beats, frozenset(use_cases))
        for wave, of in list(self.data.intents.values()):
            if of is None:
                self.data.intents[wave.id] = (wave, driver)
        held = {
            (stream.holder, stream.id.use_case)
            for stream in self.data.streams.values()
            if stream.state is not State.REMOVED
        }
        held |= {(of, wave.use_case) for wave, of in self.data.intents.values()}
        for lost in {name for name, _ in held if name} - self.data.drivers.keys():
            of_it = frozenset(use_case for name, use_case in held if name == lost)
            self.data.drivers[lost] = Peer(lost, number, 0, of_it)
        return number

    @alone
    def beat(self, driver: str, number: int) -> list[Peer]:
        """Say that it lives; all drivers by name, or none if it was given up for dead."""
        known = self.data.drivers.get(driver)
        if known is None:
            return []
        if known.number != number:
            raise Fenced(f"another driver named {driver} was started on this store")
        self.data.drivers[driver] = replace(known, beats=known.beats + 1)
        return [peer for _, peer in sorted(self.data.drivers.items())]

    @alone
    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand everything of a dead driver to its heir; False if either is not as it was."""
        known = self.data.drivers.get(dead.name)
        self.data.changed()
        if heir == dead.name or not self.data.is_still(heir, number):
            return False
        if known is None or (known.number, known.beats) != (dead.number, dead.beats):
            return False
        self._note_left_alone(dead.name)
        self._give(dead.name, heir)
        for wave, of in list(self.data.intents.values()):
            if of == dead.name:
                self.data.intents[wave.id] = (wave, heir)
        self._forget(dead.name)
        return True

    @alone
    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams of a driver free for others."""
        self.data.changed()
        waves = (wave for wave, of in self.data.intents.values() if of == driver)
        owed = {piece.lane.stream for wave in waves for piece in wave.slices}
        if self.data.is_still(driver, number):
            self._give(driver, None, set(streams) - owed)

    @alone
    def leave(self, driver: str, number: int, running: Collection[StreamId] = ()) -> None:
        """Give everything back and be gone, but for what is running or unfinished."""
        self.data.changed()
        if not self.data.is_still(driver, number):
            return
        waves = (wave for wave, of in self.data.intents.values() if of == driver)
        owed = {piece.lane.stream for wave in waves for piece in wave.slices}
        held = {one.id for one in self.data.streams.values() if one.holder == driver}
        still = held.intersection(running)
        self._give(driver, None, self.data.streams.keys() - owed - still)
        self.data.in_good_order |= owed & held - still
        if owed or still:
            self.data.drivers[driver] = replace(self.data.drivers[driver], beats=0)
        else:
            self._forget(driver)

    @alone
    def drivers(self) -> list[Peer]:
        """All drivers, by name."""
        return [peer for _, peer in sorted(self.data.drivers.items())]

    @alone
    def hold(
        self,
        streams: Collection[StreamId],
        driver: str | None = None,
        number: int | None = None,
    ) -> dict[StreamId, int]:
        """Take the streams that no other driver holds; return their new epochs."""
        if driver and number is not None and not self.data.is_still(driver, number):
            return {}
        found = [self.data.stream(stream) for stream in sorted(set(streams))]
        epochs = {}
        for stream in found:
            if stream.holder in (None, driver):
                epoch = epochs[stream.id] = stream.epoch + 1
                if stream.holder is None or stream.id in self.data.in_good_order:
                    self.data.expect(stream.id)
                self.data.in_good_order.discard(stream.id)
                self.data.set_stream(stream.id, epoch=epoch, holder=driver)
                lanes = self.data.positions[stream.id]
                for name, position in lanes.items():
                    lanes[name] = replace(position, epoch=epoch)
        return epochs

    @alone
    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments; False if it is not there."""
        if not self.data.is_still(driver, number):
            return False
        self.data.answers[driver] = list(given)
        return True

    @alone
    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""
        found = (answer for answers in self.data.answers.values() for answer in answers)
        return sorted(found, key=lambda answer: (answer.use_case, answer.driver))

    def _note_left_alone(self, holder: str) -> None:
        """Note which streams were left alone that a driver holds and did not give back."""
        for stream in list(self.data.streams.values()):
            deployed = self.data.deployments[stream.id.use_case]
            states = stream.state, self.data.tenants[stream.id.tenant].state
            moved_s = self.data.moved_s.get(stream.id)
            silent_s = None if moved_s is None else self.data.now_s() - moved_s
            if (
                stream.holder == holder
                and stream.id not in self.data.in_good_order
                and states == (State.ACTIVE, State.ACTIVE)
                and self.data.positions[stream.id]
                and is_left(silent_s, deployed.restart)
            ):
                self.data.set_stream(stream.id, silent_s=silent_s)

    def _give(
        self, driver: str, to: str | None, streams: Collection[StreamId] | None = None
    ) -> None:
        for stream in list(self.data.streams.values()):
            if stream.holder == driver and (streams is None or stream.id in streams):
                self.data.set_stream(stream.id, holder=to)

    def _forget(self, driver: str) -> None:
        self.data.answers.pop(driver, None)
        del self.data.drivers[driver]
