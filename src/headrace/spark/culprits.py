"""Which record it is that a handler, a decoder or a sink cannot take, found by calling again.

A binary search finds the shortest prefix that fails, in at most ``log2(n) + 1`` more calls; its
last record is to blame, and for what *it* raised: another one than was met first may have another
fault.

One that hangs is searched for with less patience for each call, and blamed only if it hangs by
itself too, for the whole of it.

What is no record's fault, such as a server that is away for a moment, says nothing of the records
that were given. A search that meets it ends there and blames nobody.

What becomes of a record that was found is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import BadRecord, ConfigError, HandlerHung, TargetMissing, Temporary
from headrace.model.receipts import SliceError
from headrace.spark.slice_errors import row_of

#: raised whichever records are given
NO_RECORDS_FAULT = (Temporary, TargetMissing)

#: told by a sink whichever effects it is given: what it writes to, or how it is set up, is wrong
_OF_THE_SINK = {TargetMissing.__name__, ConfigError.__name__}

#: handles records, or raises
Call = Callable[[pa.Table], object]


class Blamed(NamedTuple):
    """A record, by its row, and what is held against it."""

    #: None: it cannot be pinned to one
    row: int | None
    raised: Exception


class Failing(NamedTuple):
    """The shortest prefix that fails."""

    rows: int
    raised: Exception


def to_blame(call: Call, hurried: Call | None, records: pa.Table, raised: Exception) -> Blamed:
    """The record to blame for what a call with all of them raised.

    Args:
        call: what raised.
        hurried: the same with less patience, for one that hangs; None: nothing is called again.
        records: all that were given.
        raised: by the call.

    Raises:
        Temporary, TargetMissing: met by the search, which knows nothing then.
    """
    if isinstance(raised, NO_RECORDS_FAULT) or records.num_rows == 0:
        return Blamed(None, raised)
    told = _told_row(raised)
    if told is not None:
        return Blamed(min(max(told, 0), records.num_rows - 1), raised)
    if hurried is None:
        return Blamed(None, raised)
    hangs = isinstance(raised, HandlerHung)
    rows, found = shortest_failing(hurried if hangs else call, records, raised)
    if not (hangs and isinstance(found, HandlerHung)):
        return Blamed(rows - 1, found)
    # A busy machine can make any call slow: what the short patience suspects has its full time.
    comes_back = records.num_rows > 1 and raised_by(call, records.slice(rows - 1, 1)) is None
    return Blamed(None if comes_back else rows - 1, raised)


def may_be_a_records(error: SliceError) -> bool:
    """Whether a record may be at fault for what a sink has told."""
    return not error.temporary and error.code not in _OF_THE_SINK


def shortest_failing(call: Call, records: pa.Table, raised: Exception) -> Failing:
    """The shortest prefix that fails of records of which all together ``raised``.

    Raises:
        Temporary, TargetMissing: as `to_blame` does.
    """
    works, fails = 0, records.num_rows
    while fails - works > 1:
        middle = (works + fails) // 2
        found = raised_by(call, records.slice(0, middle))
        if found is None:
            works = middle
        else:
            fails, raised = middle, found
    return Failing(fails, raised)


def raised_by(call: Call, records: pa.Table) -> Exception | None:
    """What these records make a call raise; None if they do not.

    Raises:
        Temporary, TargetMissing: as `to_blame` does.
    """
    try:
        call(records)
    except NO_RECORDS_FAULT:
        raise
    except Exception as error:
        return error
    return None


def _told_row(raised: Exception) -> int | None:
    return row_of(raised) if isinstance(raised, BadRecord) else None
