"""Adding up what happened to the slices of a bin, until it is time to write the receipts.

A slice may come in many portions, stop in the middle, be claimed by somebody else or never begin.
Each of these is one call here, so that the loop that runs the bin stays readable. Seconds that
slices share (reading, a call for several lanes, one sink transaction for many) are spread by
records, because that is what the cost model is fed with. What a sink says that one effect took is
of its lanes alone: else the neighbours of a tenant whose database hangs would pay for it. Records,
bytes and times are of what was done alone, and of each lane its own.

A lane that goes on past something that was not done loses it for good, so that cannot be said
here: a slice moves on from exactly where it stood, whatever the loop thinks.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from headrace.model.places import Place
from headrace.model.receipts import Behind, Receipt, SliceError, Writer, WrittenBy, most_written
from headrace.model.streams import LaneId, Slice
from headrace.payload.event_times import EventTime
from headrace.ports import DeadLetter, Effect, Written
from headrace.spark.event_samples import sample_s
from headrace.spark.lane_parts import counts_of, fractions_of, spread, tables_of
from headrace.spark.portions import Portion
from headrace.spark.row_places import passed, rows_at
from headrace.telemetry.tracing import MOST_LINKS

#: timestamps a receipt carries at most
SAMPLES = 32
#: records of a portion whose headers are looked at for traces
_TRACED_ROWS = 100


@dataclass(slots=True)
class _Line:
    #: how far the position is to be; after a claim it is ahead of what is done
    reached: Place
    #: everything before this is done
    done: Place
    #: records up to ``reached``, if their log has no number for each
    passed: int = 0
    #: records that were claimed
    claimed: int = 0
    committed: bool = False
    superseded: bool = False
    records: int = 0
    bytes: int = 0
    output_bytes: int = 0
    #: places of records that went to the dead letters, done or not
    aside: set[Place] = field(default_factory=set)
    own_s: float = 0.0
    stopped: bool = False
    writers: dict[Writer, int] = field(default_factory=dict)
    error: SliceError | None = None
    behind: Behind | None = None
    timestamps_s: list[float] = field(default_factory=list)
    traceparents: list[str] = field(default_factory=list)
    state_hits: int = 0
    state_misses: int = 0


class Tally:
    """The figures of one bin, by planned slice."""

    def __init__(
        self,
        slices: Sequence[Slice],
        started_s: float,
        *,
        traced: bool = False,
        event_time: EventTime | None = None,
        written_by: Callable[[pa.Table], Mapping[Writer, int]] | None = None,
    ) -> None:
        """Start with nothing reached.

        Args:
            slices: what is planned.
            started_s: monotonic time of the bin's beginning.
            traced: keep some records' places in traces.
            event_time: when records happened; None: as Kafka says.
            written_by: tells who wrote records; None: they do not say.
        """
        self._traced = traced
        self._event_time = event_time
        self._written_by = written_by
        self._sampled: dict[Slice, list[float]] = {}
        self._lines = {piece: _Line(piece.from_offset, piece.from_offset) for piece in slices}
        self._started_s = started_s
        self._own_s = 0.0
        self._written_s: defaultdict[LaneId, float] = defaultdict(float)
        self._offered: Counter[LaneId] = Counter()
        self._refused: Counter[LaneId] = Counter()

    def stopped(self, planned: Slice) -> bool:
        """Whether nothing more of this slice may be handled."""
        return self._lines[planned].stopped

    def claimed(self, portion: Portion, mine: bool) -> None:
        """The positions were moved before the handler, or were not ours to move."""
        if not mine:
            self.superseded(portion)
            return
        for (planned, piece, reached), count, own in zip(
            _lanes(portion), _passed(portion), counts_of(portion), strict=True
        ):
            line = self._lines[planned]
            _see_that_it_follows(piece, line.reached)
            line.reached, line.committed = reached, True
            line.passed += count
            line.claimed += own

    def spent(self, portion: Portion, seconds: float) -> None:
        """To decode and handle this portion took this long."""
        self._own_s += seconds
        for planned, fraction in zip(portion.planned, fractions_of(portion), strict=True):
            self._lines[planned].own_s += seconds * fraction

    def charged(self, effect: Effect, written: Written) -> None:
        """What this effect alone took of the sink's time is its own lanes', done or not."""
        if not written.seconds:
            return
        self._own_s += written.seconds
        for piece in effect.slices:
            self._written_s[piece.lane] += written.seconds / len(effect.slices)

    def found_state(self, planned: Slice, *, as_left: bool) -> None:
        """The state of its lane is as this worker left it, or has to be asked for."""
        self._lines[planned].state_hits += as_left
        self._lines[planned].state_misses += not as_left

    def stop(self, portion: Portion, error: SliceError | None) -> None:
        """Nothing of this portion is done, and nothing more of its slices may be."""
        for planned in portion.planned:
            self._lines[planned].stopped = True
        # Of merged slices one is to blame; an error names a record by its offset in that lane.
        self._lines[portion.blamed or portion.planned[0]].error = error

    def superseded(self, portion: Portion) -> None:
        """Somebody else has the lanes by now, or has moved them; nothing of it may be done."""
        for planned in portion.planned:
            self._lines[planned].superseded = self._lines[planned].stopped = True

    def found_nothing(self, portion: Portion) -> None:
        """An open slice was read, and nothing is to be done of it."""
        self.stop(portion, portion.error)
        self._lines[portion.planned[0]].behind = portion.behind

    def sample(self, portion: Portion) -> None:
        """Ask the use case when records of a portion happened, before anything of it is written."""
        self._sampled |= {
            planned: sample_s(own.records, SAMPLES, self._event_time)
            for planned, own in zip(portion.planned, _owned(portion, 0), strict=True)
        }

    def wrote(self, portion: Portion, written: Written, output_bytes: int) -> None:
        """The sink answered for this portion, which had come to so many bytes.

        What is superseded has no error: nothing before the record was done, so to skip the record
        would be to skip what is before it as well.
        """
        if written.error is not None or written.untried:
            self.stop(portion, written.error)
            return
        if written.superseded:
            self.superseded(portion)
            return
        counted = _passed(portion, written.reached)
        if written.reached is not None:
            portion = replace(portion, reached=written.reached, behind=None)
        for (planned, piece, reached), count, own in zip(
            _lanes(portion), counted, _owned(portion, output_bytes), strict=True
        ):
            line = self._lines[planned]
            _see_that_it_follows(piece, line.done)
            line.passed += count if reached > line.reached else 0
            line.done, line.reached = reached, max(line.reached, reached)
            line.committed = line.committed or written.committed
            line.behind = portion.behind
            self._count(line, own, self._sampled.pop(planned, None))
        if portion.error is not None or portion.yields:
            self.stop(portion, portion.error)

    def offered(self, effect: Effect, written: Written) -> None:
        """The sink was given these rows for the first time, and took them or did not."""
        lane = effect.slices[0].lane
        self._offered[lane] += effect.output.num_rows
        self._refused[lane] += sum(row.may_be_taken for row in written.refused)

    def _count(self, line: _Line, own: _Own, sampled_s: list[float] | None) -> None:
        line.records += own.records.num_rows
        line.bytes += own.bytes
        line.output_bytes += own.output_bytes
        line.timestamps_s += sample_s(own.records, SAMPLES) if sampled_s is None else sampled_s
        if self._traced and len(line.traceparents) < MOST_LINKS:
            wanted = MOST_LINKS - len(line.traceparents)
            line.traceparents += traceparents_of(own.records, wanted)
        if self._written_by is not None:
            self._count_writers(line, own.records)

    def _count_writers(self, line: _Line, records: pa.Table) -> None:
        """Of those that decoded: in bad ones may stand anything."""
        assert self._written_by is not None
        if line.aside:
            bad = rows_at(records, line.aside)
            records = records.filter(pa.array(~bad))
        found = Counter(line.writers)
        found.update(self._written_by(records))
        line.writers = most_written(found)

    def set_aside(self, letter: DeadLetter) -> None:
        """This record went to the dead letters; it counts once its slice has come past it."""
        if letter.error.offset is not None:
            self._lines[letter.slice].aside.add(letter.error.offset)

    def fail_all(self, error: SliceError) -> None:
        """Nothing could even begin."""
        for line in self._lines.values():
            line.error = error

    def trouble_at_last(self, error: SliceError) -> None:
        """Something went wrong when all was over: what was done counts, and all hear of it."""
        for line in self._lines.values():
            if line.error is None and not line.superseded:
                line.error = error

    def receipts(self) -> list[Receipt]:
        """One receipt for each slice; time nobody owns is spread by records.

        What a log lets wait while others could be asked is nobody's: a lane that is visited alone
        would look many times as dear as in company, be thought slow, and so be left alone.
        """
        idle_s = sum(line.behind.idle_s for line in self._lines.values() if line.behind)
        shared_s = max(0.0, time.monotonic() - self._started_s - self._own_s - idle_s)
        weight = sum(1 + line.records for line in self._lines.values()) or 1
        return [
            Receipt(
                slice=planned,
                reached=line.reached,
                committed=line.committed,
                passed=line.passed,
                lost_from=line.done if line.committed and line.done < line.reached else None,
                lost=max(0, line.claimed - line.records),
                superseded=line.superseded,
                records=line.records,
                bytes=line.bytes,
                output_bytes=line.output_bytes,
                seconds=line.own_s
                + self._written_s[planned.lane]
                + shared_s * (1 + line.records) / weight,
                timestamps_s=tuple(_thin(line.timestamps_s, SAMPLES)),
                # Of those beyond, the next slice tells: their records come again.
                dead_letters=sum(offset < line.reached for offset in line.aside),
                traceparents=tuple(line.traceparents),
                error=line.error,
                offered=self._offered[planned.lane],
                refused=self._refused[planned.lane],
                writers=tuple(map(WrittenBy, line.writers.keys(), line.writers.values())),
                behind=line.behind,
                state_hits=line.state_hits,
                state_misses=line.state_misses,
            )
            for planned, line in self._lines.items()
        ]


class _Own(NamedTuple):
    """What of a portion is one lane's own."""

    records: pa.Table
    bytes: int
    output_bytes: int


