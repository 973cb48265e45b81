"""What the planner is given and what it answers.

A snapshot holds everything a decision depends on, so that a plan can be made again, anywhere, from
a file: `headrace plan snapshot.json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.lineage import Ahead
from headrace.model.places import Place
from headrace.model.streams import Order, StreamId
from headrace.model.waves import Wave


@dataclass(frozen=True, slots=True)
class Contrast:
    """What slices of different size that came back one after the other told of a stream's cost."""

    #: the slice that came back last; 0 records: none yet
    records: int = 0
    #: how many it was planned with, if more: of merged lanes what was too young is left
    planned: int = 0
    seconds: float = 0.0
    #: how much is known: a pair of which one is twice as large weighs a half, older ones less
    weight: float = 0.0
    #: growth of log seconds by log records: 0 is a fixed cost, 1 is so much a record
    growing: float = 1.0
    #: where it was so: natural logarithm of the records between the two, and how far these differ
    log_records: float = 0.0
    log_width: float = 0.0

    @property
    def size(self) -> int:
        """What the last slice might have had; as many as it had, where nothing else is said."""
        return max(self.records, self.planned)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a record of a stream costs, as moving averages of its receipts."""

    seconds_per_record: float = 0.000_02
    bytes_per_record: float = 500.0
    #: fixed seconds a slice costs however small it is; where lanes are merged, all of them together
    seconds_per_slice: float = 0.000_5
    #: standard deviation of the seconds of a slice over their prediction: 0 is steady
    spread: float = 1.0
    #: receipts behind these figures; 0 means they are first guesses
    samples: int = 0
    #: variance of the natural logarithms of the two figures of seconds: 1 is a factor of e or so
    doubt_slice: float = 1.0
    doubt_record: float = 9.0
    contrast: Contrast = field(default_factory=Contrast)


@dataclass(frozen=True, slots=True)
class LaneView:
    """One lane of a stream as the planner sees it."""

    name: str
    #: next place to read
    position: Place
    #: what may be planned ends here; at most the end of the log (for read_committed: the last
    #: stable offset). `OPEN` where the log does not know it
    end: Place
    #: records that wait up to there, as its log counts or guesses
    waits: int
    #: a slice of this lane is running
    in_flight: bool = False
    #: the log has more behind ``end``, or nobody knows that it has not
    goes_on: bool = False
    #: where lanes are merged: records that the last call of them took of this one
    taken: int = 0
    #: lanes that it follows, and those that these do; it is closed until all of them are done.
    #: Where nothing of its stream waits for any, none are told
    parents: tuple[Ahead, ...] = ()
    #: what comes above in the versions of its records
    depth: int = 0
    #: and below, of its next record, where its log has no number for each
    ordinal: int = 0
    #: its log does not say where it ends, whatever it is to be planned up to
    untold: bool = False
    #: of a bucket: in so many places one of its records is expected
    every: int = 1
    #: of one that tells no end: since which monotonic second it is due to be visited
    due_s: float = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it may be read yet."""
        return not all(parent.is_done for parent in self.parents)

    def places_of(self, records: int, most: int) -> int:
        """Over how many places a slice of so many records goes, where ``most`` may be records."""
        return min(records * self.every, max(records, most))


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream as the planner sees it; only active streams are shown to it."""

    id: StreamId
    topic: str
    #: in the order of their names (`lane_names.in_order`); a tie goes to the first
    lanes: tuple[LaneView, ...]
    order: Order = Order.LANE
    epoch: int = 0
    weight: float = 1.0
    cost: Cost = field(default_factory=Cost)
    #: task-seconds it was owed and did not get in earlier turns
    credit_s: float = 0.0
    #: what its throttle lets it take now; None is no limit
    allowance_records: int | None = None
    allowance_bytes: int | None = None
    #: streams of one label share bins with each other only, so that the one among them that hangs
    #: or kills is found; empty is no suspicion
    apart: str = ""
    #: it hung, or killed its worker, when it was last alone
    hung: bool = False
    #: lanes of it run apart and are not shown; should others hang too, that may not take long
    spared: bool = False
    #: seconds one call of its handler may take, by itself, before it counts as hanging
    call_limit_s: float = 30.0

    def most_places(self, limits: Limits) -> int:
        """Places that a slice of a bucket may go over, should all that is there be its own."""
        bytes_each = max(1.0, self.cost.bytes_per_record)
        return max(1, min(limits.slice_records, int(limits.slice_bytes / bytes_each)))


@dataclass(frozen=True, slots=True)
class Limits:
    """How a plan may look, whatever the load."""

    #: predicted seconds a bin may have; a slower stream gets a smaller slice
    bin_budget_s: float = 1.0
    #: a slice that costs much however small may take so many times that, with a bin to itself
    fixed_times: float = 8.0
    #: bins of one wave; a wave ends when its slowest bin ends, so few means less waiting
    bins_per_wave: int = 1
    #: most records and bytes of one slice; they bound the memory of a worker
    slice_records: int = 100_000
    slice_bytes: int = 64 * 1024 * 1024
    #: a further bin is opened only for at least this much predicted work: a Spark job has its price
    min_bin_s: float = 0.1
    #: most records a turn takes of a stream nobody has a receipt of; four times more after each
    probe_records: int = 200
    #: a stream with more predicted work than this waiting shares no bin with quick ones, whose
    #: receipts would have to wait for it
    quick_s: float = 0.1
    #: budget of a bin in the slot that is kept for quick work
    express_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one plan depends on."""

    #: names the turn; wave ids start with it
    turn: str
    streams: tuple[StreamView, ...]
    #: tasks that could start now
    free_slots: int
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Credit:
    """What a stream is owed when the turn is over."""

    stream: StreamId
    credit_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The waves to start now, and the credits to bring to the next turn."""

    waves: tuple[Wave, ...]
    credits: tuple[Credit, ...] = ()
