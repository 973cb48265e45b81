"""What is told of an error: by whoever raised it, at which record, as a ``SliceError``.

A task has to hand back what a handler, a sink, a reader or a format raised, as one kind of value
that says whether to try again, and with the bytes of the record to blame, which nobody may have any
more when a person looks. Texts and waits of strangers have bounds here.

Which record is to blame, and what follows from it, is not decided here.
"""

from __future__ import annotations

import math
import operator
import time
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from headrace.errors import (
    BadRecord,
    HandlerError,
    HeadraceError,
    Temporary,
    WorkerKilled,
    as_ours,
    code_of,
    shortened,
    text_of,
    words_of,
)
from headrace.model.receipts import SliceError
from headrace.model.streams import Slice
from headrace.spark.row_places import place_of_row
from headrace.spark.timeouts import TELLING_S, guarded
from headrace.versions.quoting import traceback_of

#: characters of what is told: Python quotes what it cannot read, which may be a whole record
MESSAGE = 4_000
#: whoever asks for a longer wait is asked again then; a moment far beyond has no date to be shown
_LONGEST_WAIT_S = 30 * 86_400.0
#: where one of ours has what is told of the error that it stands for
_TOLD: Final = "_told"


def error_of(error: BaseException) -> SliceError:
    """Translate what a handler, sink or reader raised; foreign errors become ``HandlerError``."""
    kind = type(error).__name__
    if type(error).__module__ == HeadraceError.__module__:
        told: object = vars(error).get(_TOLD)
        if type(told) is SliceError:
            return told
    known = isinstance(error, HeadraceError)
    says, began_s = text_of if known else words_of, time.monotonic()
    message = guarded(lambda: shortened(says(error), MESSAGE), lambda: kind)
    # A text that took all of its time would take it again in the traceback.
    is_slow = time.monotonic() - began_s >= TELLING_S
    return SliceError(
        temporary=isinstance(error, Temporary),
        code=code_of(error) if isinstance(error, HeadraceError) else HandlerError.__name__,
        message=message,
        traceback=kind
        if is_slow
        else guarded(lambda: shortened(_traceback_of(error)), lambda: kind),
        retry_after_s=guarded(lambda: _wait_of(error), lambda: None),
    )


def freed_of(error: BaseException) -> HeadraceError:
    """One of ours that says the same, and holds nothing of theirs.

    What an error has, as an attribute, is closed with it, which may hang; so whoever is given this
    lets the other one go while the time is counted.
    """
    told = error_of(error)
    made: HeadraceError = HandlerError(told.message)
    if isinstance(error, BadRecord):
        bad: Any = BadRecord(0, reason_of(error))
        bad.row = row_of(error)
        made = bad
    elif isinstance(error, HeadraceError):
        made = as_ours(error, told.message)
    vars(made)[_TOLD] = told
    return made


def row_of(bad: Any) -> int | None:
    """The row that a handler calls bad; None if that is no number, so that it is searched for."""
    return guarded(lambda: operator.index(bad.row), lambda: None)


def _traceback_of(error: BaseException) -> str:
    """Its traceback; one that somebody made by hand may hold what Python cannot print."""
    try:
        return traceback_of(error)
    except Exception as trouble:
        return f"its traceback cannot be had, {words_of(trouble)}"


def _wait_of(error: BaseException) -> float | None:
    """The wait that it asks for, be it as text; None if that is no time that one can wait."""
    if not isinstance(error, Temporary):
        return None
    try:
        wait_s = float(getattr(error, "retry_after_s", None))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return min(wait_s, _LONGEST_WAIT_S) if math.isfinite(wait_s) else None


def name_record(failure: SliceError, records: pa.Table, row: int) -> SliceError:
    """The same failure with the offset, the time and the bytes of the record to blame."""
    # Not its time: Python has no name for one after the year 9999, and a sender may write any.
    told = records.select(["key", "value", "headers"])
    record: dict[str, Any] = told.slice(row, 1).to_pylist()[0]
    headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
    stamp_ms: int = records["timestamp"][row].value
    return replace(
        failure,
        offset=place_of_row(records, row),
        raw_key=record["key"],
        raw_value=record["value"],
        raw_headers=headers,
        timestamp_ms=stamp_ms,
    )


def killed(use_case: str, planned: Slice) -> SliceError:
    """What is told of a worker that died at a slice."""
    return error_of(
        WorkerKilled(
            f"the Python worker died while use case {use_case} handled {planned}: a crash in "
            "native code, os._exit, out of memory, or all files of the process closed"
        )
    )


def undecoded_error(records: pa.Table, row: int, reason: str) -> SliceError:
    """What is told of a record that does not decode."""
    error = BadRecord(row, reason)
    return replace(name_record(error_of(error), records, row), message=refusal(error, records, row))


def refusal(raised: BadRecord, records: pa.Table, row: int) -> str:
    """What a handler said of a record; rows count within a call, so the place in Kafka is told."""
    topic, partition, offset = (
        records[column][row].as_py() for column in ("topic", "partition", "offset")
    )
    where = f"bad record at offset {offset} of {topic}[{partition}]"
    return shortened(f"{where}: {reason_of(raised)}", MESSAGE)


def reason_of(raised: BadRecord) -> str:
    """Why somebody called a record bad; their own kind of error may not know, or not tell."""

    def said() -> str:
        reason = getattr(raised, "reason", raised)
        return text_of(raised) if reason is raised else shortened(str(reason), MESSAGE)

    return guarded(said, lambda: type(raised).__name__)
