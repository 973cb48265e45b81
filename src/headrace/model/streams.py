"""What is read, and how far: tenants, streams, lanes, slices and positions.

Two conventions hold everywhere and are said only here. A range of places is half-open,
``[from, until)``. A committed place is always the *next* one to read, so a lane of Kafka whose
position is 7 has done 0 to 6, and a slice ``[7, 9)`` moves it to 9. Places are called offsets in
names, as Kafka has them; what they are is in `places.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headrace.model.lineage import Lineage, Parent
from headrace.model.places import OPEN, Place
from headrace.model.topic_lists import is_another, topic_of_lane, topics_left

#: it becomes part of topics' names, of URLs and of folders; no dot, or the topic of one could be
#: another's
TENANT_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
#: ids of a stream's topics that are remembered
_MOST_LEFT = 20


class Order(StrEnum):
    """What a use case is promised about the order of records."""

    LANE = "lane"  #: strict within a partition, as Kafka has it
    KEY = "key"  #: strict for each key of a partition, whose buckets go on beside each other
    STREAM = "stream"  #: strict over all lanes of one tenant, by (timestamp, lane, place)
    NONE = "none"  #: no promise; lanes may be divided by the places of their records

    @property
    def merges_lanes(self) -> bool:
        """Whether the lanes of a stream are put in one order, so that none goes on alone."""
        return self is Order.STREAM

    @property
    def divides(self) -> bool:
        """Whether lanes may be divided into buckets that go on beside each other."""
        return self in (Order.KEY, Order.NONE)


class Guarantee(StrEnum):
    """How often the effect of a record happens when processes are killed."""

    AT_MOST_ONCE = "at-most-once"  #: position first, then the effect
    AT_LEAST_ONCE = "at-least-once"  #: the effect first, then the position
    EXACTLY_ONCE = "exactly-once"  #: both together, or an intent first and an idempotent sink


class BadRecordPolicy(StrEnum):
    """What becomes of a lane when a record can not be handled, however often it is tried."""

    SUSPEND = "suspend"  #: the lane stops at the record until a person decides: strict order
    DEAD_LETTER = "dead-letter"  #: the record goes to ``<topic>.dlq`` and the lane goes on
    FAIL = "fail"  #: the whole use case stops, for all tenants


class DataLossPolicy(StrEnum):
    """What becomes of a stream whose topic no longer has the records that are next."""

    FAIL = "fail"  #: the stream is suspended with the exact offsets until a person decides
    SKIP = (
        "skip"  #: it goes on where the topic does; the offsets are kept as a failure that is over
    )


class State(StrEnum):
    """What the operator, or a failure, has decided about a tenant or a stream."""

    ACTIVE = "active"
    SUSPENDED = "suspended"  #: nothing new is planned until it is resumed; the position is kept
    REMOVED = "removed"  #: nothing new is planned; what was in flight may still commit


class Stopper(StrEnum):
    """Who has stopped a tenant or a stream; it may be several (``policies/stops.py``)."""

    OPERATOR = "operator"
    TENANT = "tenant"
    FAILURE = "failure"  #: one that stops a use case for all tenants, or lost records


#: between the name of a use case and the number of a rerun of it; no use case has it in its name
RERUN_MARK = "~"


def original(use_case: str) -> str:
    """The use case that a rerun is of, which names its code and its effects; else the same."""
    return use_case.partition(RERUN_MARK)[0]


class StreamId(NamedTuple):
    """One tenant's topic as read by one use case."""

    use_case: str
    tenant: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.use_case}"


class LaneId(NamedTuple):
    """One lane of a stream, such as a partition of its topic: the unit of order."""

    use_case: str
    tenant: str
    #: what its log calls it, such as ``acme.visits[3]``; a stream has no two of one name. With
    #: order ``key`` it is of one of that lane's buckets, such as ``acme.visits[3]#5/16``
    name: str

    @property
    def stream(self) -> StreamId:
        """The stream this lane belongs to."""
        return StreamId(self.use_case, self.tenant)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.use_case}/{self.name}"


class PassedRange(NamedTuple):
    """A half-open range of a lane that was passed over: nobody reads it any more."""

    from_offset: Place
    until_offset: Place