def _owned(portion: Portion, output_bytes: int) -> Iterable[_Own]:
    whole = portion.records
    if len(portion.planned) == 1:
        return (_Own(whole, whole.nbytes, output_bytes),)
    tables = tables_of(portion)
    bytes_ = spread(whole.nbytes, [table.nbytes for table in tables])
    output = spread(output_bytes, [table.num_rows for table in tables])
    return map(_Own, tables, bytes_, output)


def _lanes(portion: Portion) -> Iterator[tuple[Slice, Slice, Place]]:
    """Each planned slice, where it stood before this portion, and where it is after it."""
    return zip(portion.planned, portion.slices, portion.reached, strict=True)


def _passed(portion: Portion, came: tuple[Place, ...] | None = None) -> Sequence[int]:
    """Records of each slice up to where a portion comes; at least so many where another one came.

    That one may have taken more, and did not say how many: no more than its slice has.
    """
    here = passed(portion.records, len(portion.slices))
    if not here:
        return [0] * len(portion.slices)
    return [
        count if at == reached else max(count, planned.records)
        for count, planned, reached, at in zip(
            here, portion.planned, portion.reached, came or portion.reached, strict=True
        )
    ]


def _see_that_it_follows(piece: Slice, stood: Place) -> None:
    """A gap is a bug of ours; nothing behind it may count as done."""
    if piece.from_offset != stood:
        raise AssertionError(f"{piece} does not begin where its lane stood, at {stood}")


def traceparents_of(records: pa.Table, most: int) -> list[str]:
    """Up to ``most`` different ``traceparent`` headers of the first records."""
    column = records["headers"].slice(0, _TRACED_ROWS)
    found: dict[str, None] = {}
    if column.null_count < len(column):
        for headers in column:
            for header in headers.as_py() or ():
                if header["key"] == "traceparent" and header["value"] is not None:
                    found[header["value"].decode("ascii", "replace")] = None
            if len(found) >= most:
                break
    return list(found)[:most]


def _thin(values: list[float], most: int) -> list[float]:
    if len(values) <= most:
        return sorted(values)
    ordered = sorted(values)
    return [ordered[index * (len(ordered) - 1) // (most - 1)] for index in range(most)]
