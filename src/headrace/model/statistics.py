"""What a driver tells of itself: figures for people, never for decisions.

An operator asks who lags, by how much, since when and why, and the process that answers is not the
one that knows. So each driver puts these values into the store every second or two (`Report`), and
once a minute what is worth keeping (`Point`); consoles and metrics read them there.

Seconds are seconds since 1970 where the name ends in ``at_s`` and spans elsewhere. A delay is from
a record's Kafka timestamp (or its event time, where a use case names one) to its committed effect.
Percentiles come from mergeable sketches; None stands where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.places import Place
from headrace.model.streams import StreamId


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measured value was spread over a window, in seconds."""

    count: int = 0
    min_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None


class LagIs(StrEnum):
    """How a lag is known; the worst last."""

    EXACT = "exact"  #: its log counts what waits
    ABOUT = "about"  #: guessed from what readings told, as its log does not say where it ends
    UNKNOWN = "unknown"  #: not even that

    def told(self, records: int) -> str:
        """A lag in a word or two."""
        if self is LagIs.UNKNOWN:
            return "unknown"
        return f"about {records}" if self is LagIs.ABOUT else f"{records}"


def worst_known(kinds: Iterable[LagIs]) -> LagIs:
    """How lags together are known."""
    return max(kinds, key=list(LagIs).index, default=LagIs.EXACT)


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """One lane of a stream."""

    name: str
    position: Place
    #: where its log ends; `UNKNOWN` as long as nobody knows, or where only reading tells
    end: Place
    #: number of the open failure it is stopped at
    failure: int | None = None
    #: how long ago its log ended where the position is now; 0 without lag
    lag_s: float = 0.0
    #: records that wait, as its log says
    lag_records: int = 0
    lag_is: LagIs = LagIs.EXACT


class ShownState(StrEnum):
    """What people are shown that a stream does; a driver shows all but the last two."""

    ACTIVE = "active"
    THROTTLED = "throttled"
    RETRYING = "retrying"
    WAITING = "waiting"
    SUSPENDED = "suspended"  #: ``suspended 1/4`` where that many of its lanes are
    REMOVED = "removed"
    NOT_HELD = "not held"  #: nobody runs it, as far as the store knows
    UNKNOWN = "unknown"  #: somebody holds it and says nothing

    @classmethod
    def of(cls, shown: str) -> ShownState:
        """The state in what is shown, such as ``suspended 1/4``; a strange one is unknown."""
        return _SHOWN.get(shown) or _SHOWN.get(shown.partition(" ")[0], cls.UNKNOWN)


_SHOWN = {state.value: state for state in ShownState}


@dataclass(frozen=True, slots=True)
class WriterFigures:
    """What was written by one schema, over the last hour."""

    #: where records name it: ``value`` or ``key``
    column: str
    #: its number at the registry, or its GUID; empty: all schemas beyond the newest few
    schema_id: str
    records: int
    #: when the first and the last of them were committed
    first_at_s: float
    last_at_s: float


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One stream over the last one to two half-minutes, and as it is now."""

    stream: StreamId
    topic: str
    #: a ``ShownState``, or "suspended 1/4"
    state: str
    lag_records: int
    #: how long ago the log ended where the position is now; 0 without lag
    lag_s: float
    #: records a second that came into the topic
    in_per_s: float
    #: records a second that were committed
    out_per_s: float
    delay: Spread
    throttled: bool
    #: share of all task-seconds used in the window, 0 to 1
    task_share: float
    records_total: int
    dead_letters_total: int
    lost_records_total: int
    #: the wave that runs it, or the last one
    wave: str
    #: why it does not go on, or what happened to it within the last minute, in one line
    note: str
    lanes: tuple[LaneFigures, ...]
    #: when it is tried again, if it is "retrying" and waits
    retry_at_s: float | None = None
    #: by which schemas its records of the last hour were written, the newest first
    writers: tuple[WriterFigures, ...] = ()
    lag_is: LagIs = LagIs.EXACT
    #: as too old, of a stream that was left alone
    passed_over_records_total: int = 0
    #: what is wrong with its topic, and keeps nobody from reading it; empty: nothing is known
    topic_trouble: str = ""


class Outcome(StrEnum):
    """What became of a bin."""

    RUNNING = "running"
    DONE = "done"
    YIELDED = "yielded"  #: it met its budget and gave back what was left
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BinFigures:
    """One task: who ran in it."""

    #: a row of the timeline, from 0; no two bins that run at the same time have the same one
    slot: int
    #: up to 20 of them, those with the most records first
    tenants: tuple[str, ...]
    tenants_total: int
    records: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class WaveFigures:
    """One Spark job, running or ended within the last minutes."""

    wave: str
    use_case: str
    started_at_s: float
    #: None while it runs
    ended_at_s: float | None
    bins: tuple[BinFigures, ...]
    error: str = ""


@dataclass(frozen=True, slots=True)
class UseCaseFigures:
    """The waves of one use case over the last minutes."""

    use_case: str
    waves_total: int
    #: how long the longest task of a wave worked
    processing: Spread
    #: the rest of a wave's time: handed over, waiting for a slot, its result fetched
    scheduling: Spread
    #: from a record's timestamp to its committed effect, over all tenants
    delay: Spread
    records_per_s: float
    bytes_in_per_s: float
    #: what handlers gave to the sink, as Arrow counts it; None for DataFrame handlers
    bytes_out_per_s: float | None
    #: records a second that backpressure allows; None is no limit
    pace_per_s: float | None
    #: how often a worker found the state of a lane as it had left it, and how often not
    state_hits_total: int = 0
    state_misses_total: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """A server that a driver is without."""

    #: store or kafka
    what: str
    #: seconds since 1970
    since_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one driver tells."""

    driver: str
    at_s: float
    started_at_s: float
    slots: int
    slots_target: int
    slots_busy: int
    executors: int
    #: address of Spark's own pages; empty without one
    spark_ui_url: str
    streams: tuple[StreamFigures, ...]
    use_cases: tuple[UseCaseFigures, ...]
    #: newest first, at most 200
    waves: tuple[WaveFigures, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """What a stream went through in one span of time, as history keeps it.

    Both lags are the largest that were seen in the span.
    """

    stream: StreamId
    from_s: float
    #: how long the span is; short for what is fresh, longer for what is older
    span_s: float
    lag_records: int
    lag_s: float
    records_in: int
    records_out: int
    #: task-seconds used
    task_s: float
    delay: Spread
    #: the sketch that ``delay`` was read from, so that spans can be merged
    sketch: bytes = b""


class AlertKind(StrEnum):
    """What an operator is told without having asked."""

    STALLED = "stalled"  #: it has lag and may run, but nothing was committed for a minute
    LAG_GROWING = "lag-growing"  #: it is later than it should be, and getting later
    QUARANTINED = "quarantined"  #: a failure waits for a person's decision
    TOPIC_TROUBLE = "topic-trouble"  #: its topic is read, and is not as it should be
    DRIVER_LOST = "driver-lost"  #: a driver is silent, and nobody has taken its streams over


class Severity(StrEnum):
    """How soon somebody should look."""

    WARNING = "warning"  #: today
    CRITICAL = "critical"  #: now


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person should know; it lasts as long as its reason does."""

    kind: AlertKind
    severity: Severity
    #: None where no single tenant is concerned
    tenant: str | None
    use_case: str | None
    driver: str | None
    #: since when, in seconds since 1970
    since_s: float
    #: what is wrong and what to do, in one line
    text: str
