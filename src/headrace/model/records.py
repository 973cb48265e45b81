"""What the store keeps besides positions: deployed use cases, failures, and moves of positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.buckets import Division
from headrace.model.lineage import Lineage
from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.model.restarts import Restart
from headrace.model.streams import BadRecordPolicy, DataLossPolicy, LaneId, Order, Slice, StreamId


@dataclass(frozen=True, slots=True)
class Move:
    """A position to move from exactly one place to another, by the holder of an epoch."""

    lane: LaneId
    from_offset: Place
    to_offset: Place
    epoch: int
    #: so many records on the way, of a log that has no number for each; others count none
    passed: int = 0

    @classmethod
    def of(cls, piece: Slice, reached: Place, passed: int = 0) -> Move:
        """The move of a slice that came so far, over so many records."""
        return cls(piece.lane, piece.from_offset, reached, piece.epoch, passed)

    def stay(self) -> Move:
        """A move to where the lane is: it succeeds if the lane is there, under this epoch."""
        return Move(self.lane, self.from_offset, self.from_offset, self.epoch)

    def undone(self) -> Move:
        """The move that takes this one back."""
        return Move(self.lane, self.to_offset, self.from_offset, self.epoch, -self.passed)


def moves_of(
    slices: Sequence[Slice], reached: Sequence[Place], passed: Sequence[int] = ()
) -> tuple[Move, ...]:
    """The moves of slices that came so far; ``passed`` may be empty where their log counts."""
    counted = passed or (0,) * len(slices)
    return tuple(Move.of(*move) for move in zip(slices, reached, counted, strict=True))


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What an attempt read of an open slice, written down before it wrote anything of it."""

    lane: LaneId
    from_offset: Place
    #: as far as it came
    until_offset: Place
    #: of the slice
    epoch: int
    #: how many there were
    records: int


