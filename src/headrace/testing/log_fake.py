"""A Kafka in memory: topics, partitions, records, and the offsets where no record is.

The cycle and its tests need a log that answers at once and fails on demand. So the fake keeps the
rules a reader depends on (half-open ranges, gaps, a new id for a topic that is made again), can do
what Kafka cannot (split a lane, merge two, and not tell where one ends), and lets a test take away
a leader, a topic, the oldest records or the whole cluster. It has no network, no transactions, no
replication, no compaction by itself and no consumer groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headrace.connectors.kafka.offsets import OFFSETS
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import Message, sent_back
from headrace.errors import (
    BrokerUnavailable,
    HeadraceError,
    LeaderUnknown,
    OffsetOutOfRange,
    RecordUnreadable,
    Temporary,
    TopicMissing,
)
from headrace.model.lane_names import in_order, named, number_of
from headrace.model.lineage import Parent
from headrace.model.places import OPEN, Place, Places, number_at, place_at
from headrace.model.receipts import Behind, SliceError
from headrace.model.streams import Slice, original
from headrace.ports import (
    RECORD_SCHEMA,
    Connections,
    SliceBatch,
    SliceReader,
    TopicInfo,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A record to write."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    #: False: the client cannot hand it out
    readable: bool = True


@dataclass(slots=True)
class _Lane:
    #: one for each offset ever written; None where no reader sees a record
    rows: list[Row | None] = field(default_factory=list)
    start: int = 0
    leader: bool = True
    #: the end that an ex-leader tells, which does not know that it is none
    told_end: int | None = None
    #: the cluster knows it, and says so when it is asked
    replaced: bool = False
    #: it takes no more records: they go to lanes that follow it
    sealed: bool = False
    #: names of lanes that it follows
    follows: tuple[str, ...] = ()
    #: only reading tells where it ends
    hidden: bool = False
    #: False: it is there, and takes records, and nobody is told of it yet
    listed: bool = True

    @property
    def end(self) -> int:
        return len(self.rows)


class MemoryLog:
    """``headrace.ports.Log`` in memory, with the means to write to it and to break it."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._ids: dict[str, str] = {}
        #: the highest number that a lane of a topic has or had
        self._numbers: dict[str, int] = {}
        self._made = 0
        #: no broker answers
        self.down = False
        #: it says of all of its lanes where they end
        self.tells_ends = True
        #: False: what retention took only readers tell
        self.tells_starts = True

    def of(self, topic: str) -> MemoryLog:
        """This one has all topics."""
        return self

    # what a test does to it

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic; one of the same name must have been deleted."""
        assert name not in self._ids, f"topic {name} is there"
        self._made += 1
        self._ids[name] = f"topic-{self._made}"
        self._numbers[name] = -1
        for _ in range(partitions):
            self._add(name)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records."""
        del self._ids[name]
        for lane in self._lanes_of(name):
            del self._lanes[lane]

    def widen(self, topic: str) -> int:
        """Add a partition to a topic; return its number."""
        return self._add(topic)

    def split(self, topic: str, number: int) -> tuple[int, int]:
        """Seal a lane; two that follow it take its records from now on."""
        parent = named(topic, number)
        self._seal(parent)
        return self._add(topic, parent), self._add(topic, parent)

    def merge(self, topic: str, one: int, other: int) -> int:
        """Seal two lanes; one that follows both takes their records from now on."""
        parents = named(topic, one), named(topic, other)
        for parent in parents:
            self._seal(parent)
        return self._add(topic, *parents)

    def hide_end(self, topic: str, number: int) -> None:
        """From now on only reading tells where a lane ends; also of those that follow it."""
        self._lanes[named(topic, number)].hidden = True
        self.tells_ends = False

    def hides_end(self, topic: str, number: int) -> bool:
        """Whether only reading tells where a lane ends."""
        return self._lanes[named(topic, number)].hidden

    def drop_lane(self, topic: str, number: int) -> None:
        """Let retention take a sealed lane as a whole: it is not listed any more."""
        lane = self._lanes.pop(named(topic, number))
        assert lane.sealed, "retention leaves a lane that takes records"

    def set_listed(self, topic: str, number: int, listed: bool) -> None:
        """Let a lane be told of from now on, or not yet."""
        self._lanes[named(topic, number)].listed = listed

    def is_sealed(self, topic: str, number: int) -> bool:
        """Whether a lane that is there takes no more records."""
        return self._lanes[named(topic, number)].sealed

    def append(self, topic: str, partition: int, rows: Sequence[Row]) -> int:
        """Write records; return the offset of the first."""
        lane = self._lanes[named(topic, partition)]
        assert not lane.sealed, "a lane that is sealed takes nothing"
        lane.rows += rows
        return len(lane.rows) - len(rows)

    def append_gap(self, topic: str, partition: int, offsets: int) -> None:
        """Use up offsets without a record: an aborted transaction, a control record."""
        self._lanes[named(topic, partition)].rows += [None] * offsets

    def compact(self, topic: str, partition: int, offsets: Collection[int]) -> None:
        """Take records away and leave their offsets empty."""
        lane = self._lanes[named(topic, partition)]
        for offset in offsets:
            lane.rows[offset] = None

    def expire(self, topic: str, partition: int, start: int) -> None:
        """Let retention take everything before ``start``."""
        self._lanes[named(topic, partition)].start = start

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Lose the youngest records, as an unclean election does."""
        del self._lanes[named(topic, partition)].rows[end:]

    def set_leader(self, topic: str, partition: int, present: bool) -> None:
        """Take a partition's leader away, or bring one back."""
        self._lanes[named(topic, partition)].leader = present

    def cut_off(self, topic: str, partition: int, end: int, *, replaced: bool) -> None:
        """Let a leader that is cut off tell an end.

        Args:
            topic: its name.
            partition: its number.
            end: what it tells.
            replaced: the cluster has another one, of which the client hears when it asks.
        """
        lane = self._lanes[named(topic, partition)]
        lane.told_end, lane.replaced = end, replaced

    def replace_leader(self, topic: str, partition: int) -> None:
        """Let the cluster have another leader in the place of one that is cut off."""
        self._lanes[named(topic, partition)].replaced = True

    # what it is, whether it answers or not

    def edges(self, topic: str, partition: int) -> range:
        """From the first offset of a partition to its end."""
        lane = self._lanes[named(topic, partition)]
        return range(lane.start, lane.end)

    def id_of(self, topic: str) -> str:
        """The id of a topic that is there."""
        return self._ids[topic]

    # the port

    @property
    def places(self) -> Places:
        """Offsets, as Kafka's."""
        return OFFSETS

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and lanes of each topic that exists."""
        self._answer()
        return {
            name: TopicInfo(self._ids[name], tuple(self._listed(name)), self._parents_of(name))
            for name in names
            if name in self._ids
        }

    def all_topics(self) -> Collection[str]:
        """Names of all topics that were made and not deleted."""
        self._answer()
        return list(self._ids)

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Topics that nobody made, or that were deleted."""
        return set() if self.down else {name for name in names if name not in self._ids}

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Where lanes end that tell it."""

        def end(lane: _Lane) -> int:
            return lane.end if lane.told_end is None else lane.told_end

        hidden = {name: OPEN for name in lanes if name in self._lanes and self._lanes[name].hidden}
        return hidden | self._offsets([name for name in lanes if name not in hidden], end)

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The first offsets that are left."""
        return self._offsets(lanes, lambda lane: lane.start)

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """The first offset whose record is not older; the end where there is none, if told."""

        def first(lane: _Lane) -> int:
            for offset in range(lane.start, lane.end):
                row = lane.rows[offset]
                if row is not None and row.timestamp_ms >= timestamp_s * 1000:
                    return offset
            return number_at(OPEN) if lane.hidden else lane.end

        return self._offsets(lanes, first)

    def doubt(self, lanes: Collection[str]) -> None:
        """Hear of leaders that were replaced."""
        for lane in (self._lanes[name] for name in lanes if name in self._lanes):
            if lane.replaced:
                lane.told_end = None

    def close(self) -> None:
        """Nothing to give up."""

    def rows(self, piece: Slice) -> list[tuple[int, Row]]:
        """The records of a slice with their offsets.

        Raises:
            HeadraceError: they cannot be read, for the reasons a real cluster has.
        """
        self._answer()
        lane = self._lanes.get(piece.lane.name)
        if lane is None:
            raise TopicMissing(f"{piece} is not there; create the topic or remove the stream")
        if not lane.leader:
            raise LeaderUnknown(f"{piece}: the partition has no leader at the moment")
        start, until = number_at(piece.from_offset), number_at(piece.until_offset)
        if piece.is_open:
            until = lane.end
        if not lane.start <= start <= lane.end:
            raise OffsetOutOfRange(
                f"{piece}: the log now has {lane.start}..{lane.end} (start to end)"
            )
        if until > lane.end:
            raise Temporary(f"{piece}: the readable log ends at {lane.end}")
        found = enumerate(lane.rows[start:until], start)
        return [(offset, row) for offset, row in found if row is not None]

    def end_of(self, name: str) -> Place:
        """Where a lane that is there ends, whether it says so or not."""
        return place_at(self._lanes[name].end)

    def past(self, name: str, reached: int) -> Behind:
        """What is behind a place of a lane."""
        lane = self._lanes[name]
        waits = lane.end - reached
        return Behind(float(waits), sealed=lane.sealed and waits == 0)

    def _add(self, topic: str, *follows: str) -> int:
        number = self._numbers[topic] = self._numbers[topic] + 1
        hidden = any(self._lanes[parent].hidden for parent in follows)
        self._lanes[named(topic, number)] = _Lane(follows=follows, hidden=hidden)
        return number

    def _seal(self, name: str) -> None:
        lane = self._lanes[name]
        assert not lane.sealed, "it was sealed before"
        lane.sealed = True

    def _parents_of(self, topic: str) -> dict[str, tuple[Parent, ...]]:
        """What lanes follow; of one that is not there any more nobody knows the end."""
        return {
            name: tuple(
                Parent(parent, self._end_of(parent)) for parent in self._lanes[name].follows
            )
            for name in self._listed(topic)
            if self._lanes[name].follows
        }

    def _end_of(self, name: str) -> Place | None:
        return self.end_of(name) if name in self._lanes else None

    def _lanes_of(self, topic: str) -> list[str]:
        lanes = (name for name in self._lanes if name.startswith(f"{topic}["))
        return in_order(lanes)

    def _listed(self, topic: str) -> list[str]:
        return [name for name in self._lanes_of(topic) if self._lanes[name].listed]

    def _offsets(self, lanes: Collection[str], of: Callable[[_Lane], int]) -> dict[str, Place]:
        self._answer()
        return {
            name: place_at(of(self._lanes[name]))
            for name in lanes
            if name in self._lanes and self._lanes[name].leader
        }

    def _answer(self) -> None:
        if self.down:
            raise BrokerUnavailable("the fake plays a cluster that is down")


