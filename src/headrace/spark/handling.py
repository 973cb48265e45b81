"""Calling a user's handler on some records, and finding the record that it cannot take.

A handler gets a table of thousands of records and raises: which one was it? Without an answer a
strict order means that the whole slice waits for a person. A handler only computes (its sink does
the effects), so it can be called again on a shorter prefix: a binary search finds the shortest one
that fails, in at most ``log2(n) + 1`` more calls. Everything before the culprit goes on to the
sink, the position stops exactly at it, and its bytes are kept.

This module reads no records and writes no sink.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import BadRecord, HandlerError, HeadraceError, Temporary, WrongSchema
from headrace.model.receipts import SliceError
from headrace.model.streams import Guarantee
from headrace.use_cases import SliceContext, UseCase


@dataclass(frozen=True, slots=True)
class Handled:
    """What a handler made of some records."""

    #: None: nothing of it can be used
    output: pa.Table | None
    #: how many records the output stands for
    rows: int
    error: SliceError | None = None


def handle(use_case: UseCase, records: pa.Table, context: SliceContext) -> Handled:
    """Run the handler; on failure keep the longest prefix that works and name the culprit."""
    try:
        return Handled(_call(use_case, records, context), records.num_rows)
    except Temporary as error:
        return Handled(None, 0, error_of(error))
    except BadRecord as error:
        bad, failure = min(max(error.row, 0), records.num_rows - 1), error_of(error)
    except (Exception, SystemExit) as error:
        failure = error_of(error)
        if use_case.guarantee is Guarantee.AT_MOST_ONCE:
            # Its positions have moved already: a second call could make a second effect.
            return Handled(None, 0, failure)
        bad = _shortest_failing_prefix(use_case, records, context) - 1
    if records.num_rows == 0:
        return Handled(None, 0, failure)
    return _keep_prefix(use_case, records, context, bad, failure)


def _keep_prefix(
    use_case: UseCase, records: pa.Table, context: SliceContext, bad: int, failure: SliceError
) -> Handled:
    named = name_record(failure, records, bad)
    if bad == 0 or use_case.guarantee is Guarantee.AT_MOST_ONCE:
        return Handled(None, 0, named)
    try:
        return Handled(_call(use_case, records.slice(0, bad), context), bad, named)
    except (Exception, SystemExit):
        # The handler is not repeatable: blame nothing in particular and keep nothing.
        return Handled(None, 0, failure)


def _shortest_failing_prefix(use_case: UseCase, records: pa.Table, context: SliceContext) -> int:
    works, fails = 0, records.num_rows
    while fails - works > 1:
        middle = (works + fails) // 2
        try:
            _call(use_case, records.slice(0, middle), context)
            works = middle
        except (Exception, SystemExit):
            fails = middle
    return fails


def _call(use_case: UseCase, records: pa.Table, context: SliceContext) -> pa.Table | None:
    output = use_case.handler(records, context)
    if output is None:
        return None
    if not isinstance(output, pa.Table):
        raise WrongSchema(
            f"use case {use_case.name} returned {type(output).__name__}; "
            "return a pyarrow.Table, or None for nothing to write"
        )
    return output if use_case.output is None else _as_declared(use_case, output)


def _as_declared(use_case: UseCase, output: pa.Table) -> pa.Table:
    declared: pa.Schema = use_case.output  # type: ignore[assignment]
    missing = [name for name in declared.names if name not in output.column_names]
    if missing:
        raise WrongSchema(
            f"use case {use_case.name} returned no column {', '.join(missing)}; "
            f"it has {', '.join(output.column_names) or 'none'}"
        )
    try:
        return output.select(declared.names).cast(declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as exc:
        raise WrongSchema(
            f"use case {use_case.name} returned columns of another type than declared: {exc}"
        ) from exc


def error_of(error: BaseException) -> SliceError:
    """Translate what a handler, sink or reader raised; foreign errors become ``HandlerError``."""
    known = isinstance(error, HeadraceError)
    message = str(error) if known else f"{type(error).__name__}: {error}"
    return SliceError(
        temporary=isinstance(error, Temporary),
        code=type(error).__name__ if known else HandlerError.__name__,
        message=message,
        traceback="".join(traceback.format_exception(error)),
        retry_after_s=error.retry_after_s if isinstance(error, Temporary) else None,
    )


def name_record(failure: SliceError, records: pa.Table, row: int) -> SliceError:
    """The same failure with the offset and the bytes of the record to blame."""
    record: dict[str, Any] = records.slice(row, 1).to_pylist()[0]
    headers = tuple((each["key"], each["value"]) for each in record["headers"] or ())
    return SliceError(
        temporary=failure.temporary,
        code=failure.code,
        message=failure.message,
        traceback=failure.traceback,
        offset=record["offset"],
        raw_key=record["key"],
        raw_value=record["value"],
        raw_headers=headers,
        retry_after_s=failure.retry_after_s,
    )
