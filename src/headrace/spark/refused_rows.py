"""Rows that a sink did not take, while it took others of the same effect.

A target that judges row by row, as bulk interfaces do, takes some of an effect. To write all of it
again would send it what it has, and while it is short of breath that is just what it lacks. So the
rows that it may take later are offered again, and these alone, with pauses and while there is time.
What is left then stops its lane, exactly at the record that the first of them was made of.

Which record that is an ``async def`` tells, since each of its calls is about one. Another
handler is called again, with fewer records, until the row is not among what it makes
(``culprits.py``); where what it makes of fewer records is not how the whole begins, none is named.

What becomes of the lane, and of a record whose row is never taken, is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow as pa

from headrace.errors import Permanent, SinkUnavailable
from headrace.model.receipts import SliceError
from headrace.ports import Effect, RefusedRow, Written
from headrace.spark.calling import CallRules
from headrace.spark.culprits import may_be_a_records
from headrace.spark.handling import Handled
from headrace.spark.portions import Portion, cut_to, slice_of
from headrace.spark.slice_errors import error_of, name_record
from headrace.spark.tally import Tally

#: seconds before rows are offered again: all who share the bin wait
PAUSES_S: Final = (0.05, 0.2, 0.5)
_WAITS: Final = "rows wait for others of their key"


def as_a_whole(written: Written) -> Written:
    """The same where an effect is taken whole or not at all: what it lacks is its error."""
    return Written(error=error_among(written.refused)) if written.refused else written


def error_among(refused: Sequence[RefusedRow]) -> SliceError:
    """What is told of rows; that one is never taken comes before that others may be later."""
    told = [row.error for row in refused if row.error is not None]
    told.sort(key=lambda error: error.temporary)
    return told[0] if told else error_of(SinkUnavailable(_WAITS))


class Running(Protocol):
    """What of a bin on its way is needed here."""

    rules: CallRules
    tally: Tally

    def offered(self, effects: list[Effect]) -> Sequence[Written]:
        """What the sink says to these effects."""

    def set_aside(
        self, portion: Portion, aside: Sequence[tuple[int, SliceError]]
    ) -> SliceError | None:
        """Keep records, by their rows, as dead letters; returns why they could not be kept."""

    def call(self, portion: Portion, rules: CallRules) -> Handled:
        """Call the handler on the records of a portion."""

    def narrow(self, portion: Portion) -> None:
        """Find the record that the sink refuses by writing fewer and fewer."""


@dataclass(frozen=True, slots=True)
class PartTaken:
    """An effect of which a sink took some rows and not others, and what its bin can do about it."""

    run: Running
    portion: Portion
    effect: Effect
    #: of each row of the output its record; None: it has to be searched for
    origins: tuple[int, ...] | None

    def settle(self, refused: Sequence[RefusedRow], until_s: float) -> None:
        """Offer what may be taken later; then come as far as the first row that was not.

        Args:
            refused: what was not taken.
            until_s: monotonic second after which nothing is offered any more.
        """
        pauses = iter(PAUSES_S)
        while True:
            never = [row for row in refused if not row.may_be_taken]
            later = [row for row in refused if row.may_be_taken]
            done = self._set_aside(never, until_s)
            refused = [*never[done:], *later]
            if not refused:
                self.run.tally.wrote(self.portion, Written(), self.effect.output.nbytes)
                return
            if done < len(never):
                break
            asked_s = max((row.error.retry_after_s or 0.0 for row in later if row.error), default=0)
            pause_s = max(next(pauses, float("inf")), asked_s)
            if time.monotonic() + pause_s > until_s:
                break
            time.sleep(pause_s)
            refused = self._offered_again(later)
        first = min(refused, key=lambda row: row.row)
        yields = 0 < done < len(never) and time.monotonic() > until_s and not first.may_be_taken
        # Not what another row is never taken for: its record has done nothing.
        self._stop_before(first, first.error or error_of(SinkUnavailable(_WAITS)), yields=yields)

    def _offered_again(self, rows: Sequence[RefusedRow]) -> Sequence[RefusedRow]:
        """Offer these rows and no others; which of them are left."""
        places = pa.array([row.row for row in rows], pa.int64())
        told = self.run.offered([replace(self.effect, output=self.effect.output.take(places))])[0]
        if told.untried:
            return rows
        if told.error is not None:
            # That they are refused together for good is no proof against each of them.
            return (
                [replace(row, error=told.error) for row in rows] if told.error.temporary else rows
            )
        return [replace(left, row=rows[left.row].row) for left in told.refused]

    def _set_aside(self, refused: Sequence[RefusedRow], until_s: float) -> int:
        """Set the records of rows aside that are never taken; returns of how many that was done.

        It ends at one that may not be, or cannot be told; or where the time is used up, for to find
        the record of a row costs calls. It comes behind the first record at least.
        """
        found, done = dict[int, SliceError](), 0
        for row in refused:
            assert row.error is not None, "a row that only waits has none"
            is_over = self.origins is None and time.monotonic() > until_s
            if row.error.code not in self.run.rules.set_aside or (is_over and any(found)):
                break
            record = self._record_of(row.row)
            if record is None:
                break
            if record not in found:
                found[record] = name_record(row.error, self.portion.records, record)
            done += 1
        if found and self.run.set_aside(self.portion, [*found.items()]) is not None:
            return 0
        return done

    def _stop_before(self, first: RefusedRow, error: SliceError, *, yields: bool) -> None:
        row = self._record_of(first.row)
        is_bad = may_be_a_records(error)
        if row is None and is_bad:
            self.run.narrow(self.portion)
            return
        if row is None:
            self.run.tally.stop(self.portion, error)
            return
        named = name_record(error, self.portion.records, row) if is_bad else error
        output_bytes = self.effect.output.slice(0, first.row).nbytes
        if row == 0:
            done = cut_to(self.portion, row, named, slice_of(self.portion, row))
            self.run.tally.stop(done, named)
        elif yields:
            done = replace(cut_to(self.portion, row, None), yields=True)
            self.run.tally.wrote(done, Written(), output_bytes)
        else:
            done = cut_to(self.portion, row, named, slice_of(self.portion, row))
            self.run.tally.wrote(done, Written(), output_bytes)

    def _record_of(self, row: int) -> int | None:
        """The record that a row was made of, by its row; None if that cannot be told."""
        if self.origins is not None:
            return self.origins[row]
        found = self.run.call(self.portion, replace(self.run.rules, check=_makes(row)))
        if found.error is None or found.error.message != _made(row) or found.aside:
            return None
        before = found.output
        if before is None or self.effect.output.slice(0, before.num_rows).equals(before):
            return found.blamed
        return None


def _makes(row: int) -> Callable[[pa.Table], None]:
    """What holds a handler's answer against a row: raises where the row is among it."""

    def check(output: pa.Table) -> None:
        if output.num_rows > row:
            raise Permanent(_made(row))

    return check


def _made(row: int) -> str:
    return f"fewer records do not make row {row}"