@dataclass(frozen=True, slots=True)
class MemoryReaderFactory:
    """``headrace.ports.ReaderFactory`` on a fake; pickled, it takes a copy of the log along."""

    log: MemoryLog

    def open(self, connections: Connections) -> SliceReader:
        """A reader; of ``connections`` only the key of seals matters."""
        return MemoryReader(self.log, connections.seal_key)


class MemoryReader:
    """``headrace.ports.SliceReader`` on a fake."""

    def __init__(self, log: MemoryLog, seal_key: bytes = b"") -> None:
        self._log = log
        self._seal_key = seal_key

    def read(self, slices: Sequence[Slice], batch_records: int) -> Iterator[SliceBatch]:
        """Yield the records of each slice."""
        for piece in slices:
            try:
                rows = self._log.rows(piece) if not piece.is_empty else []
                end = self._end_of(piece, rows)
            except HeadraceError as exc:
                fault = SliceError(isinstance(exc, Temporary), type(exc).__name__, str(exc))
                if isinstance(exc, OffsetOutOfRange) and not self._log.tells_starts:
                    edges = self._log.edges(piece.topic, number_of(piece.lane.name))
                    fault = replace(fault, goes_on_at=place_at(edges.start))
                yield SliceBatch(piece, _table(piece, []), piece.from_offset, True, fault)
                continue
            rows = [(at, row) for at, row in rows if place_at(at) < end]
            broken = next(((at, row) for at, row in rows if not row.readable), None)
            error = None if broken is None else _unreadable(*broken)
            reached = end if broken is None else place_at(broken[0])
            behind = None
            if piece.is_open and broken is None:
                behind = self._log.past(piece.lane.name, number_at(reached))
            rows = [
                row for row in rows if place_at(row[0]) < reached and self._is_given(piece, row[1])
            ]
            while len(rows) > batch_records:
                batch, rows = rows[:batch_records], rows[batch_records:]
                yield SliceBatch(
                    piece, _table(piece, batch), place_at(batch[-1][0] + 1), last=False
                )
            past = None if broken is None else place_at(broken[0] + 1)
            yield SliceBatch(piece, _table(piece, rows), reached, True, error, behind, past)

    def _end_of(self, piece: Slice, rows: Sequence[tuple[int, Row]]) -> Place:
        """Where a slice ends; an open one after its records or bytes, or where there is no more."""
        if not piece.is_open:
            return piece.until_offset
        taken = 0
        for count, (offset, row) in enumerate(rows):
            taken += _bytes_of(row)
            if count and (count >= piece.records or 0 < piece.most_bytes < taken):
                return place_at(offset)
        return self._log.end_of(piece.lane.name)

    def close(self) -> None:
        """Nothing to give up."""

    def _is_given(self, piece: Slice, row: Row) -> bool:
        """Whether a record was sent back for the slice's use case, or for nobody."""
        at = TopicPartition(piece.lane_topic, number_of(piece.lane.name))
        found = sent_back(Message(row.key, row.value, tuple(row.headers)), at, self._seal_key)
        return found is None or found.use_case == original(piece.lane.use_case)


def _bytes_of(row: Row) -> int:
    parts = (row.key, row.value, *(value for _, value in row.headers))
    return sum(len(part) for part in parts if part is not None)


def _unreadable(offset: int, row: Row) -> SliceError:
    return SliceError(
        temporary=False,
        code=RecordUnreadable.__name__,
        message=f"offset {offset}: the fake plays a record that cannot be handed out",
        offset=place_at(offset),
        raw_key=row.key,
        raw_value=row.value,
        timestamp_ms=row.timestamp_ms,
    )


def _table(piece: Slice, rows: Sequence[tuple[int, Row]]) -> pa.Table:
    found = [
        {
            "topic": piece.lane_topic,
            "partition": number_of(piece.lane.name),
            "offset": offset,
            "timestamp": row.timestamp_ms,
            "key": row.key,
            "value": row.value,
            "headers": list(row.headers) or None,
        }
        for offset, row in rows
    ]
    return pa.Table.from_pylist(found, schema=RECORD_SCHEMA)
