"""Calling a user's handler on some records, up to the one that it cannot take.

A handler gets a table of thousands of records and raises: which one was it? Without an answer a
strict order means that the whole slice waits for a person. A handler only computes (its sink does
the effects), so it can be called again on fewer of them until the record is found (`culprits.py`).
Everything before it goes on to the sink, and the position stops exactly at it; or, where the use
case wants dead letters, it is set aside and the rest goes on as well.

A call that overruns its patience is ended. In company that only says that the stream is to be
tried alone; alone, it hangs, and its record is searched for.

This module reads no records and writes no sink.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.errors import (
    BadRecord,
    HandlerError,
    HandlerHung,
    HandlerSlow,
    HeadraceError,
    WrongSchema,
    words_of,
)
from headrace.model.receipts import SliceError
from headrace.model.streams import BadRecordPolicy
from headrace.ports import NoRegistry, Schemas
from headrace.process.crash_points import PlayedKill
from headrace.spark.culprits import (
    NO_RECORDS_FAULT,
    Blamed,
    raised_by,
    shortest_failing,
    to_blame,
)
from headrace.spark.declared import as_declared
from headrace.spark.decoding import DecodedRecords, decoded, shown
from headrace.spark.joined import joined
from headrace.spark.own_tables import owned
from headrace.spark.slice_errors import error_of, name_record, refusal, undecoded_error
from headrace.spark.timeouts import CallOverdue, bounded
from headrace.use_cases import SliceContext, UseCase

#: part of the patience that a call has which searches for the record that hangs
_SEARCH_PART = 8.0

#: records decoded, or what was raised instead
Looked = DecodedRecords | Exception


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a handler is called, and what is done about records it cannot take."""

    patience_s: float = math.inf
    #: others wait in the same bin, so an overrun is no hang yet
    shared: bool = False
    #: codes of the errors whose record is set aside at once
    set_aside: frozenset[str] = frozenset()
    #: holds what the handler returns against its sink; None where the sink does that itself
    check: Callable[[pa.Table], object] | None = None


def call_rules(use_case: UseCase, patience_s: float, *, shared: bool) -> CallRules:
    """The rules a use case asks for.

    A record that the handler itself calls bad, or that the sink refuses, is bad at once. A handler
    that raised or hung may have met a server that was down, so what becomes of it is the driver's
    decision. With at-most-once a sink that refuses is not asked again, which could make a second
    effect; what the handler calls bad was given to no sink.
    """
    if use_case.bad_record is not BadRecordPolicy.DEAD_LETTER:
        return CallRules(patience_s, shared)
    refused = frozenset[str]() if use_case.claims else frozenset({"SinkRefused"})
    return CallRules(patience_s, shared, refused | {"BadRecord"})


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
    call = _Call(use_case, context, rules or CallRules())
    if not use_case.decodes:
        return _handled(call, records)
    found = look(use_case, records, call.rules, schemas) if looked is None else looked
    if isinstance(found, Exception):
        return _up_to_undecodable(call, records, found, schemas)
    if found.waiting is None:
        return _decodable(call, records, found)
    before = _decodable(call, records, found) if found.given else Handled(None, 0)
    if before.error is not None:
        return before
    return replace(before, error=error_of(found.waiting), blamed=found.given)


def look(use_case: UseCase, records: pa.Table, rules: CallRules, schemas: Schemas | None) -> Looked:
    """Decode records before they are handled."""
    call = _Call(use_case, SliceContext(use_case.name, "", ()), rules)
    try:
        return call.decoded(records, schemas)
    except Exception as error:  # a format may be of somebody's own
        return error


def _decodable(call: _Call, records: pa.Table, found: DecodedRecords) -> Handled:
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
    call: _Call, records: pa.Table, raised: Exception, schemas: Schemas | None
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
    return before if before.error is not None else replace(before, error=named, blamed=bad)


def _up_to(call: _Call, records: pa.Table, row: int, fault: SliceError) -> Handled:
    """What comes before the first record that did not decode, and stops there."""
    before = Handled(None, 0) if row == 0 else _handled(call, records.slice(0, row))
    return before if before.error is not None else replace(before, error=fault, blamed=row)


def _without(handled: Handled, found: DecodedRecords, faults: dict[int, SliceError]) -> Handled:
    """What was made of the records that decoded, told by the rows of all, with the rest aside."""
    rows = found.row(handled.rows)
    own = {found.row(row): error for row, error in handled.aside}
    aside = sorted({**{row: why for row, why in faults.items() if row < rows}, **own}.items())
    blamed = None if handled.blamed is None else found.row(handled.blamed)
    return replace(handled, rows=rows, blamed=blamed, aside=tuple(aside))


