"""Sending dead letters back to where they came from, each once, however often it is tried.

When a use case is mended, its dead letters are to be handled like any record: in the order of their
lane. So they go back to the end of their own partition, sealed (``seals``), and the reader gives
them to that use case only. Killed halfway, a plain copy would send some twice or lose its place. So
each batch of letters and the place reached are one Kafka transaction, and two redrives of one use
case on one topic share a transactional id: the later one ends the earlier, whose open batch is
undone.

The place is kept twice: by a consumer group, where tools show it, and as a mark in the letters'
topic itself. Kafka forgets a group that was not used for a week (``offsets.retention.minutes``),
and without the mark the redrive after that would send everything again.

Letters stay in their topic; nothing is deleted here. One that is there more than once is sent once,
ever, as long as the first of them is there (``dead_letters_read``). What is sent has the time of
the redrive: a topic's retention goes by time, and would take an old record away before anybody
read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from headrace.connectors.kafka.config import client_config
from headrace.connectors.kafka.dead_letters_read import DeadLettersRead, Letter
from headrace.connectors.kafka.log import KafkaLog
from headrace.connectors.kafka.partitions import TopicPartition, by_partition
from headrace.connectors.kafka.reader import KafkaSliceReader
from headrace.connectors.kafka.redrive_line import RedriveLine
from headrace.connectors.kafka.seals import Message, sealed, sent_back
from headrace.errors import ConfigError, LeaderUnknown, TopicMissing
from headrace.model.lane_names import number_of
from headrace.model.places import UNKNOWN, Place, number_at, place_at
from headrace.model.streams import LaneId, Slice, StreamId
from headrace.model.topic_lists import is_list, topics_of
from headrace.model.topic_names import connection_of, dead_letters_topic
from headrace.ports import Connections

#: a record that came back so often will come back again
MOST_TIMES = 3
#: letters counted beyond the limit; the topic may hold any number
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


@dataclass(slots=True)
class _Tally:
    limit: int | None
    sent: int = 0
    refused: list[str] = field(default_factory=list)
    left: int = 0

    @property
    def full(self) -> bool:
        return self.limit is not None and self.sent >= self.limit


@dataclass(frozen=True, slots=True)
class _Backlog:
    """What there is of one partition."""

    #: all letters of it
    whole: Slice
    #: everything before was sent back
    place: Place


def redrive(  # noqa: PLR0913 - whose letters, and how many
    connections: Connections,
    stream: StreamId,
    topic: str,
    *,
    generation: int = 0,
    limit: int | None = None,
    dry_run: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Redriven:
    """Send the dead letters of a stream's use case back to their partitions, from the last place.

    In each partition letters are sent in the order of their records' offsets, batch by batch, with
    key, value and headers as the record had them. Letters of other use cases, and of an earlier
    tenant of the same name, are passed over.

    Args:
        connections: where Kafka is, and the key of seals.
        stream: whose letters; its tenant names the reader only, the topic is the tenant's.
        topic: the source topic, whose letters are in ``<topic>.dlq``; of a list each of them. Of a
            pattern that matched nothing yet it is empty, and there is no letter.
        generation: the tenant's, as the store has it.
        limit: the most to send.
        dry_run: only count.
        progress: called after each batch with how many were sent so far.

    Raises:
        BrokerUnavailable: no broker answers; call again, what was sent is not sent again.
        Temporary: Kafka cannot do it at the moment; call again.
        Fenced: a later redrive of the same letters has begun.
        TopicMissing: its topic is not there; one of a list is among what was refused.
        ConfigError: we may not do this, a record is too large for its topic now, or the topic is
            not in Kafka.
    """
    if not topic:
        return Redriven(0, (), 0)
    if connection_of(topic) is not None:
        letters = ", ".join(map(dead_letters_topic, topics_of(topic)))
        raise ConfigError(
            f"{topic} is not in Kafka, and nothing is sent back there yet; its letters are in "
            f"{letters}: put them to the stream again, with their keys"
        )
    tally = _Tally(limit)
    for one in topics_of(topic):
        sent = tally.sent
        try:
            for _ in _redriven(connections, stream, one, generation, tally, dry_run=dry_run):
                sent = tally.sent
                if progress:
                    progress(sent)
        except TopicMissing as error:
            if not is_list(topic):
                raise
            # Those of the others go back all the same.
            tally.sent = sent
            tally.refused.append(str(error))
    return Redriven(tally.sent, tuple(tally.refused), tally.left)


def _redriven(
    connections: Connections,
    stream: StreamId,
    topic: str,
    generation: int,
    tally: _Tally,
    *,
    dry_run: bool,
) -> Iterator[None]:
    """The same of one topic, batch by batch."""
    config = client_config(connections.kafka)
    with (
        closing(KafkaLog(config)) as log,
        closing(KafkaSliceReader(config)) as reader,
        closing(RedriveLine(config, stream.use_case, topic)) as line,
    ):
        lanes = _lanes(log, topic)
        if lanes and not dry_run:
            # First of all: whoever was at it before must not move the places any more.
            line.take_over()
        letters = DeadLettersRead(reader, stream.use_case, generation)
        judge = _Judge(stream.use_case, topic, connections.seal_key)
        for backlog in _backlogs(log, letters, line, stream, lanes):
            for messages, place in _batches(letters, backlog, judge, tally):
                if dry_run:
                    continue
                line.send(number_of(backlog.whole.lane.name), messages, number_at(place))
                yield


def _lanes(log: KafkaLog, topic: str) -> Sequence[str]:
    """The partitions that letters may be in; none when no letter was ever kept."""
    name = dead_letters_topic(topic)
    found = log.topics([name]).get(name)
    return found.lanes if found else ()


def _backlogs(
    log: KafkaLog,
    letters: DeadLettersRead,
    line: RedriveLine,
    stream: StreamId,
    lanes: Sequence[str],
) -> Iterator[_Backlog]:
    """What there is of each partition, to the end as it is now."""
    starts, ends = log.start_offsets(lanes), log.end_offsets(lanes)
    partitions = by_partition(lanes)
    places = line.places(list(partitions))
    for at, name in partitions.items():
        if name not in starts or name not in ends:
            raise LeaderUnknown(f"{name} has no leader at the moment; try again")
        lane = LaneId(stream.use_case, stream.tenant, name)
        whole = Slice(lane, at.topic, starts[name], ends[name], epoch=0)
        place = place_at(places.get(at.partition, -1))
        if place == UNKNOWN or place > ends[name]:
            place = letters.marked_place(whole)
        yield _Backlog(whole, min(max(starts[name], place), ends[name]))


def _batches(
    letters: DeadLettersRead, backlog: _Backlog, judge: _Judge, tally: _Tally
) -> Iterator[tuple[list[Message], Place]]:
    """Messages to send together, in order, and the place that is reached by it."""
    stopped = False
    for found, reached in letters.once(backlog.whole, backlog.place):
        place = reached
        chosen: list[tuple[int, Message]] = []
        refused: list[str] = []
        for letter in found:
            message = judge(backlog.whole, letter)
            if isinstance(message, str):
                # Behind the first that is left nothing is told yet: the place does not pass it.
                refused += [] if stopped else [message]
            elif not tally.full:
                chosen.append(message)
                tally.sent += 1
            else:
                tally.left += 1
                place = place if stopped else place_at(letter.place)
                stopped = True
        tally.refused += refused
        if chosen or refused:
            in_order = sorted(chosen, key=lambda placed: placed[0])
            yield [message for _, message in in_order], place
        if tally.left >= _MOST_LEFT:
            return


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says what is sent of a letter: its record, sealed for the use case, or why it is not."""

    use_case: str
    topic: str
    seal_key: bytes

    def __call__(self, whole: Slice, letter: Letter) -> tuple[int, Message] | str:
        """The record's offset and what to send, or why not."""
        at = TopicPartition(self.topic, number_of(whole.lane.name))
        where = f"{whole.lane.name} offset {letter.place}"
        if letter.offset is None:
            return f"{where}: its headers do not tell what it is"
        # Only a count under our seal counts, or a sender could have its record refused.
        before = sent_back(letter.message, at, self.seal_key)
        count = before.times if before is not None else 0
        if count >= MOST_TIMES:
            return f"{where}: record {letter.offset} was sent back {count} times and failed again"
        message = sealed(letter.message, at, self.use_case, count + 1, self.seal_key)
        return letter.offset, message
