"""Drivers, what they hold, and the waves they wrote down: a part of the store's twin.

Who may do what is decided here, under one lock: a stream is held by one driver, a driver is the
last one of its name, and a wave is written down by who holds its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from headrace.errors import Fenced, UnknownName
from headrace.model.records import Answer, Move, Peer
from headrace.model.streams import LaneId, Slice, State, Stream, StreamId
from headrace.model.waves import Wave
from headrace.ports import Finished
from headrace.testing.statistics_twin import StatisticsTwin
from headrace.testing.store_twin_keys import AuditTwin, KeysTwin
from headrace.testing.store_twin_positions import Data, PositionsTwin

_S = TypeVar("_S", bound="DriversTwin")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def alone(
    method: Callable[Concatenate[_S, _P], _R],
) -> Callable[Concatenate[_S, _P], _R]:
    """The method, with nobody else inside meanwhile."""

    @wraps(method)
    def locked(self: _S, *args: _P.args, **options: _P.kwargs) -> _R:
        with self.data.lock:
            return method(self, *args, **options)

    return cast("Callable[Concatenate[_S, _P], _R]", locked)


class DriversTwin:
    """The promises about drivers; ``StoreTwin`` has them all.

    Attributes:
        data: what it holds; give it to another twin to have a second connection to it.
        positions: the compare-and-set.
        keys: the API keys.
        audit: what was changed by HTTP.
        statistics: what drivers told.
    """

    def __init__(self, data: Data | None = None) -> None:
        self.data = data or Data()
        self.positions = PositionsTwin(self.data)
        self.keys = KeysTwin(self.data)
        self.audit = AuditTwin(self.data)
        self.statistics = StatisticsTwin(self.data.told)

    # drivers

    @alone
    def join(self, driver: str, use_cases: Collection[str]) -> int:
        """Be this driver from now on; return the number to beat with."""
        self._changed()
        number = self.data.revision
        self.data.answers.pop(driver, None)
        known = self.data.drivers.get(driver, Peer(driver, 0, 0, frozenset()))
        self.data.drivers[driver] = Peer(driver, number, known.beats, frozenset(use_cases))
        for wave, of in list(self.data.intents.values()):
            if of is None:
                self.data.intents[wave.id] = (wave, driver)
        held = {
            (each.holder, each.id.use_case)
            for each in self.data.streams.values()
            if each.state is not State.REMOVED
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
        return [each for _, each in sorted(self.data.drivers.items())]

    @alone
    def adopt(self, heir: str, number: int, dead: Peer) -> bool:
        """Hand everything of a dead driver to its heir; False if either is not as it was."""
        known = self.data.drivers.get(dead.name)
        self._changed()
        if heir == dead.name or not self._is_still(heir, number):
            return False
        if known is None or (known.number, known.beats) != (dead.number, dead.beats):
            return False
        self._give(dead.name, heir)
        for wave, of in list(self.data.intents.values()):
            if of == dead.name:
                self.data.intents[wave.id] = (wave, heir)
        self._forget(dead.name)
        return True

    @alone
    def release(self, driver: str, number: int, streams: Collection[StreamId]) -> None:
        """Make streams of a driver free for others."""
        self._changed()
        if self._is_still(driver, number):
            self._give(driver, None, streams)

    @alone
    def leave(self, driver: str, number: int) -> None:
        """Give everything back and be gone, unless waves that it wrote down are unfinished."""
        self._changed()
        owes = any(of == driver for _, of in self.data.intents.values())
        if self._is_still(driver, number) and not owes:
            self._give(driver, None)
            self._forget(driver)

    @alone
    def drivers(self) -> list[Peer]:
        """All drivers, by name."""
        return [each for _, each in sorted(self.data.drivers.items())]

    @alone
    def answer(self, driver: str, number: int, given: Collection[Answer]) -> bool:
        """Let these be all that a driver says to deployments; False if it is not there."""
        if not self._is_still(driver, number):
            return False
        self.data.answers[driver] = list(given)
        return True

    @alone
    def answers(self) -> list[Answer]:
        """What drivers say to deployments, by use case and driver."""
        found = (each for given in self.data.answers.values() for each in given)
        return sorted(found, key=lambda each: (each.use_case, each.driver))

    @alone
    def hold(
        self,
        streams: Collection[StreamId],
        driver: str | None = None,
        number: int | None = None,
    ) -> dict[StreamId, int]:
        """Take the streams that no other driver holds; return their new epochs."""
        if driver and number is not None and not self._is_still(driver, number):
            return {}
        found = [self._stream(each) for each in sorted(set(streams))]
        epochs = {}
        for each in found:
            if each.holder in (None, driver):
                epoch = epochs[each.id] = each.epoch + 1
                self._set_stream(each.id, epoch=epoch, holder=driver)
                lanes = self.data.positions[each.id]
                for partition, position in lanes.items():
                    lanes[partition] = replace(position, epoch=epoch)
        return epochs

    # intents

    @alone
    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down, if its streams are held; the same wave twice is once."""
        if driver is not None:
            for piece in wave.slices:
                stream = self._stream(piece.lane.stream)
                if (stream.holder, stream.epoch) != (driver, piece.epoch):
                    return False
        known, _ = self.data.intents.setdefault(wave.id, (wave, driver))
        assert known == wave, f"wave {wave.id} is written down with other slices"
        return True

    @alone
    def finish_intent(
        self,
        wave_id: str,
        moves: Sequence[Move],
        driver: str | None = None,
        *,
        over: Collection[Slice] = (),
        parts: Sequence[Wave] = (),
    ) -> Finished:
        """Move positions, and keep what is still to do of the wave."""
        moved = self.positions.advance(moves)
        known, of = self.data.intents.get(wave_id, (None, None))
        if known is not None and driver in (None, of):
            written = {piece.begin for piece in known.slices}
            theirs = (part.only(lambda piece: piece.begin in written) for part in parts)
            kept = [part for part in theirs if part.bins and all(map(self._is_ours, part.slices))]
            parted = {piece.begin for part in kept for piece in part.slices}
            nothing = {(*piece.begin, piece.epoch) for piece in over}
            left = known.only(
                lambda piece: self._is_due(piece, nothing) and piece.begin not in parted
            )
            self.data.intents[wave_id] = (left, of)
            if not left.bins:
                del self.data.intents[wave_id]
            self.data.intents |= {part.id: (part, driver) for part in kept}
        names = {wave_id, *(part.id for part in parts)}
        waves = self.data.intents.items()
        return Finished(moved, [w for n, (w, of) in waves if n in names and driver in (None, of)])

    def _forget_recorded(self, stream: StreamId) -> None:
        """Forget what was recorded of a stream: its offsets are of another topic from now on."""
        left = {
            name: (wave.only(lambda piece: piece.lane.stream != stream), of)
            for name, (wave, of) in self.data.intents.items()
        }
        self.data.intents = {name: each for name, each in left.items() if each[0].bins}

    def _is_ours(self, piece: Slice) -> bool:
        """Whether who names a slice has its lane, or nobody waits there any more."""
        epoch = self._epoch_at(piece)
        return epoch is None or epoch == piece.epoch

    def _is_due(self, piece: Slice, nothing: set[tuple[LaneId, int, int]]) -> bool:
        epoch = self._epoch_at(piece)
        return epoch is not None and (*piece.begin, epoch) not in nothing

    def _epoch_at(self, piece: Slice) -> int | None:
        """The epoch of its lane, if that stands where the slice begins."""
        position = self.data.positions[piece.lane.stream].get(piece.lane.partition)
        if position is None or position.next_offset != piece.from_offset:
            return None
        return position.epoch

    @alone
    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, of one driver or of all; oldest first."""
        return [wave for wave, of in self.data.intents.values() if driver in (None, of)]

    # what the twin's methods share

    def _changed(self) -> None:
        self.data.revision += 1

    def _forget(self, driver: str) -> None:
        self.data.answers.pop(driver, None)
        del self.data.drivers[driver]

    def _is_still(self, driver: str, number: int) -> bool:
        known = self.data.drivers.get(driver)
        return known is not None and known.number == number

    def _stream(self, stream: StreamId) -> Stream:
        known = self.data.streams.get(stream)
        if known is None:
            raise UnknownName(f"there is no stream {stream}; 'headrace streams list' shows them")
        return known

    def _set_stream(self, stream: StreamId, **values: Any) -> None:
        self.data.streams[stream] = replace(self.data.streams[stream], **values)

    def _give(
        self, driver: str, to: str | None, streams: Collection[StreamId] | None = None
    ) -> None:
        for each in list(self.data.streams.values()):
            if each.holder == driver and (streams is None or each.id in streams):
                self._set_stream(each.id, holder=to)
