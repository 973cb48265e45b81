"""The letters of a use case in a topic of dead letters, each given once however often it is there.

A letter may be kept more than once: by a task that died behind it, by the worker that tried the
slice next, by a person's skip. What was sent before must not be sent again when such a repeat comes
behind the place that a redrive has reached. So every letter is looked for in all that is before it,
from the beginning of its partition. That costs reading, and bounded memory: so many letters are
looked at together, and for each further part all that is before is read once more.

Letters are the same when their records are: offset, time, key, value and headers. A record that
was sent back and failed again has an offset of its own; a topic that was made again has records of
other times. Letters of an earlier tenant of the same name are passed over like those of another use
case. Nothing is sent from here (``redrive``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.connectors.kafka.dead_letter_headers import Header, kept_in, number
from headrace.connectors.kafka.seals import USE_CASE_HEADER, Message, bytes_of, with_length
from headrace.connectors.kafka.tables import headers_of, message_of
from headrace.errors import HeadraceError, Permanent, Temporary
from headrace.model.places import Place, place_at
from headrace.model.streams import Slice
from headrace.ports import REDRIVE_HEADERS, SliceBatch, SliceReader

#: in a letters' topic: everything before this offset has been sent back
PLACE_HEADER = f"{REDRIVE_HEADERS}place"
#: letters read, and at most sent, in one transaction: readers of the topic wait for its end
_BATCH_LETTERS = 1000
#: letters that are looked for together in what is before them; 10 MB of identities
_TOGETHER = 100_000


class Letter(NamedTuple):
    """One letter, and the record in it as it came."""

    #: in the topic of dead letters
    place: int
    #: offset of the record in its own topic; None when the headers do not tell
    offset: int | None
    #: of the record, in milliseconds since 1970
    timestamp_ms: int
    message: Message

    @property
    def identity(self) -> bytes:
        """The same for the same record, and for no other."""
        made = hashlib.blake2b(f"{self.offset} {self.timestamp_ms}".encode(), digest_size=16)
        for part in bytes_of(self.message):
            made.update(with_length(part))
        return made.digest()


@dataclass(frozen=True, slots=True)
class DeadLettersRead:
    """Reads one partition's letters of one use case."""

    reader: SliceReader
    use_case: str
    #: letters of lower epochs are an earlier tenant's
    generation: int = 0

    def once(self, whole: Slice, place: Place) -> Iterator[tuple[list[Letter], Place]]:
        """The letters from a place on that are nowhere before, batch by batch.

        Args:
            whole: the partition of the letters' topic, from its beginning to its end.
            place: the first offset that is asked for.

        Yields:
            Letters in the order of their places, and the offset that is reached by them.

        Raises:
            Temporary: it cannot be read at the moment.
            Permanent: it cannot be read.
        """
        while place < whole.until_offset:
            first, reached = self._first_places(replace(whole, from_offset=place))
            if first:
                for letters, _ in self._letters(replace(whole, until_offset=place)):
                    for letter in letters:
                        first.pop(letter.identity, None)
            again = replace(whole, from_offset=place, until_offset=reached)
            for letters, came_to in self._letters(again):
                new = [letter for letter in letters if first.get(letter.identity) == letter.place]
                yield new, came_to
            place = reached

    def marked_place(self, whole: Slice) -> Place:
        """The last place that is marked in the letters' topic itself."""
        place = whole.from_offset
        for batch in self._batches(whole):
            for headers in headers_of(batch.records):
                # A letter's own headers are its record's, and say nothing of places.
                if not headers or kept_in(headers) is not None:
                    continue
                named = dict(headers)
                if named.get(USE_CASE_HEADER) == self.use_case.encode():
                    place = max(place, place_at(number(named.get(PLACE_HEADER)) or 0))
        return place

    def _first_places(self, piece: Slice) -> tuple[dict[bytes, int], Place]:
        """Where each letter is for the first time, and how far was looked."""
        first: dict[bytes, int] = {}
        for letters, reached in self._letters(piece):
            for letter in letters:
                first.setdefault(letter.identity, letter.place)
            if len(first) >= _TOGETHER:
                return first, reached
        return first, piece.until_offset

    def _letters(self, piece: Slice) -> Iterator[tuple[list[Letter], Place]]:
        for batch in self._batches(piece):
            found = (
                self._letter(batch, row, headers)
                for row, headers in enumerate(headers_of(batch.records))
                if headers
            )
            yield [letter for letter in found if letter is not None], batch.reached

    def _letter(self, batch: SliceBatch, row: int, headers: tuple[Header, ...]) -> Letter | None:
        kept = kept_in(headers)
        if kept is None or kept.use_case != self.use_case or kept.epoch < self.generation:
            return None
        records = batch.records
        place: int = records["offset"][row].as_py()
        stamp_ms: int = records["timestamp"][row].value
        if kept.timestamp_ms is not None:
            stamp_ms = kept.timestamp_ms
        return Letter(place, kept.offset, stamp_ms, message_of(records, row, kept.headers))

    def _batches(self, piece: Slice) -> Iterator[SliceBatch]:
        if piece.is_empty:
            return
        for batch in self.reader.read([piece], _BATCH_LETTERS):
            _raise_if_failed(batch)
            yield batch


def _raise_if_failed(batch: SliceBatch) -> None:
    if batch.error is None:
        return
    kind: type[HeadraceError] = Temporary if batch.error.temporary else Permanent
    raise kind(f"{batch.error.message}; redrive again, what was sent is not sent again")
