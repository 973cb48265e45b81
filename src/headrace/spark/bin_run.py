"""Running the portions of one bin: claim, handle, write, group by group.

The order of these three steps is what a guarantee is; `task.py` has the table. A sink that refuses
a portion for good does not say which record it was, so the portion is halved until it is one
record: everything before the culprit is written and the position stops exactly at it. Where the
use case wants dead letters, a culprit is kept there first, and only then the lane goes on.

When the budget is used up, portions that nobody has claimed are left for a later wave. So is what
follows a record that was set aside or looked for, unless it was claimed or is of a recorded slice.

A call that decodes costs much before its first record, so small portions of a group are decoded in
one. Whatever is odd about that call blames nobody: each is then decoded by itself, as large ones
are. It may take a part of the budget only, for what it made of portions that are left is lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from headrace.errors import (
    HandlerHung,
    HandlerSlow,
    HeadraceError,
    Temporary,
)
from headrace.model.places import Place
from headrace.model.receipts import SliceError
from headrace.model.records import ReadRange
from headrace.model.state import StateChanges
from headrace.model.streams import LaneId, Slice, original
from headrace.ports import (
    AskedFirst,
    DeadLetter,
    DeadLetters,
    Effect,
    NoRegistry,
    NoTenants,
    Positions,
    Schemas,
    SinkWriter,
    Tenants,
    Written,
)
from headrace.process.crash_points import PlayedKill, reached
from headrace.spark.calling import CallRules
from headrace.spark.crash_markers import Markers
from headrace.spark.culprits import may_be_a_records
from headrace.spark.decoding import DecodedRecords
from headrace.spark.handler_output import OUTPUT
from headrace.spark.handling import Handled, Looked, handle, look
from headrace.spark.lane_parts import unnumbered
from headrace.spark.portions import (
    Portion,
    cut_to,
    is_whole,
    last_version,
    named_alone,
    nothing_of,
    rest_of,
    slice_of,
)
from headrace.spark.process_settings import run_apart
from headrace.spark.refused_rows import PartTaken, as_a_whole
from headrace.spark.row_places import passed
from headrace.spark.same_reads import ranges_of, read_otherwise
from headrace.spark.sink_answers import answers_of
from headrace.spark.slice_errors import error_of, killed, name_record
from headrace.spark.state_of_lanes import committed_with, state_of, transactions
from headrace.spark.tally import Tally
from headrace.spark.there_already import not_yet_there
from headrace.state.copies import StateCopies
from headrace.state.seen import NO_STATE, PortionState, State
from headrace.use_cases import SliceContext, UseCase

_T = TypeVar("_T")
#: portions of so many records at most are decoded together
_FEW_RECORDS = 1_000
#: part of the budget that this may take
_TOGETHER_PART = 0.25
_FIRST_LETTER = "its topic of dead letters has to be made ready; tried again in a bin of its own"


@dataclass
class BinRun:
    """One bin on its way: claims, handles and writes group by group."""

    use_case: UseCase
    options: dict[str, str]
    positions: Positions
    dead_letters: DeadLetters
    writer: SinkWriter
    tally: Tally
    rules: CallRules
    #: seconds of the bin
    budget_s: float
    markers: Markers | None = None
    schemas: Schemas = field(default_factory=NoRegistry)
    tenants: Tenants = field(default_factory=NoTenants)
    #: what this worker knows of the state of lanes
    copies: StateCopies = field(default_factory=StateCopies)
    #: the writer, if it is to be asked before recorded slices are handled
    asked_first: AskedFirst | None = None
    #: seconds of decoding together that came to nothing, which are not of the budget: else whoever
    #: it failed at uses up one after the other, and is never found
    lost_s: float = 0.0
    _begun: bool = False
    #: monotonic second after which no portion is worked on record by record, but for one of it
    _until_s: float = math.inf
    #: what was decoded before its portion's turn, by the first slice of that
    _looked: dict[Slice, Looked] = field(default_factory=dict)
    #: of each row of an output its record, by the first slice of its portion
    _origins: dict[Slice, tuple[int, ...]] = field(default_factory=dict)
    _kept: set[tuple[Slice, Place | None]] = field(default_factory=set)
    #: what is kept once it is claimed, by the first slice of its portion
    _letters: dict[Slice, list[DeadLetter]] = field(default_factory=dict)
    #: of each lane where a portion begins, and the state that it found there
    _states: dict[LaneId, tuple[Place, PortionState]] = field(default_factory=dict)
    #: slices whose lanes were elsewhere when their state was asked for
    _moved_on: set[Slice] = field(default_factory=set)

    def group(self, portions: list[Portion], until_s: float) -> None:
        """Take some portions, no lane twice, all the way to the sink and into the tally.

        Args:
            portions: what was read.
            until_s: monotonic second at which the budget is used up, but for what was lost.
        """
        claimed = self.use_case.claims_first
        self._origins = {}
        self._looked = self._decoded_together(portions)
        until_s += self.lost_s
        self._until_s = until_s if self._may_yield else math.inf
        if claimed:
            portions = self._claim(self._without_waiting(portions))
            reached("claimed", self.use_case.name)
        else:
            portions = self._still_to_do(portions) if self.use_case.intends else portions
            self._note(portions)
        handled: list[Portion] = []
        effects: list[Effect] = []
        for portion in portions:
            if self._begun and not claimed and time.monotonic() > until_s:
                break
            self._begun = True
            done, effect = self._handle(portion)
            if effect is not None:
                handled.append(done)
                effects.append(effect)
        if self.use_case.claims and self.use_case.state:
            handled, effects = self._claimed_with_state(handled, effects)
        if effects:
            self._to_sink(handled, effects, until_s)

    def _to_sink(self, handled: list[Portion], effects: list[Effect], until_s: float) -> None:
        """Take what was handled to the sink, and what becomes of each into the tally."""
        reached("mid-slice", self.use_case.name)
        answers = self.offered(effects)
        reached("sink-written", self.use_case.name)
        for done, effect, told in zip(handled, effects, answers, strict=True):
            self.tally.offered(effect, told)
            written = told if self._may_be_parted else as_a_whole(told)
            if written.refused:
                part = PartTaken(self, done, effect, self._origins.get(done.planned[0]))
                part.settle(written.refused, until_s)
            elif not self._is_refused(done, written):
                self.tally.wrote(done, written, effect.output.nbytes)
            elif self.use_case.intends:
                self._look_for_culprit(done, written)
            else:
                self.narrow(done)

    def _decoded_together(self, portions: list[Portion]) -> dict[Slice, Looked]:
        """Those small portions of which that can be told; the others are decoded by themselves."""
        # An earlier attempt may have died of just this, and then it is to show in whose records.
        # And who is alone in a bin may be there to show just that.
        is_first = self.markers is None or self.markers.is_first
        if not (self.use_case.decodes and self.rules.shared and is_first) or self.lost_s:
            return {}
        few = [portion for portion in portions if 0 < portion.records.num_rows <= _FEW_RECORDS]
        if len(few) < 2:
            return {}
        records = pa.concat_tables([portion.records for portion in few])
        began_s = time.monotonic()
        most_s = min(self.budget_s * _TOGETHER_PART, self.rules.patience_s)
        rules = replace(self.rules, patience_s=most_s)
        found = self._marked(None, partial(look, self.use_case, records, rules, self.schemas))
        took_s = time.monotonic() - began_s
        for portion in few:
            self.tally.spent(portion, took_s * portion.records.nbytes / records.nbytes)
        if isinstance(found, Exception):
            self.lost_s = took_s
            return {}
        parts = found.cut(portion.records.num_rows for portion in few)
        return {
            portion.planned[0]: part
            for portion, part in zip(few, parts, strict=True)
            if part is not None
        }

    def _without_waiting(self, portions: list[Portion]) -> list[Portion]:
        """Of each what can be decoded now: what is claimed, and waits for a registry, is lost."""
        if not self.use_case.decodes:
            return portions
        self._note(portions)
        kept: list[Portion] = []
        for portion in portions:
            first = portion.planned[0]
            if self._kills(first):
                kept.append(portion)
                continue
            found = self._looked.get(first) or self._decoded_alone(portion)
            part = portion
            if isinstance(found, HandlerHung | Temporary):
                # It may be the registry's time that was used up; nothing was done, so nothing is
                # lost by trying again.
                self.tally.stop(*named_alone(portion, error_of(found)))
                continue
            if isinstance(found, DecodedRecords) and found.waiting is not None:
                row, why = found.given, error_of(found.waiting)
                part = cut_to(portion, row, why, slice_of(portion, row))
                found = replace(found, waiting=None)
                if row == 0:
                    self.tally.stop(part, why)
                    continue
            self._looked[first] = found
            kept.append(part)
        return kept

    def _decoded_alone(self, portion: Portion) -> Looked:
        began_s = time.monotonic()
        found = self._marked(
            portion.planned[0],
            partial(look, self.use_case, portion.records, self.rules, self.schemas),
        )
        self.tally.spent(portion, time.monotonic() - began_s)
        return found

    def _claimed_with_state(
        self, handled: list[Portion], effects: list[Effect]
    ) -> tuple[list[Portion], list[Effect]]:
        """Those whose positions were ours to move, which was done with what they made of state.

        Nor is a dead letter of any other kept: whoever has the lane now makes its own.
        """
        mine = set[int]()
        for rows in transactions([effect.state for effect in effects]):
            states = [effects[row].state for row in rows]
            mine.update(map(id, self._claim([handled[row] for row in rows], states)))
        pairs = [
            pair
            for pair in zip(handled, effects, strict=True)
            if id(pair[0]) in mine and self._has_its_letters(pair[0])
        ]
        for _, effect in pairs:
            self._committed(effect)
        return [portion for portion, _ in pairs], [effect for _, effect in pairs]

    def _has_its_letters(self, portion: Portion) -> bool:
        """Keep the dead letters of what was claimed; without them nothing of it counts as done."""
        error = self._keep(self._letters.pop(portion.planned[0], []))
        if error is not None:
            self.tally.stop(portion, error)
        return error is None

    def _claim(
        self, portions: list[Portion], states: Sequence[StateChanges | None] = ()
    ) -> list[Portion]:
        """Move the positions first; keep only the portions whose positions were ours to move.

        Where nothing was reached there is nothing to claim; what has state reached something.
        """
        empty = [portion for portion in portions if not _reaches(portion)]
        portions = [portion for portion in portions if _reaches(portion)]
        try:
            # Slices of one call go together or not at all.
            ours = self.positions.advance_groups([portion.moves for portion in portions], states)
        except HeadraceError as error:
            # They may have moved all the same: then nobody handles these records, as promised.
            for portion in portions:
                self.tally.stop(portion, error_of(error))
            return empty
        for portion, mine in zip(portions, ours, strict=True):
            self.tally.claimed(portion, mine)
        return empty + [portion for portion, mine in zip(portions, ours, strict=True) if mine]

    def _still_to_do(self, portions: list[Portion]) -> list[Portion]:
        """Those of recorded slices that no earlier attempt has done, each read as in that."""
        return not_yet_there(self.asked_first, self._written_down(portions), self.tally)

    def _written_down(self, portions: list[Portion]) -> list[Portion]:
        """Those of which every attempt reads the same from now on."""
        new = ranges_of(portions)
        if not new:
            return portions
        try:
            told = self.positions.record_reads(new)
        except HeadraceError as error:
            for portion in portions:
                self.tally.stop(portion, error_of(error))
            return []
        kept = {read.lane: found for read, found in zip(new, told, strict=True)}
        return [portion for portion in portions if self._is_as_kept(portion, kept)]

    def _note(self, portions: list[Portion]) -> None:
        """Write down where single records end, so that one which never comes back can be skipped.

        What comes of a slice of one record is one to its log, be it several to a handler. Nothing
        depends on it: a slice that is not recorded may be read otherwise the next time.
        """
        begun = [portion for portion in portions if portion.slices == portion.planned]
        single = {
            piece.lane for portion in begun for piece in portion.planned if piece.records == 1
        }
        found = ranges_of(begun)
        new = [read for read in found if read.records == 1 or read.lane in single]
        if new and not self.use_case.intends:
            with suppress(HeadraceError):
                self.positions.record_reads(new)

    def _is_as_kept(self, portion: Portion, kept: dict[LaneId, ReadRange | None]) -> bool:
        lane = portion.planned[0].lane
        if lane not in kept:
            return True
        read = kept[lane]
        if read is None:
            self.tally.superseded(portion)
            return False
        if read.until_offset == portion.reached[0]:
            return True
        self.tally.stop(portion, error_of(read_otherwise(portion, read)))
        return False

    def _handle(
        self, portion: Portion, rules: CallRules | None = None
    ) -> tuple[Portion, Effect | None]:
        first = portion.planned[0]
        if self._kills(first):
            error = killed(self.use_case.name, first)
            # The marker is of the slice: it may have been at another batch of it.
            told = named_alone(portion, error) if is_whole(portion) else (portion, error)
            self.tally.stop(*told)
            return portion, None
        began = time.monotonic()
        rules = replace(rules or self.rules, until_s=self._until_s)
        handled = self.call(portion, rules) if portion.records.num_rows else None
        if handled is None and self.use_case.state:
            self._state_of(portion)
        if first in self._moved_on:
            self.tally.superseded(portion)
            return portion, None
        unkept = self.set_aside(portion, handled.aside) if handled is not None else None
        self.tally.spent(portion, time.monotonic() - began)
        if handled is not None:
            if handled.origins is not None:
                self._origins[first] = handled.origins
            portion, handled = self._as_far_as(portion, handled, unkept)
        if not _reaches(portion):
            self.tally.found_nothing(portion)
            return portion, None
        if self.use_case.event_time is not None:
            self._marked(first, lambda: self.tally.sample(portion))
        output = handled.output if handled is not None else None
        return portion, Effect(
            portion.slices,
            portion.reached,
            portion.records.slice(0, 0).select([]) if output is None else output,
            move_positions=self.use_case.transacts,
            passed=passed(portion.records, len(portion.slices)),
            may_repeat=not self.use_case.claims,
            version=last_version(portion),
            state=None if handled is None else handled.state,
        )

    def _as_far_as(
        self, portion: Portion, handled: Handled, unkept: SliceError | None
    ) -> tuple[Portion, Handled | None]:
        """The portion up to where it was handled, and what counts of that."""
        done: Handled | None = handled
        if unkept is not None:
            # Without its dead letters nothing of the portion may count as done. What is left
            # is that a merged lane may go on past its gaps, but of what is recorded.
            portion, done = cut_to(portion, 0, unkept), None
        elif handled.error is not None:
            blamed = None if handled.blamed is None else slice_of(portion, handled.blamed)
            if self.use_case.intends:
                # A replay of a recorded slice may come through; an effect of its first part,
                # under an identity of its own, would then stand beside that of the whole.
                done = handled = replace(handled, output=None, rows=0)
            portion = cut_to(portion, handled.rows, handled.error, blamed)
        elif handled.yields:
            portion = replace(cut_to(portion, handled.rows, None), yields=True)
        return _stopped(portion, whole=self.use_case.intends), done

    def call(self, portion: Portion, rules: CallRules) -> Handled:
        """Call the handler on the records of a portion."""
        first, use_case = portion.planned[0], self.use_case
        looked = self._looked.pop(first, None)
        context = SliceContext(
            original(use_case.name),
            first.lane.tenant,
            _bounded(portion),
            dict(self.options),
            unnumbered(portion),
            self.tenants,
            self._state_of(portion),
        )

        def call() -> Handled:
            return OUTPUT.during(
                portion.slices,
                lambda: handle(use_case, portion.records, context, rules, self.schemas, looked),
            )

        handled = self._marked(first, call)
        if not use_case.state or handled.output is None:
            return handled
        return replace(handled, state=context.state.portion.changes(first.lane))

    def _state_of(self, portion: Portion) -> State:
        """The state of its lane, as of exactly the records before it."""
        if not self.use_case.state:
            return NO_STATE

        def moved_on() -> None:
            self._moved_on.add(portion.planned[0])

        piece = portion.slices[0]
        found = state_of(self.use_case, self.positions, portion, moved_on, self.copies)
        self._states[piece.lane] = (piece.from_offset, found)
        self.tally.found_state(portion.planned[0], as_left=found.known.is_told)
        return State(found)

    def _committed(self, effect: Effect) -> None:
        """Keep what is known of the state of its lane for the next portion of it."""
        piece = effect.slices[0]
        begin, found = self._states.pop(piece.lane, (None, None))
        if found is not None and begin == piece.from_offset:
            if effect.state is not None:
                found.known.changed(effect.state)
            self.copies.keep(piece.lane, effect.reached[0], piece.epoch, found.known)

    def _kills(self, planned: Slice) -> bool:
        """Whether an earlier attempt of this task died at a slice."""
        return self.markers is not None and planned in self.markers.killers

    def _marked(self, planned: Slice | None, call: Callable[[], _T]) -> _T:
        """Run code of the use case; a slice at which it ends its worker is known by that."""
        markers = self.markers
        return run_apart(call if markers is None else lambda: markers.during(planned, call))

    def set_aside(
        self, portion: Portion, aside: Sequence[tuple[int, SliceError]]
    ) -> SliceError | None:
        """Keep dead letters, or note them for when they are claimed; returns why that cannot be."""
        found = [DeadLetter(slice_of(portion, row), error) for row, error in aside]
        letters = [
            letter for letter in found if (letter.slice, letter.error.offset) not in self._kept
        ]
        # Others wait in a shared bin, but not for what has to come through as it is: a recorded
        # wave, and what was claimed, which is lost otherwise.
        in_haste = self.rules.shared and not (self.use_case.intends or self.use_case.claims_first)
        into = {letter.slice.lane_topic for letter in letters}
        if in_haste and not all(map(self.dead_letters.ready, into)):
            return error_of(HandlerSlow(f"{portion.planned[0]}: {_FIRST_LETTER}"))
        if self.use_case.claims and self.use_case.state:
            self._letters[portion.planned[0]] = letters
            return None
        return self._keep(letters)

    def _keep(self, letters: Sequence[DeadLetter]) -> SliceError | None:
        """Keep dead letters; returns why they could not be kept."""
        try:
            if letters:
                self.dead_letters.keep(letters)
        except HeadraceError as error:
            return error_of(error)
        for letter in letters:
            self.tally.set_aside(letter)
        # A portion that is narrowed later is handled again, and the same records found bad.
        self._kept |= {(letter.slice, letter.error.offset) for letter in letters}
        return None

    def _is_refused(self, portion: Portion, written: Written) -> bool:
        """Whether a record is to be looked for; not after a claim, for a sink has one chance."""
        if written.error is None or self.use_case.claims:
            return False
        return may_be_a_records(written.error) and portion.records.num_rows > 0

    def _look_for_culprit(self, portion: Portion, written: Written) -> None:
        """Handle a recorded slice once more, each answer held against what its sink takes.

        Its effect has one identity, so no part of it can be written alone. What the sink's own look
        finds is set aside where that is wanted, as its replay will do; else the error names it.
        """
        check, kept = self._check_of(portion), len(self._kept)
        if check is not None:
            portion, effect = self._handle(portion, replace(self.rules, check=check))
            if effect is None:
                return
            if len(self._kept) > kept:
                written = self._write([effect])[0]
                self.tally.wrote(portion, written, effect.output.nbytes)
                return
        assert written.error is not None, "only what is refused is looked at"
        self.tally.stop(*named_alone(portion, written.error))

    def _check_of(self, portion: Portion) -> Callable[[pa.Table], object] | None:
        """What holds an answer against what the sink takes: a writer that can knows its limits."""
        check = getattr(self.writer, "check_effect", None)
        if check is None:
            return getattr(self.use_case.sink, "check", None)
        effect = partial(Effect, portion.slices, portion.reached, version=last_version(portion))
        return lambda output: check(effect(output))

    def narrow(self, portion: Portion) -> None:
        """Write a refused portion piece by piece, up to the record that the sink refuses.

        Where that may be set aside, it is, and the same begins anew behind it. What stopped the
        portion as a whole is behind all of its records, so it stops the last piece. When the time
        is used up it ends at whatever record it is; each time it comes one further at least.
        """
        rest, refused = portion, portion.records.num_rows
        while rest.records.num_rows > 0:
            # Somewhere in the first `refused` rows is a culprit; 0 is nothing known.
            rows = (refused + 1) // 2 if refused else rest.records.num_rows
            whole = rows == rest.records.num_rows
            part, effect = self._handle(rest if whole else cut_to(rest, rows, None))
            if effect is None:
                return
            began_s = time.monotonic()
            written = self._write([effect])[0]
            if not written.seconds:  # else the sink has told it
                self.tally.spent(part, time.monotonic() - began_s)
            if written.error is None or not may_be_a_records(written.error):
                self.tally.wrote(part, written, effect.output.nbytes)
                refused -= rows if refused else 0
            elif rows > 1:
                refused = min(rows, max(part.records.num_rows, 1))
                continue
            else:
                began_s = time.monotonic()
                self._refused(part, written.error)
                self.tally.spent(part, time.monotonic() - began_s)
                refused = 0
            if self.tally.stopped(part.planned[0]):
                return
            rest = rest_of(rest, part)
            if rest.records.num_rows and time.monotonic() > self._until_s:
                self.tally.stop(rest, None)
                return

    def _refused(self, part: Portion, error: SliceError) -> None:
        """One record that the sink refuses: set aside, or the end of this slice."""
        named = name_record(error, part.records, 0)
        if named.code not in self.rules.set_aside:
            self.tally.stop(replace(part, blamed=slice_of(part, 0)), named)
        elif (trouble := self.set_aside(part, [(0, named)])) is not None:
            self.tally.stop(part, trouble)
        else:
            nothing = part.records.slice(0, 0).select([])
            counted = passed(part.records, len(part.slices))
            goes_by = Effect(part.slices, part.reached, nothing, self.use_case.transacts, counted)
            self.tally.wrote(part, self._write([goes_by])[0], 0)

    @property
    def _may_yield(self) -> bool:
        """Whether a portion may end before its end; what was claimed would be lost."""
        return not (self.use_case.intends or self.use_case.claims_first)

    @property
    def _may_be_parted(self) -> bool:
        """Whether a part of an effect may be written, and the position be in its middle."""
        return self._may_yield and not self.use_case.transacts and not self.use_case.state

    def _write(self, effects: list[Effect]) -> Sequence[Written]:
        """Write effects, each of which is taken whole or not at all."""
        return [as_a_whole(written) for written in self.offered(effects)]

    def offered(self, effects: list[Effect]) -> Sequence[Written]:
        """What the sink says to these effects, and where tasks move positions the store."""
        told = dict[int, Written]()
        for rows in transactions([effect.state for effect in effects]):
            some = [effects[row] for row in rows]
            answers = self._sent(some)
            if self.use_case.commits:
                answers = committed_with(self.positions, some, answers)
            for effect, written in zip(some, answers, strict=True):
                if written.committed:
                    self._committed(effect)
            told |= zip(rows, answers, strict=True)
        return [told[row] for row in range(len(effects))]

    def _sent(self, effects: list[Effect]) -> Sequence[Written]:
        """What the sink says to these effects."""
        try:
            told = answers_of(effects, run_apart(lambda: self.writer.write(effects)))
        except PlayedKill:
            raise
        except BaseException as error:  # asyncio.CancelledError, say, or a panic of Rust
            passes = isinstance(error, Temporary)
            if len(effects) > 1 and not passes and all(effect.may_repeat for effect in effects):
                # It is the trouble of one of them; the others may well be written.
                return [self._sent([effect])[0] for effect in effects]
            return [Written(error=error_of(error))] * len(effects)
        for effect, written in zip(effects, told, strict=True):
            self.tally.charged(effect, written)
        return told


def _stopped(portion: Portion, *, whole: bool) -> Portion:
    """What has to be whole, and stopped at no record, passes no gap before its first one either.

    What is left of a recorded wave would be another one, and an attempt that sleeps may yet write
    all of the first.
    """
    stops = portion.error is not None and portion.error.offset is None
    return nothing_of(portion) if whole and stops else portion


def _reaches(portion: Portion) -> bool:
    """Whether any of its slices comes further with it."""
    return portion.reached != tuple(piece.from_offset for piece in portion.slices)


def _bounded(portion: Portion) -> tuple[Slice, ...]:
    """The slices of a portion, each with where it ends."""
    if not any(piece.is_open for piece in portion.slices):
        return portion.slices
    ends = zip(portion.slices, portion.reached, strict=True)
    return tuple(replace(piece, until_offset=reached) for piece, reached in ends)
