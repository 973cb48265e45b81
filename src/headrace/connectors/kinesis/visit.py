"""One slice of a shard: which records it has, how far it came, and what is behind that.

An open slice takes what a few answers have, as the shard gives five of them a second to all who
read it. It ends where it has as much as it may, where its shard has nothing more, or where the
shard gives no more for now; and where all of that was empty it says how far it looked, so that the
next one goes on there. At the end of a quiet shard the place stays as it is for minutes: each that
moves is a commit.

A slice that somebody else read before has known ends, and all of it is read, however long the
shard lets wait.

Wholes of many records are taken apart here. One that is broken ends a slice with an error that has
its bytes; one that another shard's records are in is passed over, since its sender sends these
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog

from headrace.connectors.kinesis.aggregated import (
    Broken,
    Part,
    are_at_home,
    is_aggregated,
    taken_apart,
)
from headrace.connectors.kinesis.client import SPENT_S, Spent
from headrace.connectors.kinesis.notes import Note
from headrace.connectors.kinesis.spots import END, Spot, before, has_room, passed, spot_of
from headrace.connectors.kinesis.streams import Streams
from headrace.connectors.kinesis.walk import MOST_RECORDS, Came, Record, Walk
from headrace.errors import (
    HeadraceError,
    OffsetOutOfRange,
    RecordUnreadable,
    Temporary,
    code_of,
    text_of,
)
from headrace.model.places import Place
from headrace.model.receipts import Behind, SliceError
from headrace.model.streams import Slice

log = structlog.get_logger(__name__)

#: what a shard gives in a second to all who read it
_ANSWERS_PER_S, _BYTES_PER_S = 5, 2 * 1024 * 1024
#: answers of a visit: those of others are to find room in the same second
_MOST_ANSWERS = 2
#: of a slice that was read before; most of these are pauses
_ALL_ANSWERS = 60
#: how long an empty shard's place stays as it is
_STAYS_MS = 600_000


class Row(NamedTuple):
    """A record as it is handed out."""

    place: Place
    came_ms: int
    key: str
    data: bytes


@dataclass(slots=True)
class Visit:
    """Reads a slice."""

    slice: Slice
    walk: Walk
    streams: Streams
    #: lets seconds pass
    pause: Callable[[float], None]
    rows: list[Row] = field(default_factory=list)
    #: all before it was taken, or is not there
    reached: Place = field(init=False)
    behind: Behind | None = None
    error: SliceError | None = None
    #: of a record that is to blame: the place behind it
    past: Place | None = None
    #: seconds in which it did nothing but wait for answers
    waited_s: float = 0.0
    _bytes: int = 0
    #: answers that were asked for, and the bytes that they had
    _asked: int = 0
    _gave: int = 0
    #: the highest number whose record was passed
    _passed: int = -1
    _is_over: bool = False

    def __post_init__(self) -> None:
        """Begin where the slice does."""
        self.reached = self.slice.from_offset

    def read(self) -> None:
        """Read all of it."""
        try:
            self._read()
        except HeadraceError as error:
            self._fail(error)
        if self.behind is not None:
            spent_s = max(self._asked / _ANSWERS_PER_S, self._gave / _BYTES_PER_S)
            self.behind = self.behind._replace(spent_s=spent_s)

    @property
    def note(self) -> str:
        """What the next visit can go on with, if it begins where this one came to."""
        whole = self.error is None and self.behind is not None and not self._is_over
        if not whole or self.walk.iterator is None:
            return ""
        return Note(self.walk.iterator, self.walk.unread_ms, self._waits).at(self.reached)

    def _read(self) -> None:
        last = None
        for last in self._answers():
            for record in last.records:
                self._look_at(record, last)
                if self._is_over:
                    return
        self._end(last)

    def _answers(self) -> Iterator[Came]:
        """Answers until there is nothing more, or enough for now."""
        for _ in range(_MOST_ANSWERS if self.slice.is_open else _ALL_ANSWERS):
            try:
                came = self._next()
            except Spent:
                if self.slice.is_open:
                    return
                self.pause(SPENT_S)
                continue
            self._gave += sum(len(one.data) + len(one.key.encode()) for one in came.records)
            yield came
            if came.caught_up or self._left() <= 0 or self._may_lose():
                return

    def _next(self) -> Came:
        self._asked += 1
        began_s = self.streams.clock.monotonic_s()
        try:
            return self.walk.next(self._left())
        finally:
            self.waited_s += self.streams.clock.monotonic_s() - began_s

    def _may_lose(self) -> bool:
        """Whether what is next may be gone by the next answer, so it is looked for by its place."""
        is_open = self.slice.is_open and not self._waits
        return is_open and not self.walk.is_young(self.walk.unread_ms)

    def _left(self) -> int:
        """Records to ask for: none beyond those there is room for, so the next visit can go on."""
        return self.slice.records - len(self.rows) if self.slice.is_open else MOST_RECORDS

    @property
    def _waits(self) -> bool:
        """Whether it is still to be seen that nothing is gone."""
        return self.walk.awaited is not None and self._passed < 0

    def _look_at(self, record: Record, came: Came) -> None:
        if not has_room(record.number):
            raise Temporary(f"{self.walk}: sequence number {record.number} is too long")
        if self._waits and record.number != self.walk.awaited:
            self._lost(before(record.number))
        if before(record.number) >= self.slice.until_offset:
            self._complete()
            return
        for number, part in enumerate(self._parts(record)):
            self._take(
                Row(before(record.number, number), record.came_ms, part.key, part.data), came
            )
            if self._is_over:
                return
        if self._is_over:
            return
        self._passed = record.number
        if not self.slice.is_open and record.number == self._until.number:
            self._complete()

    @property
    def _until(self) -> Spot:
        return spot_of(self.slice.until_offset)

    def _take(self, row: Row, came: Came) -> None:
        if row.place < self.slice.from_offset:
            return
        if row.place >= self.slice.until_offset:
            self._complete()
            return
        size = len(row.data) + len(row.key.encode())
        if self.slice.is_open and self.rows and not self._has_room(size):
            seconds = max(1, came.at_ms - row.came_ms, came.behind_ms) / 1000
            self.reached, self.behind, self._is_over = row.place, Behind(seconds), True
            return
        self.rows.append(row)
        self._bytes += size

    def _has_room(self, size: int) -> bool:
        if len(self.rows) >= self.slice.records:
            return False
        return not 0 < self.slice.most_bytes < self._bytes + size

    def _parts(self, record: Record) -> tuple[Part, ...]:
        if not is_aggregated(record.data):
            return (Part(record.key, record.data),)
        try:
            parts = taken_apart(record.data)
        except Broken as error:
            return self._broken(record, error)
        if not are_at_home(parts, self.streams.keys_of(self.walk.shard)):
            log.warning(
                "an aggregated record has records of another shard; its sender sends them again",
                record=f"{record.number} of {self.walk}",
            )
            return ()
        return parts

    def _broken(self, record: Record, why: Broken) -> tuple[Part, ...]:
        at = before(record.number)
        if passed(record.number) <= self.slice.from_offset:
            return ()
        self._is_over = True
        if self.slice.is_open and self.rows and not self._has_room(len(record.data)):
            self.reached, self.behind = at, Behind(None)
            return ()
        self.reached, self.past = max(at, self.slice.from_offset), passed(record.number)
        self.error = SliceError(
            temporary=False,
            code=RecordUnreadable.__name__,
            message=f"record {record.number} of {self.walk} is aggregated, and broken: {why}",
            offset=self.reached,
            raw_key=record.key.encode(),
            raw_value=record.data,
            timestamp_ms=record.came_ms,
        )
        return ()

    def _end(self, last: Came | None) -> None:
        """It came to where there is nothing more, or has enough for now."""
        if self._waits and last is not None:
            self._end_waiting(last)
        elif not self.slice.is_open:
            self._end_known(last)
        elif last is not None and last.sealed:
            self.reached, self.behind = END, Behind(0.0, sealed=True)
        else:
            self._end_open(last)

    def _end_waiting(self, last: Came) -> None:
        """Nothing came of what had to be there: it goes on where nothing more can be gone."""
        begin = self.slice.from_offset
        if last.sealed:
            self._lost(END)
        on_at = spot_of(begin).quiet_until(last.quiet_ms)
        if self.walk.is_fresh(spot_of(on_at)):
            self._lost(max(on_at, begin))
        self.behind = Behind(None)

    def _end_open(self, last: Came | None) -> None:
        begin = spot_of(self.slice.from_offset)
        if last is None:
            self.behind = Behind(None)
        else:
            self.behind = Behind(0.0 if last.caught_up else max(1, last.behind_ms) / 1000)
            self.reached = max(self._come_to(begin, last), self.slice.from_offset)

    def _come_to(self, begin: Spot, last: Came) -> Place:
        if self._passed > begin.number or (self._passed == begin.number and begin.part is not None):
            return passed(self._passed, last.quiet_ms if last.caught_up else 0)
        stays_ms = _STAYS_MS if last.caught_up else 0
        if last.quiet_ms > begin.quiet_ms + stays_ms:
            return begin.quiet_until(last.quiet_ms)
        return self.slice.from_offset

    def _end_known(self, last: Came | None) -> None:
        """Of a slice that was read before: its last record came, or nobody has it now."""
        sealed = last is not None and last.sealed
        if self._passed >= self._until.number or (sealed and self.slice.until_offset == END):
            self._complete()
            return
        raise Temporary(
            f"{self.slice}: {self.walk} has nothing behind {self._passed} now",
            retry_after_s=SPENT_S,
        )

    def _complete(self) -> None:
        self.reached, self._is_over = self.slice.until_offset, True

    def _lost(self, goes_on_at: Place) -> None:
        """What the slice begins with is not there any more."""
        raise OutOfRange(
            f"{self.slice}: retention took records of {self.walk} that may not have been read; it "
            f"goes on at {goes_on_at}",
            goes_on_at,
        )

    def _fail(self, error: HeadraceError) -> None:
        """End with an error, behind what was taken until then."""
        if self._passed >= 0:
            self.reached = max(self.reached, passed(self._passed))
        self._is_over = True
        self.error = slice_error(error)


class OutOfRange(OffsetOutOfRange):
    """A shard no longer has what is next, and goes on elsewhere."""

    def __init__(self, message: str, goes_on_at: Place) -> None:
        """Take the place at which it goes on."""
        super().__init__(message)
        self.goes_on_at = goes_on_at


def slice_error(error: HeadraceError) -> SliceError:
    """The error as it travels in a receipt."""
    told = SliceError(isinstance(error, Temporary), code_of(error), text_of(error))
    if isinstance(error, Temporary):
        return replace(told, retry_after_s=error.retry_after_s)
    if isinstance(error, OutOfRange):
        return replace(told, goes_on_at=error.goes_on_at)
    return told
