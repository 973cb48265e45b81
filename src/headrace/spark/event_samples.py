"""When records happened, by samples: Kafka tells it, or the use case's own ``event_time``.

Delays are counted from some records of a slice, and a use case may say when these happened. That is
code of somebody else, for a figure: it may raise, hang, leave or look at the wrong thing, and none
of that is worth a slice. So it has a moment of time, and where it fails Kafka's timestamps stand.

What takes its whole worker along cannot be held here. So it is asked before anything is written,
within the crash marker of its slice (``bin_run.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from headrace.errors import words_of
from headrace.payload.event_times import EventTime
from headrace.process.crash_points import PlayedKill
from headrace.spark.timeouts import CallOverdue, bounded

log = structlog.get_logger(__name__)

#: seconds that a use case has to tell when a few records happened
LONGEST_S = 1.0


def sample_s(records: pa.Table, most: int, event_time: EventTime | None = None) -> list[float]:
    """When up to ``most`` records happened, evenly spread over the rows, in seconds since 1970."""
    rows = records.num_rows
    if rows > most:
        chosen = pa.array([index * (rows - 1) // (most - 1) for index in range(most)])
        records = (records if event_time else records.select(["timestamp"])).take(chosen)
    stamps: list[int] = pc.cast(records["timestamp"], pa.int64()).to_pylist()  # type: ignore[assignment]
    by_kafka = [stamp / 1000 for stamp in stamps]
    if event_time is None or not rows:
        return by_kafka
    told = _told_s(event_time, records)
    return [k if stamp is None else stamp for stamp, k in zip(told, by_kafka, strict=True)]


def _told_s(event_time: EventTime, records: pa.Table) -> Sequence[float | None]:
    """What the use case says; nothing where it fails."""
    try:
        told = bounded(lambda: _seconds(event_time, records), LONGEST_S)
        if len(told) == records.num_rows and all(
            seconds is None or isfinite(seconds) for seconds in told
        ):
            return told
        why = f"{len(told)} times for {records.num_rows} records, or one that is not finite"
    except PlayedKill:
        raise
    except CallOverdue:
        why = f"it took over {LONGEST_S:g} s for {records.num_rows} records"
    except BaseException as error:  # SystemExit, say: the worker is not theirs to end
        why = words_of(error)
    log.warning("event time is not told; delays are from Kafka's timestamps", error=why)
    return [None] * records.num_rows


def _seconds(event_time: EventTime, records: pa.Table) -> list[float | None]:
    return [None if seconds is None else float(seconds) for seconds in event_time(records)]