@dataclass(frozen=True, slots=True)
class Slice:
    """A half-open range ``[from_offset, until_offset)`` of a lane, held under an epoch."""

    lane: LaneId
    topic: str
    from_offset: Place
    #: `OPEN` where its log could not tell: it ends after ``records``, after ``most_bytes``, or
    #: where there is nothing more for now
    until_offset: Place
    #: fencing token of the driver that planned it; a commit under an older one is refused
    epoch: int
    #: whether the log went on past ``until_offset`` when this was planned
    more: bool = False
    #: of its lane: what comes above in the versions of its records (``model/record_versions.py``)
    depth: int = 0
    #: most records in it, as its log counted when it was planned (there can be gaps)
    records: int = 0
    #: of a lane whose log does not say where it ends, and of no other: most bytes in an open one,
    #: but for its first record
    most_bytes: int = 0
    #: the number of its first record below the depth, where its log gives none of so few bits
    ordinal: int = 0
    #: what its lane passed over last, as far as that ends where the slice began when it was planned
    passed_range: PassedRange | None = None
    #: what the reader that came to ``from_offset`` last leaves to the next one (``Behind.note``)
    note: str = field(default="", compare=False, repr=False)

    @property
    def passed_over(self) -> PassedRange | None:
        """What was passed over right before its first record; None: it goes on where others ended.

        A part of it that does not begin where it does has nothing before it but the rest of it.
        """
        last = self.passed_range
        return last if last is not None and last.until_offset == self.from_offset else None

    @property
    def lane_topic(self) -> str:
        """The topic that its lane is of; ``topic`` is all that its stream reads, maybe a list."""
        return topic_of_lane(self.lane.name, self.topic)

    @property
    def is_open(self) -> bool:
        """Whether only reading tells where it ends."""
        return self.until_offset == OPEN

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return self.until_offset <= self.from_offset

    @property
    def begin(self) -> tuple[LaneId, Place]:
        """Its lane and first offset: of two attempts at it the same, whatever their epochs."""
        return self.lane, self.from_offset

    def __str__(self) -> str:
        until = "" if self.is_open else str(self.until_offset)
        return f"{self.lane.name} {self.from_offset}..{until}"


@dataclass(frozen=True, slots=True)
class Position:
    """The committed place of a lane, with the epoch that wrote it."""

    lane: LaneId
    next_offset: Place
    epoch: int
    #: lanes that it follows: while one of them is not committed to its end, it is closed
    parents: tuple[Parent, ...] = ()
    #: more than that of any of them, and than all that its stream had when it was last sent back
    depth: int = 0
    #: as many records as were passed since then, or more, where its log has no number for each
    ordinal: int = 0
    #: what it passed over by decision to come here; None once it went on
    passed_range: PassedRange | None = None


def places_of(positions: Iterable[Position]) -> dict[str, Place]:
    """Where the lanes of one stream are."""
    return {one.lane.name: one.next_offset for one in positions}


def lineage_of(positions: Iterable[Position]) -> Lineage:
    """What lanes of one stream follow; those that follow none are left out."""
    return {one.lane.name: one.parents for one in positions if one.parents}


@dataclass(frozen=True, slots=True)
class Throttle:
    """The most a tenant may use; None is no limit."""

    records_per_s: float | None = None
    bytes_per_s: float | None = None
    #: how many seconds' worth may be taken at once after a quiet time
    burst_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Tenant:
    """A customer."""

    name: str
    state: State = State.ACTIVE
    #: share of task-seconds against the others when there is not enough for all
    weight: float = 1.0
    throttle: Throttle = Throttle()
    #: of a suspended one, who did it
    stopped_by: frozenset[Stopper] = frozenset()
    #: epochs below it are of earlier tenants of this name; given by the store
    generation: int = 0
    #: when it was added after another of its name was removed, in seconds since 1970; None: never
    added_again_s: float | None = None
    #: it is no customer, and has the streams of topics that name none (``model/everyone.py``);
    #: given by the store
    reserved: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """One tenant's topic as read by one use case, as the store knows it."""

    id: StreamId
    #: or a list of topics and partitions (``model/topic_lists.py``)
    topic: str
    state: State = State.ACTIVE
    #: id that its log gave the topic when the first position was made; None until then. Of a list
    #: those of its topics, as far as they were there
    topic_id: str | None = None
    #: fencing token of whoever holds this stream
    epoch: int = 0
    #: why it is suspended, in one line; None when somebody did it by hand, or nobody did
    reason: str | None = None
    #: name of the driver that plans it; None while it is free
    holder: str | None = None
    #: of a suspended one, who did it
    stopped_by: frozenset[Stopper] = frozenset()
    #: ids that its topic had before, youngest last; while it has no ``topic_id`` that one is what
    #: it had last, and may have again
    left_ids: tuple[str, ...] = ()
    #: whether it has begun when its topic was not there, so that all is read that comes
    begun_without_topic: bool = False
    #: it was left alone, and what is too old of it is still to be passed over: for how many
    #: seconds nobody had committed it when it was taken over from a holder that did not give it
    #: back; None: it goes on where it is
    silent_s: float | None = None

    def has_left(self, topic_id: str) -> bool:
        """Whether this is the id of a topic that it left, be it before it was removed and added."""
        return bool(self.topics_left(topic_id))

    def topics_left(self, topic_id: str) -> frozenset[str]:
        """The topics of this id that it left, by name; of one topic something that is true."""
        last = self.left_ids[-1] if self.left_ids else None
        stays = last if self.topic_id is None else self.topic_id
        return topics_left(topic_id, self.left_ids, stays)


def ids_left(before: Sequence[str], was: str | None, now: str | None) -> tuple[str, ...]:
    """What ``left_ids`` of a stream becomes when its topic's id changes."""
    left = [one for one in before if one not in (was, now)]
    if was is not None and (now is None or is_another(was, now)):
        left.append(was)
    return tuple(left[-_MOST_LEFT:])
