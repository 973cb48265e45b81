"""Sending dead letters back to where they came from, each once, however often it is tried.

When a use case is mended, its dead letters are to be handled like any record: in the order of their
lane. So they go back to the end of their own partition, and the reader gives them to that use case
only. Killed halfway, a plain copy would send some twice or lose its place. So each batch of letters
and the place reached are one Kafka transaction, and two redrives of one use case on one topic share
a transactional id: the later one ends the earlier, whose open batch is undone.

The place is kept twice: by a consumer group, where tools show it, and as a mark in the letters'
topic itself. Kafka forgets a group that was not used for a week (``offsets.retention.minutes``),
and without the mark the redrive after that would send everything again.

Letters stay in their topic; nothing is deleted here. A letter that task and retry kept twice is
sent once if both are met in one redrive. What is sent has the time of the redrive: a topic's
retention goes by time, and would take an old record away before anybody read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import HeadraceError, LeaderUnknown, Permanent, Temporary
from headrace.kafka.config import client_config
from headrace.kafka.letter_headers import (
    COUNT_HEADER,
    USE_CASE_HEADER,
    Header,
    kept_in,
    number,
)
from headrace.kafka.letter_topics import letters_topic
from headrace.kafka.log import KafkaLog
from headrace.kafka.reader import KafkaSliceReader
from headrace.kafka.redrive_line import PLACE_HEADER, Outgoing, RedriveLine
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.ports import Connections, SliceBatch, TopicPartition

#: a record that came back so often will come back again
MOST_TIMES = 3
#: letters read, and at most sent, in one transaction: readers of the topic wait for its end
_BATCH_LETTERS = 1000
#: letters counted beyond the limit: each is remembered, and a topic of letters forgets nothing
_MOST_LEFT = 100_000


@dataclass(frozen=True, slots=True)
class Redriven:
    """What became of the dead letters of a use case."""

    #: sent back, or with ``dry_run`` those that would have been
    sent: int
    #: why a letter was not sent and will not be, one sentence each; it stays where it is
    refused: tuple[str, ...]
    #: letters beyond ``limit``, for the next time; from 100,000 on they are not all counted
    left: int


class _Letter(NamedTuple):
    #: in the topic of dead letters
    place: int
    #: offset of the record in its own topic
    offset: int
    message: Outgoing

    @property
    def identity(self) -> tuple[int, int]:
        """The same for a letter kept twice; not for one of a topic that was made again."""
        return self.offset, hash(self.message)


@dataclass(slots=True)
class _Tally:
    limit: int | None
    sent: int = 0
    refused: list[str] = field(default_factory=list)
    left: int = 0

    @property
    def full(self) -> bool:
        return self.limit is not None and self.sent >= self.limit


def redrive(
    connections: Connections,
    stream: StreamId,
    topic: str,
    *,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Redriven:
    """Send the dead letters of a stream's use case back to their partitions, from the last place.

    In each partition letters are sent in the order of their records' offsets, batch by batch, with
    key, value and headers as the record had them. Letters of other use cases are passed over.

    Args:
        connections: where Kafka is.
        stream: whose letters; its tenant names the reader only, the topic is the tenant's.
        topic: the source topic, whose letters are in ``<topic>.dlq``.
        limit: the most to send.
        dry_run: only count.
        progress: called after each batch with how many were sent so far.

    Raises:
        BrokerUnavailable: no broker answers; call again, what was sent is not sent again.
        Temporary: Kafka cannot do it at the moment; call again.
        Fenced: a later redrive of the same letters has begun.
        ConfigError: we may not do this, or a record is too large for its topic now.
    """
    config = client_config(connections.kafka)
    tally = _Tally(limit)
    with (
        closing(KafkaLog(config)) as log,
        closing(KafkaSliceReader(config)) as reader,
        closing(RedriveLine(config, stream.use_case, topic)) as line,
    ):
        partitions = _partitions(log, topic)
        if partitions and not dry_run:
            # First of all: whoever was at it before must not move the places any more.
            line.take_over()
        for piece in _backlog(log, reader, line, stream, partitions):
            for letters, place in _batches(reader, piece, tally):
                if dry_run:
                    continue
                line.send(piece.lane.partition, [each.message for each in letters], place)
                if progress:
                    progress(tally.sent)
    return Redriven(tally.sent, tuple(tally.refused), tally.left)


def _partitions(log: KafkaLog, topic: str) -> list[TopicPartition]:
    """The partitions that letters may be in; none when no letter was ever kept."""
    name = letters_topic(topic)
    found = log.topics([name]).get(name)
    return [TopicPartition(name, each) for each in found.partitions] if found else []


def _backlog(
    log: KafkaLog,
    reader: KafkaSliceReader,
    line: RedriveLine,
    stream: StreamId,
    partitions: Sequence[TopicPartition],
) -> Iterator[Slice]:
    """What to read of each partition: from the last place to the end as it is now."""
    starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
    places = line.places(partitions)
    for at in partitions:
        if at not in starts or at not in ends:
            raise LeaderUnknown(
                f"{at.topic}[{at.partition}] has no leader at the moment; try again"
            )
        lane = LaneId(stream.use_case, stream.tenant, at.partition)
        piece = Slice(lane, at.topic, starts[at], ends[at], epoch=0)
        place = places.get(at.partition)
        if place is None or place > ends[at]:
            place = _marked_place(reader, piece)
        start = min(max(starts[at], place), ends[at])
        yield Slice(lane, at.topic, start, ends[at], epoch=0)


def _marked_place(reader: KafkaSliceReader, piece: Slice) -> int:
    """The last place that is marked in the letters' topic itself."""
    place = piece.from_offset
    for batch in reader.read([piece], _BATCH_LETTERS):
        _raise_if_failed(batch)
        for _, headers in _with_headers(batch.records):
            named = dict(headers)
            if (named.get(USE_CASE_HEADER) or b"").decode(errors="replace") == piece.lane.use_case:
                place = max(place, number(named.get(PLACE_HEADER)) or 0)
    return place


