"""Calling a handler that waits: an ``async def``, once for each record, many calls at a time.

A handler that asks a server about each record waits nearly all of its time. Called one after the
other, a tenant with one partition is done at the pace of one connection. So such a handler may be
a coroutine function: it is given one record as a dict and returns that record's rows. So many calls
as its use case says are in flight at once; rows come in the order of the records whatever answered
first. With an order, calls of one key come one after the other, as Parallel Consumer has it; those
without a key do not wait for each other.

Each call has a time limit of its own. It is counted in parts, by the loop that makes the calls: one
that blocks the loop takes its time from all that wait beside it, and costs each of them a part at
most, however long it takes. Which record a call was about is known without calling
anything again, but where one blocks the loop: that may be the last of many that are slow. When a
record fails for good no call behind it begins; those in flight end by themselves, and what they
gave is not used.

The event loop stays from slice to slice, and what the calls leave in it does not
(``event_loops.py``).

What becomes of a record that failed is not decided here (``handling.py``).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as at

from headrace.errors import BadRecord, HandlerError, HandlerHung, WrongSchema, words_of
from headrace.model.streams import Order
from headrace.process.crash_points import PlayedKill
from headrace.process.memory import clear_frames
from headrace.spark.declared import as_declared
from headrace.spark.event_loops import alone, loop_of
from headrace.spark.slice_errors import freed_of, reason_of
from headrace.spark.timeouts import CallOverdue
from headrace.use_cases import SliceContext, UseCase

Row = dict[str, Any]

#: of the time limit of a call; so many times the loop has to come round before it is over
_LIMIT_PARTS = 10


@dataclass(slots=True)
class Calls:
    """The calls for some records, and what came of each, by its row."""

    use_case: UseCase
    context: SliceContext
    #: one that Python has no values for, such as a day after the year 9999, is bad
    records: Sequence[Row | BadRecord]
    #: of the records; None: it waits for no other one
    keys: Sequence[bytes | None]
    #: whether records behind one that failed so are called
    goes_on: Callable[[Exception], bool]
    answers: dict[int, list[Row]] = field(default_factory=dict)
    failed: dict[int, Exception] = field(default_factory=dict)
    #: of each call in flight: when the next part of its time is over
    _timers: dict[int, asyncio.TimerHandle] = field(default_factory=dict)
    #: rows whose call is in flight though its time is over
    _overdue: set[int] = field(default_factory=set)
    #: rows whose key has a call in flight, which is of the first one
    _turns: dict[bytes, deque[int]] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    #: the row whose call ran when the time of all was over
    blocked: int | None = None
    #: what was raised in it
    _overdue_all: CallOverdue | None = None
    _stop: int | None = None
    _is_over: bool = False
    #: what failed is kept as it was raised
    as_raised: bool = False

    def run(self) -> None:
        """Make the calls; raises only what ends all of them."""
        loop_of(self.use_case.handler).run(self._all, self.use_case.concurrency)

    def end(self) -> None:
        """End what is in flight, should ``run`` have been ended, and what calls have left behind.

        One that catches its cancellation is left where it is, as a thread would be.
        """
        self._is_over = True
        loop_of(self.use_case.handler).sweep()

    @property
    def overdue(self) -> int | None:
        """The row whose call cannot be ended, and is to blame where all took too long."""
        return min(self._overdue, default=None)

    @property
    def done(self) -> int:
        """So many records from the first on have an answer, or failed."""
        answered = self.answers.keys() | self.failed.keys()
        return next(row for row in itertools.count() if row not in answered)

    @property
    def rows(self) -> list[Row]:
        """What all of them gave, in the order of their records."""
        return [row for _, answer in sorted(self.answers.items()) for row in answer]

    async def _all(self) -> None:
        todo = iter(range(len(self.records)))
        some = min(self.use_case.concurrency, len(self.records))
        self._tasks = [asyncio.ensure_future(self._some(todo)) for _ in range(some)]
        try:
            await asyncio.gather(*self._tasks)
        except asyncio.CancelledError:  # of one that was cancelled in ``_block``
            if self._overdue_all is None:
                raise
            raise self._overdue_all from None
        finally:
            # Here, where the time counts; not sooner, as calls may share an error and go on.
            self.failed = {row: self._freed(error) for row, error in self.failed.items()}

    def _freed(self, error: Exception) -> Exception:
        clear_frames(error)
        return error if self.as_raised else freed_of(error)

    async def _some(self, todo: Iterator[int]) -> None:
        """Call for one record after the other; one whose key is at work waits in its queue."""
        for row in todo:
            key = self.keys[row]
            if key is None:
                await self._one(row)
            elif key in self._turns:
                self._turns[key].append(row)
            else:
                await self._of_key(key, row)

    async def _of_key(self, key: bytes, row: int) -> None:
        turns = self._turns[key] = deque([row])
        while turns:
            await self._one(turns[0])
            turns.popleft()
        del self._turns[key]

    async def _one(self, row: int) -> None:
        if self._stop is not None and row > self._stop:
            return
        error = await alone(self._answer(row))
        self._overdue.discard(row)
        if error is not None:
            self.failed[row] = error
            if not self.goes_on(error):
                self._stop = row if self._stop is None else min(row, self._stop)

    async def _answer(self, row: int) -> Exception | None:
        """Keep what one call gives, or say why it gave nothing."""
        record = self.records[row]
        if isinstance(record, BadRecord):
            return record
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._count(row, limit)
                try:
                    answer = await self.use_case.handler(record, self.context)
                finally:
                    self._timers.pop(row).cancel()
            self.answers[row] = _rows_of(answer, self.use_case.name)
        except TimeoutError as error:
            return self._hung() if limit.expired() else error
        except BadRecord as error:
            return BadRecord(row, reason_of(error))
        except Exception as error:
            return error
        except CallOverdue as error:
            self._block(row, error)
            raise
        except PlayedKill:
            raise
        except BaseException as error:  # SystemExit, or a cancellation that nobody asked for
            if self._is_over:
                raise
            return HandlerError(words_of(error))
        return None

    def _count(self, row: int, limit: asyncio.Timeout, left: int = _LIMIT_PARTS) -> None:
        """Let the time of a call be over when the loop has counted its parts."""
        loop = asyncio.get_running_loop()
        if left:
            part_s = self.use_case.call_timeout_s / _LIMIT_PARTS
            self._timers[row] = loop.call_later(part_s, self._count, row, limit, left - 1)
        else:
            self._overdue.add(row)
            limit.reschedule(loop.time())

    def _block(self, row: int, error: CallOverdue) -> None:
        """The time of all is over in this call: none of the others takes a step more."""
        self._overdue_all = error
        if self.blocked is None:
            self.blocked = row
        self._is_over = True
        for task in self._tasks:
            task.cancel()

    def _hung(self) -> HandlerHung:
        return HandlerHung(
            f"use case {self.use_case.name} took over {self.use_case.call_timeout_s:g} s for one "
            "record and was ended; raise its call_timeout_s if that is no fault"
        )


def calls_for(
    use_case: UseCase,
    context: SliceContext,
    given: pa.Table,
    keys: pa.ChunkedArray[Any],
    goes_on: Callable[[Exception], bool],
) -> Calls:
    """The calls for some records, as the handler is given them, with their keys as they came."""
    ordered = use_case.order is not Order.NONE
    turns: list[bytes | None] = keys.to_pylist() if ordered else [None] * given.num_rows
    return Calls(use_case, context, _as_dicts(given), turns, goes_on)


def table_of(rows: Sequence[Row], use_case: UseCase) -> pa.Table:
    """Rows as a table of what the use case declares.

    Raises:
        WrongSchema: a column is not there, or cannot be what is declared.
    """
    declared = use_case.output
    assert declared is not None, "checked where the use case is made"
    try:
        columns = [_column(rows, field_) for field_ in declared]
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise WrongSchema(f"use case {use_case.name} returned no {declared}: {error}") from error
    return as_declared(pa.Table.from_arrays(columns, declared.names), declared, use_case.name)


def _column(rows: Sequence[Row], wanted: pa.Field[Any]) -> pa.Array[Any]:
    missing = next((row for row in rows if wanted.name not in row), None)
    if missing is not None:
        raise ValueError(f"no column {wanted.name!r}; it has {', '.join(missing) or 'none'}")
    values = [row[wanted.name] for row in rows]
    # What a dict stands for, a struct or a map, only the declared type tells.
    return pa.array(values, wanted.type if at.is_nested(wanted.type) else None)


def _rows_of(answer: object, use_case: str) -> list[Row]:
    """What one call gave; None is no answer, since a forgotten ``return`` would lose the record."""
    rows = [answer] if isinstance(answer, Mapping) else answer
    if isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows):
        return [dict(row) for row in rows]
    what = "None, as without a return" if answer is None else type(answer).__name__
    raise WrongSchema(
        f"use case {use_case} returned {what}; return a dict, a list of them for several rows, or "
        "for nothing to write an empty list: []"
    )


def _as_dicts(given: pa.Table) -> list[Row | BadRecord]:
    try:
        return list(given.to_pylist())
    except (pa.ArrowException, OverflowError, ValueError):
        return [_as_dict(given, row) for row in range(given.num_rows)]


def _as_dict(given: pa.Table, row: int) -> Row | BadRecord:
    try:
        record: Row = given.slice(row, 1).to_pylist()[0]
    except (pa.ArrowException, OverflowError, ValueError) as error:
        return BadRecord(row, words_of(error))
    return record