def _handled(call: _Call, records: pa.Table) -> Handled:
    outputs: list[pa.Table] = []
    aside: list[tuple[int, SliceError]] = []
    done = 0
    while True:
        part = _until_trouble(call, records.slice(done))
        outputs += [] if part.output is None else [part.output]
        done += part.rows
        error = part.error
        if error is None or error.offset is None or error.code not in call.rules.set_aside:
            blamed = None if part.blamed is None else done - part.rows + part.blamed
            return _joined(outputs, Handled(None, done, error, blamed, tuple(aside)))
        aside.append((done, error))
        done += 1
        if done == records.num_rows:
            return _joined(outputs, Handled(None, done, aside=tuple(aside)))


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
    return _Call(use_case, context, CallRules())(found.records)


@dataclass(frozen=True, slots=True)
class _Call:
    use_case: UseCase
    context: SliceContext
    rules: CallRules
    #: records are decoded alone, to find the one at which that fails
    decodes: bool = False
    schemas: Schemas | None = None

    def __call__(self, records: pa.Table) -> pa.Table:
        """Call the handler once.

        None is no answer: it is what a forgotten ``return`` gives, and would lose every record.
        Another call may use the same memory, so the answer is copied.
        """
        if self.decodes:
            return self.decoded(records, self.schemas).records
        handler, context = self.use_case.handler, self.context
        given = shown(self.use_case, records)
        output = self.bounded(lambda: handler(given, context))
        if not isinstance(output, pa.Table):
            what = "None, as without a return" if output is None else type(output).__name__
            raise WrongSchema(
                f"use case {self.use_case.name} returned {what}; return a pyarrow.Table, "
                "for nothing to write an empty one: pyarrow.table({})"
            )
        declared = self.use_case.output
        if declared is not None:
            output = as_declared(output, declared, self.use_case.name)
        if self.rules.check is not None and (output.num_rows or output.num_columns):
            self.rules.check(output)
        return owned(output)

    def decoded(self, records: pa.Table, schemas: Schemas | None) -> DecodedRecords:
        """The records, decoded within the time of a call."""
        known = schemas or NoRegistry()
        found: DecodedRecords = self.bounded(lambda: decoded(self.use_case, records, known))
        return found

    def bounded(self, call: Callable[[], Any]) -> Any:
        """What a call of the use case's own code gives; it has its time, and ends no worker."""
        try:
            return bounded(call, self.rules.patience_s)
        except CallOverdue:
            raise self._overdue() from None
        except (Exception, PlayedKill):
            raise
        except BaseException as error:  # SystemExit, KeyboardInterrupt, a panic of Rust
            # Nobody types Ctrl-C into a worker, which is in a process group of its own.
            raise HandlerError(words_of(error)) from error

    def to_blame(self, records: pa.Table, raised: Exception) -> Blamed:
        """The record to blame; what calls nothing bad may come through the next time.

        With at-most-once there is no next time, so that is not searched for.
        """
        hurried = replace(self.rules, patience_s=self.rules.patience_s / _SEARCH_PART)
        search = None if self.use_case.claims else replace(self, rules=hurried)
        return to_blame(self, search, records, raised)

    def _overdue(self) -> HeadraceError:
        who = f"use case {self.use_case.name} took over {self.rules.patience_s:g} s for one call"
        if self.rules.shared:
            return HandlerSlow(f"{who}; it is tried again in a bin of its own")
        return HandlerHung(
            f"{who} and was ended; give what it waits for a time limit of its own, or raise "
            "handler_timeout"
        )


def _until_trouble(call: _Call, records: pa.Table) -> Handled:
    try:
        return Handled(call(records), records.num_rows)
    except Exception as error:
        return _up_to_culprit(call, records, error)


def _up_to_culprit(call: _Call, records: pa.Table, raised: Exception) -> Handled:
    """What comes before the record to blame, or nothing where a search met what passes."""
    try:
        return _blaming(call, records, *call.to_blame(records, raised))
    except NO_RECORDS_FAULT as error:
        return Handled(None, 0, error_of(error))


def _blaming(
    call: _Call, records: pa.Table, bad: int | None, raised: Exception, *, at_last: bool = False
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


def _earlier(call: _Call, records: pa.Table, raised: Exception) -> Handled:
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
