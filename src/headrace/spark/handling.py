"""Calling a user's handler on some records, up to the one that it cannot take.

A handler gets a table of thousands of records and raises: which one was it? Without an answer a
strict order means that the whole slice waits for a person. A handler only computes (its sink does
the effects), so it can be called again on fewer of them until the record is found (`culprits.py`).
Everything before it goes on to the sink, and the position stops exactly at it; or, where the use
case wants dead letters, it is set aside and the rest goes on as well.

A handler that is an ``async def`` is called for each record, so nothing has to be searched for
(``async_calls.py``).

A call that overruns its patience is ended. In company that only says that the stream is to be
tried alone; alone, it hangs, and its record is searched for.

This module reads no records and writes no sink.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.errors import (
    BadRecord,
    HandlerHung,
    HandlerSlow,
    HeadraceError,
    WrongSchema,
    code_of,
)
from headrace.model.receipts import SliceError
from headrace.model.state import StateChanges
from headrace.ports import NoRegistry, Schemas
from headrace.spark.async_calls import Calls, Row
from headrace.spark.calling import Call, CallRules
from headrace.spark.culprits import (
    NO_RECORDS_FAULT,
    raised_by,
    shortest_failing,
)
from headrace.spark.decoding import DecodedRecords, decoded
from headrace.spark.joined import joined
from headrace.spark.slice_errors import error_of, name_record, refusal, undecoded_error
from headrace.use_cases import SliceContext, UseCase

#: from so many bad records on a call is given so many times what came between two of them
_FEW_BAD, _AHEAD = 3, 4
#: records decoded, or what was raised instead
Looked = DecodedRecords | Exception


@dataclass(frozen=True, slots=True)
class Handled:
    """What a handler made of some records."""

    #: None: nothing of it can be used
    output: pa.Table | None
    #: how many records the output stands for, those set aside among them
    rows: int
    error: SliceError | None = None
    #: row of the record that the error names
    blamed: int | None = None
    #: records set aside: row and why
    aside: tuple[tuple[int, SliceError], ...] = ()
    #: of each row of the output its record, where a call is about one alone
    origins: tuple[int, ...] | None = None
    #: the time was used up, so what follows is left for a later wave
    yields: bool = False
    #: what the records that the output stands for make of their lane's state
    state: StateChanges | None = None


def handle(
    use_case: UseCase,
    records: pa.Table,
    context: SliceContext,
    rules: CallRules | None = None,
    schemas: Schemas | None = None,
    looked: Looked | None = None,
) -> Handled:
    """Run the handler; on failure keep the longest prefix that works and name the culprit.

    Records that may be set aside are, and the handler is called again on what follows them. What
    does not decode is a bad record that the handler never sees; what cannot be decoded yet stops
    there, for as long as somebody does not answer. What was ``looked`` at is not decoded again.
    """
    call = Call(use_case, context, rules or CallRules())
    if not use_case.decodes:
        return _handled(call, records)
    found = look(use_case, records, call.rules, schemas) if looked is None else looked
    if isinstance(found, Exception):
        return _up_to_undecodable(call, records, found, schemas)
    if found.waiting is None:
        return _decodable(call, records, found)
    before = _decodable(call, records, found) if found.given else Handled(None, 0)
    return _and_then(before, found.given, error_of(found.waiting))


def look(use_case: UseCase, records: pa.Table, rules: CallRules, schemas: Schemas | None) -> Looked:
    """Decode records before they are handled."""
    call = Call(use_case, SliceContext(use_case.name, "", ()), rules)
    try:
        return call.decoded(records, schemas)
    except Exception as error:  # a format may be of somebody's own
        return error


def _decodable(call: Call, records: pa.Table, found: DecodedRecords) -> Handled:
    """What was made of records that were decoded, or are known not to decode."""
    if not found.undecoded:
        return _handled(call, found.records)
    if BadRecord.__name__ in call.rules.set_aside:
        faults = {row: undecoded_error(records, row, why) for row, why in found.undecoded.items()}
        if found.records.num_rows == 0:
            return Handled(None, found.given, aside=tuple(sorted(faults.items())))
        return _without(_handled(call, found.records), found, faults)
    row, why = min(found.undecoded.items())
    return _up_to(call, found.records, row, undecoded_error(records, row, why))


def _up_to_undecodable(
    call: Call, records: pa.Table, raised: Exception, schemas: Schemas | None
) -> Handled:
    """What comes before the record at which decoding raised or hung."""
    try:
        search = replace(call, decodes=True, schemas=schemas)
        bad, raised = search.to_blame(records, raised)
    except NO_RECORDS_FAULT as error:
        return Handled(None, 0, error_of(error))
    if bad is None:
        return Handled(None, 0, error_of(raised))
    named = name_record(error_of(raised), records, bad)
    if bad == 0:
        return Handled(None, 0, named, bad)
    before = handle(call.use_case, records.slice(0, bad), call.context, call.rules, schemas)
    return _and_then(before, bad, named)


def _and_then(before: Handled, row: int, error: SliceError) -> Handled:
    """What comes before a record, and stops there; unless it did not come so far."""
    if before.error is not None or before.yields:
        return before
    return replace(before, error=error, blamed=row)


def _up_to(call: Call, records: pa.Table, row: int, fault: SliceError) -> Handled:
    """What comes before the first record that did not decode, and stops there."""
    before = Handled(None, 0) if row == 0 else _handled(call, records.slice(0, row))
    return _and_then(before, row, fault)


def _without(handled: Handled, found: DecodedRecords, faults: dict[int, SliceError]) -> Handled:
    """What was made of the records that decoded, told by the rows of all, with the rest aside."""
    rows = found.row(handled.rows)
    own = {found.row(row): error for row, error in handled.aside}
    aside = sorted({**{row: why for row, why in faults.items() if row < rows}, **own}.items())
    blamed = None if handled.blamed is None else found.row(handled.blamed)
    origins = None if handled.origins is None else tuple(map(found.row, handled.origins))
    return replace(handled, rows=rows, blamed=blamed, aside=tuple(aside), origins=origins)


def _handled(call: Call, records: pa.Table) -> Handled:
    return _awaited(call, records) if call.use_case.waits else _searched(call, records)


def _awaited(call: Call, records: pa.Table, *, again: bool = True) -> Handled:
    """What calls for each record gave: which one failed is known, and none is called again."""
    calls = call.calls(records, lambda error: _goes_aside(call, error))
    try:
        call.bounded(calls.run)
    except Exception as error:
        raised, overdue = error, calls.overdue
    else:
        return _of_answers(call, records, calls.answers, calls.failed)
    finally:
        # Before anything is called again, which would meet what these calls have left.
        calls.end()
    if not isinstance(raised, HandlerHung | HandlerSlow):
        return _up_to_culprit(call, records, raised)
    row = overdue if calls.blocked is None else calls.blocked
    if row is None or not again or not isinstance(raised, HandlerHung):
        return _up_to_unanswered(call, records, calls, raised)
    if calls.blocked is not None and not call.hangs_at(records, row):
        return _up_to_unanswered(call, records, calls, raised)
    before = Handled(None, 0) if row == 0 else _awaited(call, records.slice(0, row), again=False)
    named = name_record(error_of(raised), records, row)
    return _and_then(before, row, named)


def _up_to_unanswered(call: Call, records: pa.Table, calls: Calls, overrun: Exception) -> Handled:
    """What was answered when all calls together took too long, as behind a server that is slow.

    No record is to blame, but for the only one.
    """
    done = calls.done
    failed = {row: why for row, why in calls.failed.items() if row < done}
    before = _of_answers(call, records.slice(0, done), calls.answers, failed)
    if before.error is not None:
        return before
    if records.num_rows == 1:
        return replace(before, error=name_record(error_of(overrun), records, 0), blamed=0)
    return replace(before, error=error_of(overrun))


def _goes_aside(call: Call, error: Exception) -> bool:
    return code_of(error) in call.rules.set_aside if isinstance(error, HeadraceError) else False


def _of_answers(
    call: Call,
    records: pa.Table,
    answers: Mapping[int, list[Row]],
    failed: Mapping[int, Exception],
) -> Handled:
    """The rows up to the first record that failed for good, without those set aside."""
    stop = min((row for row, why in failed.items() if not _goes_aside(call, why)), default=None)
    rows = records.num_rows if stop is None else stop
    good = {row: answers[row] for row in range(rows) if row in answers}
    try:
        output = call.checked([row for answer in good.values() for row in answer])
    except NO_RECORDS_FAULT as error:
        return Handled(None, 0, error_of(error))
    except Exception as error:
        unfit = _unfit(call, good)
        if not unfit:
            return Handled(None, 0, error_of(error))
        left = {row: answer for row, answer in answers.items() if row not in unfit}
        return _of_answers(call, records, left, {**failed, **unfit})
    aside = tuple(
        (row, _failure_of(records, row, why)) for row, why in sorted(failed.items()) if row < rows
    )
    origins = tuple(row for row, answer in good.items() for _ in answer)
    if stop is None:
        return Handled(output, rows, aside=aside, origins=origins)
    return Handled(output, rows, _failure_of(records, stop, failed[stop]), stop, aside, origins)


def _unfit(call: Call, answers: Mapping[int, list[Row]]) -> dict[int, Exception]:
    """The records whose own rows are not what they have to be, and why."""
    found: dict[int, Exception] = {}
    for row, answer in answers.items():
        try:
            call.checked(answer)
        except NO_RECORDS_FAULT:
            return {}
        except Exception as error:
            found[row] = error
    return found


def _failure_of(records: pa.Table, row: int, raised: Exception) -> SliceError:
    """What is told of a call that was about one record; what is not its fault names none."""
    failure = error_of(raised)
    if isinstance(raised, NO_RECORDS_FAULT):
        return failure
    named = name_record(failure, records, row)
    if isinstance(raised, BadRecord):
        return replace(named, message=refusal(raised, records, row))
    return named


def _searched(call: Call, records: pa.Table) -> Handled:
    """What calls for many records gave; the one to blame is found by calling again.

    Each that is set aside costs calls, so what follows one may be left for a later wave. Where many
    are, no call is given much more than what will be used of it.
    """
    outputs: list[pa.Table] = []
    aside: list[tuple[int, SliceError]] = []
    done = 0
    while True:
        part = _until_trouble(call, records.slice(done, _at_once(records, done, len(aside))))
        outputs += [] if part.output is None else [part.output]
        if call.state is not None and part.output is not None:
            call.state.go_on()
        done += part.rows
        error = part.error
        if error is not None and (error.offset is None or error.code not in call.rules.set_aside):
            blamed = None if part.blamed is None else done - part.rows + part.blamed
            return _joined(outputs, Handled(None, done, error, blamed, tuple(aside)))
        if error is not None:
            aside.append((done, error))
            done += 1
        yields = done < records.num_rows and time.monotonic() > call.rules.until_s
        if yields or done == records.num_rows:
            return _joined(outputs, Handled(None, done, yields=yields, aside=tuple(aside)))


def _at_once(records: pa.Table, done: int, aside: int) -> int:
    """How many records a call is given: all, until it is known that one after the other is bad."""
    return records.num_rows if aside < _FEW_BAD else _AHEAD * done // aside


def called(
    use_case: UseCase, records: pa.Table, context: SliceContext, schemas: Schemas | None = None
) -> pa.Table:
    """What one call of the handler gives, without looking for a culprit; raises what it raises.

    Raises:
        BadRecord: a record does not decode.
        RegistryUnavailable: one cannot be decoded without a schema that is not there.
        WrongSchema: it is no table, or not the one that ``output`` declares.
    """
    found = decoded(use_case, records, schemas or NoRegistry())
    if found.undecoded:
        raise BadRecord(*min(found.undecoded.items()))
    if found.waiting is not None:
        raise found.waiting
    call = Call(use_case, context, CallRules(), as_raised=True)
    output = call(found.records)
    if call.state is not None:
        call.state.go_on()
    return output


def _until_trouble(call: Call, records: pa.Table) -> Handled:
    try:
        return Handled(call(records), records.num_rows)
    except Exception as error:
        return _up_to_culprit(call, records, error)


def _up_to_culprit(call: Call, records: pa.Table, raised: Exception) -> Handled:
    """What comes before the record to blame, or nothing where a search met what passes."""
    try:
        return _blaming(call, records, *call.to_blame(records, raised))
    except NO_RECORDS_FAULT as error:
        return Handled(None, 0, error_of(error))


def _blaming(
    call: Call, records: pa.Table, bad: int | None, raised: Exception, *, at_last: bool = False
) -> Handled:
    """The same, of a record that is told or found; ``at_last``: whatever is told after it."""
    failure = error_of(raised)
    if bad is None:
        return Handled(None, 0, failure)
    named = name_record(failure, records, bad)
    if isinstance(raised, BadRecord):
        named = replace(named, message=refusal(raised, records, bad))
    if bad == 0:
        return Handled(None, 0, named, bad)
    before = records.slice(0, bad)
    try:
        return Handled(call(before), bad, named, bad)
    except NO_RECORDS_FAULT:
        raise
    except Exception as error:
        if isinstance(raised, BadRecord) and not at_last:
            return _earlier(call, before, error)
        # The handler is not repeatable: blame nothing in particular and keep nothing.
        return Handled(None, 0, failure)


def _earlier(call: Call, records: pa.Table, raised: Exception) -> Handled:
    """The same for records before one that the handler called bad, of which one is bad as well.

    A handler that looks for one fault in all records and then for the next does not name the first.
    """
    if not isinstance(raised, BadRecord):
        return _up_to_culprit(call, records, raised)
    # Not believed again: one that looks from the end would name all of them, a call for each.
    first = records.slice(0, shortest_failing(call, records, raised).rows)
    error = raised_by(call, first)
    if error is None:
        return Handled(None, 0, error_of(raised))
    return _blaming(call, first, first.num_rows - 1, error, at_last=True)


def _joined(outputs: list[pa.Table], handled: Handled) -> Handled:
    """The same with one table of all outputs; only an error if they do not fit together."""
    try:
        return replace(handled, output=joined(outputs))
    except WrongSchema as error:
        return Handled(None, 0, error_of(error))