@dataclass(frozen=True, slots=True)
class LaneStart:
    """First positions for lanes of a stream."""

    stream: StreamId
    #: id that its log gave the topic; None: it is not there, and the stream begins without lanes
    topic_id: str | None
    #: first place by name of the lane
    offsets: Mapping[str, Place]
    #: the id by which the stream's topic was known before; None for no topic yet
    known_id: str | None = None
    #: of those that follow others
    parents: Lineage = field(default_factory=dict)
    #: under which alone it is done, as whoever asks chose the places; None: whatever it is
    epoch: int | None = None
    #: those that follow others are deeper than these; needless where the places of both compare
    deeper: bool = True
    #: of a stream that has not begun yet; nothing is done if it has, as the places are others then
    begins: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """One use case as deployed: where its code is, and what a driver must know to plan it.

    The code itself is not kept here: a driver takes the copy that has the digest (``versions/``).
    """

    use_case: str
    #: path of the Python file that held it when it was deployed
    module: str
    #: SHA-256 of all of its local code, hexadecimal: the version of the use case
    digest: str
    #: topic of a tenant, such as ``{tenant}.visits``
    topic: str
    order: Order = Order.LANE
    #: into how many buckets each lane of its log is divided; 1: into none
    buckets: int = 1
    #: where a stream begins, as ``starting.py`` reads it
    starting_offsets: str = "earliest"
    #: every tenant has it; otherwise streams are added one by one
    all_tenants: bool = True
    #: topics that its pattern matches make tenants of those whose they are
    creates_tenants: bool = False
    #: share of the executors against other use cases
    priority: int = 1
    #: options from the YAML file, handed to the handler as ``context.options``
    options: Mapping[str, str] = field(default_factory=dict)
    bad_record: BadRecordPolicy = BadRecordPolicy.SUSPEND
    #: how often a handler that raised or hung is tried again before that is held against the record
    retries: int = 3
    #: seconds one call of the handler may take
    handler_timeout_s: float = 30.0
    #: most records a second of one lane, of all its buckets together; None is no limit
    max_rate_per_lane: float | None = None
    data_loss: DataLossPolicy = DataLossPolicy.FAIL
    #: for a rerun: what its weight is multiplied with, so that fresh records come first
    share: float = 1.0
    #: for a rerun: where each lane ends, what is not named being left out; None is no rerun
    until: Mapping[str, Place] | None = None
    #: for people: how often effects happen, and where they go; empty where nobody has said it yet
    guarantee: str = ""
    sink: str = ""
    #: what becomes of a stream that was left alone; None: it goes on where it stopped
    restart: Restart | None = None
    #: given by the store at each deployment, also of what is there already; larger than before
    revision: int = field(default=0, compare=False)

    @property
    def division(self) -> Division:
        """How each lane of its log is divided."""
        return Division(self.buckets, self.buckets > 1 and self.order is Order.NONE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a driver says to a deployment: that it runs it, or why not."""

    driver: str
    use_case: str
    #: that of the deployment
    revision: int
    #: digest of what it runs; None: it runs no version of the use case
    digest: str | None
    #: since when it says so, in seconds since 1970
    since_s: float
    #: why it does not run what was deployed; None: it does
    error: str | None = None
    #: what it refused it tries again by itself
    again: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """A driver as the others see it in the store."""

    name: str
    #: grows with each start under this name
    number: int
    #: grows as long as it lives
    beats: int
    use_cases: frozenset[str]


class FailureState(StrEnum):
    """What became of a failure. Its lane is stopped while it is open."""

    OPEN = "open"
    RETRIED = "retried"  #: the lane goes on at the record; should it fail again, that is a new one
    #: the lane goes on behind the record, which is in the dead letters, or behind what was lost
    SKIPPED = "skipped"


#: what the other tenants of a use case are told when a failure stopped it for all
STOPPED_BY_ANOTHER = "use case stopped by a failure of another tenant"


@dataclass(frozen=True, slots=True)
class Failure:
    """A slice that failed for good, with what is needed to understand it and to run it again."""

    slice: Slice
    error: SliceError
    #: when it failed last
    at_s: float
    #: how often it was tried; 0 for a range that is not read any more
    attempts: int = 1
    state: FailureState = FailureState.OPEN
    #: given by the store
    id: int | None = None
    #: how often it was kept: once, and each time that it was retried and failed again
    times: int = 1
    #: whether the record that it names is kept with it; false where its tenant has no room left
    record_kept: bool = True
    #: where the lane goes on if the record that it names is passed over; None: it names none
    behind: Place | None = None

    @property
    def unread(self) -> bool:
        """Whether nothing failed: its log lost the range, or it was passed over as too old."""
        return self.attempts == 0

    @property
    def became(self) -> str:
        """What became of it, in the words of the glossary: nobody skipped what was not read."""
        passed_over = self.unread and self.state is FailureState.SKIPPED
        return "passed over" if passed_over else self.state.value

    @property
    def place(self) -> tuple[LaneId, str, Place, bool]:
        """The same for failures at the same record, or of slices that begin at the same offset.

        Also where the list that its stream reads became longer in between.
        """
        piece, offset = self.slice, self.error.offset
        at = piece.from_offset if offset is None else offset
        return piece.lane, piece.lane_topic, at, offset is None

    def comes_again(self, after: Failure) -> bool:
        """Whether it is at the place of an earlier one, and of the same record, as far as is known.

        Of a topic that was made again, or a log that was cut, another record has the same offset.
        """
        records = [
            (failure.error.timestamp_ms, failure.error.raw_key, failure.error.raw_value)
            for failure in (self, after)
            if failure.record_kept and failure.error.timestamp_ms is not None
        ]
        return self.place == after.place and (len(records) < 2 or records[0] == records[1])

    @property
    def skipped_from(self) -> frozenset[Place]:
        """Positions of the lane from which it can be skipped without losing another record.

        The slice begins where the lane stopped. That is the record's offset, or one before it with
        only a gap between: compaction and transactions leave offsets without records. There is none
        if the record is not in the slice, nor of a whole slice whose end only reading would tell.
        """
        piece, offset = self.slice, self.error.offset
        if offset is None:
            return frozenset() if piece.is_open else frozenset({piece.from_offset})
        if not piece.from_offset <= offset < piece.until_offset:
            return frozenset()
        return frozenset({piece.from_offset, offset})

    @property
    def skipped_records(self) -> int:
        """How many records are skipped with it, at most."""
        return self.slice.records if self.error.offset is None else 1

    @property
    def skipped_to(self) -> Place:
        """The position behind the record, or behind the slice if no record is named.

        `OPEN` where only reading would tell it; such a slice cannot be skipped.
        """
        if self.error.offset is None:
            return self.slice.until_offset
        assert self.behind is not None, "whoever names a record says what is behind it"
        return self.behind
