"""One call of a user's handler: what it is given, how long it may take, and what it may return.

It is the one place where code of a use case is called for its records, whether for a portion, for
a part of one that is searched, or in a test. A handler that is an ``async def`` is called for each
record of them (``async_calls.py``).

Which record is to blame for what a call raises is not decided here (``handling.py``).
"""

from __future__ import annotations

import contextvars
import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.errors import (
    HandlerError,
    HandlerHung,
    HandlerSlow,
    HeadraceError,
    StoreUnavailable,
    WrongSchema,
    words_of,
)
from headrace.model.streams import BadRecordPolicy
from headrace.ports import NoRegistry, Schemas
from headrace.process.crash_points import PlayedKill
from headrace.process.memory import clear_frames
from headrace.spark.async_calls import Calls, Row, calls_for, table_of
from headrace.spark.culprits import Blamed, to_blame
from headrace.spark.declared import as_declared
from headrace.spark.decoding import DecodedRecords, decoded, shown
from headrace.spark.own_tables import owned
from headrace.spark.slice_errors import freed_of
from headrace.spark.timeouts import CallOverdue, bounded, guarded
from headrace.state.seen import PortionState
from headrace.use_cases import SliceContext, UseCase

#: part of the patience that a call has which searches for the record that hangs
_SEARCH_PART = 8.0


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a handler is called, and what is done about records it cannot take."""

    patience_s: float = math.inf
    #: others wait in the same bin, so an overrun is no hang yet
    shared: bool = False
    #: codes of the errors whose record is set aside at once
    set_aside: frozenset[str] = frozenset()
    #: monotonic second from which on a call that set a record aside leaves the rest for later
    until_s: float = math.inf
    #: holds what the handler returns against its sink; None where the sink does that itself
    check: Callable[[pa.Table], object] | None = None


def call_rules(use_case: UseCase, patience_s: float, *, shared: bool) -> CallRules:
    """The rules a use case asks for.

    A record that the handler itself calls bad, or whose state or rows are refused, is bad at once.
    A handler that raised or hung may have met a server that was down, so what becomes of it is the
    driver's decision. With at-most-once a sink that refuses is not asked again, which could make a
    second effect; what the handler calls bad was given to no sink.
    """
    if use_case.bad_record is not BadRecordPolicy.DEAD_LETTER:
        return CallRules(patience_s, shared)
    refused = frozenset[str]() if use_case.claims else frozenset({"SinkRefused"})
    return CallRules(patience_s, shared, refused | {"BadRecord", "StateRefused"})


@dataclass(frozen=True, slots=True)
class Call:
    """A handler, ready to be called on records of one portion."""

    use_case: UseCase
    context: SliceContext
    rules: CallRules
    #: records are decoded alone, to find the one at which that fails
    decodes: bool = False
    schemas: Schemas | None = None
    #: what is raised is raised as it is, by whoever raised it; for tests, where nobody else waits
    as_raised: bool = False

    @property
    def state(self) -> PortionState | None:
        """That of the portion; None: the use case declares none."""
        return self.context.state.portion if self.use_case.state else None

    def __call__(self, records: pa.Table) -> pa.Table:
        """Call the handler once.

        None is no answer: it is what a forgotten ``return`` gives, and would lose every record.
        Another call may use the same memory, so the answer is copied.
        """
        if self.decodes:
            return self.decoded(records, self.schemas).records
        if self.use_case.waits:
            return self._awaited(records)
        output = self._answer(shown(self.use_case, records))
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

    def _answer(self, given: pa.Table) -> object:
        """What the handler returns; what it made of its state is known with that.

        Where the state could not be had that is what is told, whatever the handler made of it.
        """
        handler, context, state = self.use_case.handler, self.context, self.state
        if state is None:
            return self.bounded(lambda: handler(given, context))
        seen = state.begin()
        context = replace(context, state=seen)
        try:
            return self.bounded(lambda: handler(given, context))
        finally:
            state.answered(seen)

    def calls(self, records: pa.Table, goes_on: Callable[[Exception], bool]) -> Calls:
        """A call for each record, of a handler that waits."""
        given = shown(self.use_case, records)
        made = calls_for(self.use_case, self.context, given, records["key"], goes_on)
        made.as_raised = self.as_raised
        return made

    def checked(self, rows: Sequence[Row]) -> pa.Table:
        """Rows that calls gave, as a table that its sink takes."""
        output = table_of(rows, self.use_case)
        if self.rules.check is not None and output.num_rows:
            self.rules.check(output)
        return output

    def _awaited(self, records: pa.Table) -> pa.Table:
        """All rows, or what the first record raised that failed."""
        calls = self.calls(records, lambda error: False)
        try:
            self.bounded(calls.run)
        finally:
            calls.end()
        if calls.failed:
            raise calls.failed[min(calls.failed)]
        return self.checked(calls.rows)

    def decoded(self, records: pa.Table, schemas: Schemas | None) -> DecodedRecords:
        """The records, decoded within the time of a call."""
        known = schemas or NoRegistry()
        found: DecodedRecords = self.bounded(lambda: decoded(self.use_case, records, known))
        return found

    def bounded(self, call: Callable[[], Any]) -> Any:
        """What a call of the use case's own code gives; it has its time, and ends no worker."""
        patience_s = self.rules.patience_s
        try:
            return bounded(partial(self._leaving_nothing, call), patience_s)
        except CallOverdue:
            raise self._overdue() from None
        except (Exception, PlayedKill):
            raise
        except BaseException as error:  # SystemExit, KeyboardInterrupt, a panic of Rust
            # Nobody types Ctrl-C into a worker, which is in a process group of its own.
            raise HandlerError(_words_of(error)) from error

    def _leaving_nothing(self, call: Callable[[], Any]) -> Any:
        """What a call gives; what it leaves behind is closed before it is over.

        Left alone that would be closed whenever Python collects, as in a call for another tenant;
        what an error holds, when somebody has read it. A ``__del__`` loses what is raised in it,
        and so what ends a call; so the time tells.

        Raises:
            CallOverdue: something that was closed took too long.
            Exception: in the place of what was raised one of ours, unless it is to be as it is.
        """
        began_s, before = time.monotonic(), _grown_old()
        try:
            return contextvars.copy_context().run(call)
        except (CallOverdue, PlayedKill) as ended:
            clear_frames(ended)
            # Of an error that the call was just dealing with, and that would go with this one.
            ended.__context__ = None
            raise
        except BaseException as raised:
            clear_frames(raised)
            if self.as_raised:
                raise
            freed = freed_of(raised)
        finally:
            # What has lived for longer is freed behind the task (`heap.py`), unless what this call
            # made came through a collection that Python made meanwhile, and counts as old as well.
            gc.collect(1 if _grown_old() == before else 2)
            if time.monotonic() - began_s > self.rules.patience_s:
                raise CallOverdue
        raise freed

    def to_blame(self, records: pa.Table, raised: Exception) -> Blamed:
        """The record to blame; what calls nothing bad may come through the next time.

        With at-most-once there is no next time, so that is not searched for.
        """
        return to_blame(self, self._search(), records, raised)

    def hangs_at(self, records: pa.Table, row: int) -> bool:
        """Whether a call for one record alone takes too long; one may only have been the last."""
        search = self._search()
        if search is None:
            return False
        try:
            search(records.slice(row, 1))
        except (HandlerHung, HandlerSlow):
            return True
        except Exception:
            return False
        return False

    def _search(self) -> Call | None:
        """The same in less time, to find a record; None where nothing may be called again."""
        hurried = replace(self.rules, patience_s=self.rules.patience_s / _SEARCH_PART)
        return None if self.use_case.claims_first else replace(self, rules=hurried)

    def _overdue(self) -> HeadraceError:
        who = f"use case {self.use_case.name} took over {self.rules.patience_s:g} s for one call"
        if self.rules.shared:
            return HandlerSlow(f"{who}; it is tried again in a bin of its own")
        if self.state is not None and self.state.asks:
            return StoreUnavailable(f"{who}: the store did not answer what it has of its state")
        return HandlerHung(
            f"{who} and was ended; give what it waits for a time limit of its own, or raise "
            "handler_timeout"
        )


def _grown_old() -> list[dict[str, int]]:
    """Another one once a collection has moved what it left to the oldest generation."""
    return gc.get_stats()[1:]


def _words_of(error: BaseException) -> str:
    return guarded(lambda: words_of(error), lambda: type(error).__name__)