def _batches(
    reader: KafkaSliceReader, piece: Slice, tally: _Tally
) -> Iterator[tuple[list[_Letter], int]]:
    """Letters to send together, in order, and the place that is reached by it."""
    seen: set[tuple[int, int]] = set()
    stopped = False
    for batch in reader.read([piece], _BATCH_LETTERS):
        _raise_if_failed(batch)
        letters: list[_Letter] = []
        refused: list[str] = []
        place = batch.reached
        for found in _judged(batch):
            if isinstance(found, str):
                # Behind the first that is left nothing is told yet: the place does not pass it.
                refused += [] if stopped else [found]
                continue
            if found.identity in seen:
                continue
            seen.add(found.identity)
            if not tally.full:
                letters.append(found)
                tally.sent += 1
                continue
            tally.left += 1
            place = place if stopped else found.place
            stopped = True
        tally.refused += refused
        if letters or refused:
            yield sorted(letters, key=lambda each: each.offset), place
        if tally.left >= _MOST_LEFT:
            return


def _judged(batch: SliceBatch) -> Iterator[_Letter | str]:
    """The letters of the use case, or why one is not to be sent."""
    use_case = batch.slice.lane.use_case
    for row, headers in _with_headers(batch.records):
        kept = kept_in(headers)
        if kept is None or kept.use_case != use_case:
            continue
        place: int = batch.records["offset"][row].as_py()
        where = f"{batch.slice.topic}[{batch.slice.lane.partition}] offset {place}"
        count = number(dict(kept.headers).get(COUNT_HEADER, b"0"))
        if kept.offset is None or count is None:
            yield f"{where}: its headers do not tell what it is"
        elif count >= MOST_TIMES:
            yield f"{where}: record {kept.offset} was sent back {count} times and failed again"
        else:
            key, value = (batch.records[name][row].as_py() for name in ("key", "value"))
            message = Outgoing(key, value, _marked(kept.headers, use_case, count + 1))
            yield _Letter(place, kept.offset, message)


def _marked(headers: Sequence[Header], use_case: str, count: int) -> tuple[Header, ...]:
    own = (USE_CASE_HEADER, COUNT_HEADER)
    return (
        *(each for each in headers if each[0] not in own),
        (USE_CASE_HEADER, use_case.encode()),
        (COUNT_HEADER, b"%d" % count),
    )


def _with_headers(records: pa.Table) -> Iterator[tuple[int, list[Header]]]:
    for row, headers in enumerate(records["headers"].to_pylist()):
        if headers:
            yield row, [(each["key"], each["value"]) for each in headers]


def _raise_if_failed(batch: SliceBatch) -> None:
    if batch.error is None:
        return
    kind: type[HeadraceError] = Temporary if batch.error.temporary else Permanent
    raise kind(f"{batch.error.message}; redrive again, what was sent is not sent again")
