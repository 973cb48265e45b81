"""One lane of a stream, as a driver remembers it between two turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from headrace.model.buckets import WHOLE, Bucket, Division
from headrace.model.lineage import Parent
from headrace.model.places import OPEN, UNKNOWN, Place, Places
from headrace.model.plans import LaneView
from headrace.model.receipts import Receipt
from headrace.model.statistics import LagIs
from headrace.policies.data_loss import Short
from headrace.policies.visits import Visits


@dataclass(slots=True)
class Lane:
    """One lane of a stream, as last seen."""

    position: Place
    #: where its log ended when it was last asked; of one that does not say so `OPEN` while there is
    #: something to read or to look for, and else where the lane stood then
    end: Place = UNKNOWN
    #: of one whose log does not say where it ends: what readings told
    visits: Visits | None = None
    #: when the question was put that it answers, in monotonic seconds
    asked_s: float = 0.0
    #: where lanes are merged: since it was known to end here, all of its stream's lanes were asked,
    #: so that what is before it can be put in order
    sure: Place = UNKNOWN
    #: its topic was made again and has no such lane, yet; or its log does not list it any more
    gone: bool = False
    #: its topic is one of a list, and is not there, yet or any more
    away: bool = False
    #: lanes that it follows
    parents: tuple[Parent, ...] = ()
    #: what comes above in the versions of its records
    depth: int = 0
    #: and below, of its next record, where its log has no number for each
    ordinal: int = 0
    #: its log ends before its position, as far as was told
    short: Short | None = None
    #: its log ends before its recorded slice does, as far as was told
    behind: Short | None = None
    #: where its log has records, as somebody found who read there, if the log does not tell that
    found_start: Place | None = None
    #: where lanes are merged: records that the last call of them took of this one
    taken: int = 0
    #: the wave that runs a slice of it
    wave: str | None = None
    #: nothing goes beyond this place that was started since its stream is held
    planned_to: Place = UNKNOWN
    #: after temporary trouble: not before this monotonic second
    not_before_s: float = 0.0
    #: temporary troubles in a row
    tries: int = 0
    #: failures at this position that count against the use case's retries
    attempts: int = 0
    #: dead letters in a row that its handler gave up
    letters: int = 0
    #: number of the open failure it is stopped at
    failure: int | None = None
    #: place behind what this is about, if that is known: its log had all of it
    stopped_until: Place | None = None
    #: place behind a record whose dead letter is not acknowledged yet
    aside: Place | None = None
    #: that record is not in its log any more, and another one may be in its place
    aside_gone: bool = False
    #: what it was stopped or held back by last, in one line; of interest while it is
    trouble: str = ""
    #: a slice up to here hung or killed its worker; until it is passed the stream runs apart
    suspect_until: Place | None = None
    #: most records of its next slice, while it is; None is no limit
    most_records: int | None = None
    #: the next slices end here, so that what comes before a failed record is a slice by itself
    stop_before: Place | None = None
    #: and have at most so many records up to there, where its log cannot count them
    before_stop: int = 0
    #: which bucket it is, of which partition; None: it is a whole one
    bucket: Bucket | None = None
    #: of a bucket: in so many places one of its records is expected
    every: float = 1.0
    #: the same without caution, for how many wait; None: nothing of it was read, so its even share
    likely_every: float | None = None

    def lag(self, places: Places) -> int:
        """Records that wait, as its log says; of one that does not say so what a visit may take.

        Of a bucket what is expected of all that wait in its lane.
        """
        waits = self.waits(places)
        return waits if self.bucket is None else ceil(waits / self.one_of)

    @property
    def one_of(self) -> float:
        """In so many places that wait one record of it is expected."""
        if self.bucket is None:
            return 1.0
        return self.likely_every or float(self.bucket.of)

    def waits(self, places: Places) -> int:
        """The same, of the lane of which it is a bucket."""
        if self.visits is not None:
            return self.visits.waits if self.end > self.position else 0
        waits = places.between(self.end, self.position) if self.end > self.position else 0
        return waits or 0

    @property
    def division(self) -> Division:
        """How its partition is divided where it is."""
        return WHOLE if self.bucket is None else self.bucket.division

    def far_in(self, farthest: Mapping[str, Place]) -> Place:
        """How far it may be read, of how far buckets of each partition may be; see `HeldStream`."""
        return OPEN if self.bucket is None else farthest.get(self.bucket.lane, OPEN)

    def told_lag(self, places: Places) -> tuple[int, LagIs]:
        """What people are told of it, and how that is known."""
        if self.visits is None:
            waits = self.lag(places)
            return waits, LagIs.ABOUT if waits and self.bucket is not None else LagIs.EXACT
        guess = self.visits.lag
        return (0, LagIs.UNKNOWN) if guess is None else (guess, LagIs.ABOUT)

    def view(
        self, name: str, places: Places, *, merged: bool, far: Place = OPEN, guess: bool = True
    ) -> LaneView:
        """What the planner is shown of it.

        Args:
            name: what it is called.
            places: of its log.
            merged: with other lanes, so only what is sure.
            far: it may not be read beyond this, whatever waits.
            guess: how many records of a bucket there are; else each place counts as one.
        """
        if self.visits is not None:
            return self._guessed(name, places, self.visits)
        end = max(min(self.end, self.sure) if merged else self.end, self.position)
        if self.stop_before is not None and self.stop_before > self.position:
            end = min(end, self.stop_before)
        if end > far:
            end = max(far, self.position)
        goes_on = (self.end == UNKNOWN and not self.gone) or self.end > end
        waits = places.between(end, self.position) or 0
        running = self.wave is not None
        taken, depth, ordinal = self.taken, self.depth, self.ordinal
        if self.bucket is not None and guess and not self.is_looked_into:
            every = int(self.every)
            some = (taken, (), depth, ordinal, False, every)
            return LaneView(name, self.position, end, -(-waits // every), running, goes_on, *some)
        return LaneView(
            name, self.position, end, waits, running, goes_on, taken, (), depth, ordinal
        )

    @property
    def is_looked_into(self) -> bool:
        """Whether a record is looked for that makes trouble: then nothing of it is guessed."""
        trouble = self.tries or self.attempts or self.letters
        return bool(trouble) or self.suspect_until is not None or self.stop_before is not None

    def _guessed(self, name: str, places: Places, visits: Visits) -> LaneView:
        """The same of one whose log does not say where it ends."""
        is_due = self.end > self.position
        end, waits = (OPEN, visits.waits) if is_due else (self.position, 0)
        if is_due and self.stop_before is not None and self.stop_before > self.position:
            end = self.stop_before
            counted = places.between(end, self.position)
            waits = max(1, self.before_stop if counted is None else counted)
        return LaneView(
            name,
            self.position,
            end,
            waits,
            in_flight=self.wave is not None,
            goes_on=True,
            depth=self.depth,
            ordinal=self.ordinal,
            untold=True,
            due_s=visits.due_s,
        )

    def looked_at(self, *, listed: bool, away: bool = False) -> None:
        """Its log told which lanes it has; of one that it lists no more nothing is tried again.

        What was not read of it is lost, and told as that; unless its whole topic is not there, and
        may come again.
        """
        self.gone, self.away = not listed or away, away
        if self.gone:
            self.tries = self.attempts = 0
        if self.gone and self.visits is not None:
            self.end = self.position

    def may_be_visited(self, now_s: float) -> bool:
        """Its log does not say where it ends; whether it had something lately."""
        if self.visits is None:
            self.visits = Visits()
        # One that was moved since may stand behind what was known of it.
        if self.visits.is_due(now_s) or UNKNOWN < self.end < self.position:
            self.end = OPEN
        elif self.end == UNKNOWN:
            self.end = self.position
        return self.visits.found

    @property
    def was_visited(self) -> bool:
        """Whether a visit of it came to its end, so that it waited for nothing."""
        return self.visits is not None and self.visits.behind is not None

    @property
    def note(self) -> str:
        """What the reader that visited it last leaves to the next one; after trouble nothing.

        It may be what makes the trouble, and whoever reads without it only has more work.
        """
        behind = None if self.visits is None or self.tries else self.visits.behind
        return "" if behind is None else behind.note

    def visited(self, receipt: Receipt, now_s: float, readers: int = 1) -> None:
        """A slice of it is over, where only reading tells how far it goes; so many read it.

        One that did not come to its end tells nothing. But the lane had its turn, and others that
        are due have theirs first.
        """
        if receipt.behind is None or receipt.superseded:
            if self.visits is not None:
                self.visits = replace(self.visits, due_s=max(self.visits.due_s, now_s))
            return
        visits = self.visits or Visits()
        self.visits = visits.came_back(receipt.records, receipt.behind, now_s, readers)
        rests = self.position == receipt.reached and not self.visits.is_due(now_s)
        self.end = self.position if rests else OPEN

    @property
    def is_blind(self) -> bool:
        """Whether it may hold the oldest record that is left, and none of it is sure."""
        return not self.gone and (self.end == UNKNOWN or self.sure <= self.position < self.end)

    @property
    def is_unsure(self) -> bool:
        """Whether it will be blind if nobody asks until it has done what it has."""
        return not self.gone and (self.end == UNKNOWN or self.end > max(self.position, self.sure))

    def restart(self, place: Place) -> None:
        """Stand elsewhere, with nothing known of what is there."""
        self.position, self.end, self.sure, self.planned_to = place, UNKNOWN, UNKNOWN, UNKNOWN
        self.visits = None
        self.tries = self.attempts = self.letters = self.taken = 0
        self.most_records = None
        self.not_before_s = 0.0
        self.failure = self.stopped_until = self.aside = None
        self.suspect_until = self.stop_before = None
        self.aside_gone = False
        self.short = self.behind = self.found_start = None

    def may_run(self, now_s: float) -> bool:
        """Whether something of it may be planned, if its stream may."""
        return self.wave is None and self.end > self.position and not self.held_back(now_s)

    def held_back(self, now_s: float) -> bool:
        """Whether nothing of it may be planned: it waits after trouble, a letter, or a person."""
        stands = self.failure is not None or self.aside is not None or self.away
        return stands or self.not_before_s > now_s
