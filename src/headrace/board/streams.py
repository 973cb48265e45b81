"""A stream as a driver holds it: what was decided, what is known, and what holds it back.

What may run of it now follows from that and from its lanes alone, so it is asked here and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.board.lanes import Lane
from headrace.model.buckets import bucket_of, replaced
from headrace.model.lane_names import in_order
from headrace.model.lineage import Ahead, Lineage, Parent, ahead, closed, ends_in, without
from headrace.model.patterns import TENANT
from headrace.model.places import FIRST, OPEN, Place, Places
from headrace.model.plans import Cost, LaneView, StreamView
from headrace.model.records import Deployment
from headrace.model.second_division import divided_twice, told
from headrace.model.statistics import LagIs, worst_known
from headrace.model.streams import PassedRange, Position, Slice, State, Stream, Tenant
from headrace.model.topic_lists import ALL, adds_to, is_of, others
from headrace.policies.data_loss import Short
from headrace.policies.density import SPREAD
from headrace.policies.express import SlotRoom


class Allowance(NamedTuple):
    """What a stream may take now; None is no limit."""

    records: int | None
    bytes: int | None


NO_LIMIT = Allowance(None, None)


_TAKEN_ANEW = "the store has not all of its lanes any more, so it is taken up anew"

#: of so many lanes in doubt none holds up the others; where there are more it may be all of them
FEW = 4


@dataclass(slots=True)
class HeldStream:
    """A stream this driver holds."""

    stream: Stream
    tenant: Tenant
    deployment: Deployment
    epoch: int
    #: what the log that it is read from says of places
    measures: Places
    #: by name, in the order of names
    lanes: dict[str, Lane] = field(default_factory=dict)
    #: streams that read its topic, of whatever use cases and drivers; it is one of them
    readers: int = 1
    #: some of them are buckets
    is_divided: bool = False
    #: lanes that wait, or waited, for others to come to their ends; of most logs there are none
    heirs: tuple[str, ...] = ()
    #: where lanes that others wait for end, as far as that is known
    ends: Mapping[str, Place] = field(default_factory=dict)
    #: lanes that are divided otherwise from these places on
    replaced: Mapping[str, Place] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    credit_s: float = 0.0
    #: shares bins only with streams of the same label; empty is no suspicion
    apart: str = ""
    #: it hung, or killed its worker, when it was last alone
    hung: bool = False
    #: most records of its next slices, after trouble; None is no limit
    most_records: int | None = None
    #: its tenant's throttle held something of it back in the last turn
    throttled: bool = False
    #: which other limit left it nothing in the last turn; empty is none
    limited_by: str = ""
    #: epochs since which topics are these, each with them as `others` has them; what was recorded
    #: before is of others
    topics_since: tuple[tuple[int, frozenset[str]], ...] = ()
    #: topics and partitions of its list that are not there, and what is to be done about it
    absent: str | None = None
    #: what is wrong with its topic, and keeps nobody from reading it; empty: nothing is known
    topic_trouble: str = ""
    #: topics of its pattern that were told once and are not now, each with the monotonic second
    #: since which that is so
    missing_since: dict[str, float] = field(default_factory=dict)
    #: what of that something is recorded of, which can not run before it comes
    recorded_of: tuple[str, ...] = ()
    #: topics that its pattern matches, and that are another tenant's
    shared: frozenset[str] = frozenset()
    #: why nothing of it is planned although it is active, such as a topic that is not there yet
    waiting: str | None = None
    #: why nothing of it is planned for a moment: until somebody has looked at its topic
    looked_at: str | None = None
    #: lanes that their log does not list any more and that were told lost, each with the id of
    #: its topic
    given_up: frozenset[tuple[str, str]] = frozenset()
    #: lanes that its log does not list, as far as was told, if some of them follow others
    unlisted: dict[str, Short] = field(default_factory=dict)
    #: that its topic has another id, as far as was told
    another: Short | None = None
    #: how often its topic was doubted: answers from before are not to be believed
    doubts: int = 0
    #: why its lanes cannot be put in order for longer than a moment
    blind: str | None = None
    #: why what was recorded of it can not run here, and holds it back until somebody decides
    owes: str | None = None
    #: why its positions can not be: records of some lanes would be read in two divisions
    doubled: str | None = None
    #: why its positions are not whole: lanes of the log are there without some of their buckets
    lacking: str | None = None
    #: why what is too old of it can not be passed over for longer than a moment
    too_old: str | None = None
    #: what its lanes passed over by decision to come where they are, or were since
    passed_ranges: dict[str, PassedRange] = field(default_factory=dict)
    #: the store has not all of its lanes any more, so it is to be taken up anew
    is_outdated: bool = False
    #: why its part of a plan may not run, until somebody changes something
    unfit: str | None = None

    @property
    def merges(self) -> bool:
        """Whether its lanes are put in one order."""
        return self.deployment.order.merges_lanes and len(self.lanes) > 1

    @property
    def waits(self) -> str | None:
        """Why nothing of it runs or is planned although it is active; None if nothing is wrong."""
        # Lanes of before may stand beside those of now, so that says nothing of the store.
        odd = _TAKEN_ANEW if self.is_outdated else self.doubled or self.lacking or self.unfit
        return self.waiting or self.owes or odd or self.looked_at

    def since(self, lane: str) -> int:
        """The epoch since which a lane's topic is this one."""
        return max((epoch for epoch, topics in self.topics_since if is_of(lane, topics)), default=0)

    def read_anew(self, topic_id: str, epoch: int) -> None:
        """Topics that are others by this id, or were not known, are these since an epoch."""
        was = self.stream.topic_id
        other = ALL if was is None else others(was, topic_id)
        if other and self.topics_since[-1:] != ((epoch, other),):
            self.topics_since = (*self.topics_since, (epoch, other))

    @property
    def reads(self) -> str:
        """What the version that runs names of it: a longer list may be deployed, and not taken."""
        text = self.deployment.topic.replace(TENANT, self.stream.id.tenant)
        return text if adds_to(self.stream.topic, text) else self.stream.topic

    @property
    def restarts(self) -> bool:
        """Whether something of it is to be passed over before more of it is planned."""
        return self.stream.silent_s is not None

    @property
    def sets_aside(self) -> bool:
        """Whether a lane of it waits until a dead letter is kept."""
        return any(lane.aside is not None for lane in self.lanes.values())

    @property
    def state(self) -> State:
        """Active only if both tenant and stream are."""
        return self.tenant.state if self.tenant.state is not State.ACTIVE else self.stream.state

    @property
    def finished(self) -> bool:
        """Whether it is a rerun that has come to its end."""
        until = self.deployment.until
        return bool(until) and all(
            name in self.lanes and self.lanes[name].position >= end
            for name, end in (until or {}).items()
        )

    def bounded(self, name: str, end: Place) -> Place:
        """Where a lane ends for it, if its log ends at ``end``."""
        until = self.deployment.until
        if name in self.replaced:
            # Its log goes on, and others have what is behind that.
            end = min(end, self.replaced[name])
        return end if until is None else min(end, until.get(name, FIRST))

    def take(self, positions: Iterable[Position]) -> None:
        """Have lanes where they are; those that it had not are new to it."""
        new, heirs = dict[str, Lane](), False
        for position in positions:
            name = position.lane.name
            lane = self.lanes.get(name)
            if lane is None:
                lane = new[name] = Lane(position.next_offset, bucket=bucket_of(name))
            lane.position = position.next_offset
            lane.depth, lane.ordinal = position.depth, position.ordinal
            if position.passed_range is not None:
                self.passed_ranges[name] = position.passed_range
            else:
                self.passed_ranges.pop(name, None)
            if lane.parents != position.parents:
                lane.parents, heirs = position.parents, True
        if new:
            lanes = self.lanes | new
            self.lanes = {name: lanes[name] for name in in_order(lanes)}
            self.is_divided = any(lane.bucket is not None for lane in lanes.values())
        if heirs or (new and self.is_divided):
            self._find_heirs()

    @property
    def has_past(self) -> bool:
        """Whether a slice of it may have to be told something."""
        first = next(iter(self.lanes.values()), None)
        return bool(self.passed_ranges) or (first is not None and first.visits is not None)

    def with_its_past(self, piece: Slice) -> Slice:
        """A new slice of it, told what its lane passed over right before it, and the last note."""
        name = piece.lane.name
        last, note = self.passed_ranges.get(name), self.lanes[name].note
        if last is not None and last.until_offset != piece.from_offset:
            last = None
        return replace(piece, passed_range=last, note=note) if last or note else piece

    def follow(self, parents: Lineage) -> None:
        """Let its lanes follow these, and nothing else."""
        for name, lane in self.lanes.items():
            lane.parents = parents.get(name, ())
        self._find_heirs()

    def drop(self, names: Iterable[str]) -> None:
        """Have lanes no more, and wait for none of them."""
        gone = set(names)
        self.lanes = {name: lane for name, lane in self.lanes.items() if name not in gone}
        for lane in self.lanes.values():
            if lane.parents:
                lane.parents = without(lane.parents, gone)
        self._find_heirs()

    def _find_heirs(self) -> None:
        self.ends = ends_in(self.lineage)
        self.heirs = tuple(
            name
            for name, lane in self.lanes.items()
            if any(parent.until is not None for parent in lane.parents)
        )
        self.replaced = replaced(self.lineage)
        twice = divided_twice(self.lanes, self.lineage) if self.is_divided else set()
        self.doubled = told(self.stream.id, twice, self.places)
        for name in self.replaced.keys() & self.lanes.keys():
            self.lanes[name].end = min(self.lanes[name].end, self.replaced[name])

    @property
    def lineage(self) -> dict[str, tuple[Parent, ...]]:
        """Parents of its lanes, as far as they have any."""
        return {name: lane.parents for name, lane in self.lanes.items() if lane.parents}

    @property
    def places(self) -> dict[str, Place]:
        """Where its lanes are committed."""
        return {name: lane.position for name, lane in self.lanes.items()}

    def is_done(self, name: str) -> bool:
        """Whether a lane is committed to the end that those which follow it have for it."""
        until, lane = self.ends.get(name), self.lanes.get(name)
        return until is not None and lane is not None and lane.position >= until

    @property
    def closed(self) -> dict[str, list[Ahead]]:
        """Lanes of which nothing is read yet, each with the lanes that it waits for."""
        return closed(self.lineage, self.places) if self.heirs else {}

    @property
    def lanes_of_log(self) -> int:
        """So many lanes it has; those that are buckets of one are one together."""
        buckets = ((name, lane.bucket) for name, lane in self.lanes.items())
        return len({name if bucket is None else bucket.lane for name, bucket in buckets})

    @property
    def lag_records(self) -> int:
        """Over all lanes; of those that do not tell their ends what visits may take."""
        if self.is_divided:
            some = sum(lane.waits(self.measures) / lane.one_of for lane in self.lanes.values())
            return max(round(some), 1) if some else 0
        return sum(lane.lag(self.measures) for lane in self.lanes.values())

    @property
    def told_lag(self) -> tuple[int, LagIs]:
        """What people are told of all lanes together, and how that is known."""
        plain = all(lane.visits is None and lane.bucket is None for lane in self.lanes.values())
        if plain and not self.lacking:
            return self.lag_records, LagIs.EXACT
        told = [lane.told_lag(self.measures) for lane in self.lanes.values()]
        how = worst_known(kind for _, kind in told)
        how = LagIs.UNKNOWN if self.lacking else how
        # Each bucket rounds up what it may have: together that would be one more for each.
        return self.lag_records if self.is_divided else sum(lag for lag, _ in told), how

    @property
    def has_work(self) -> bool:
        """Whether it has something to run, now or by itself later, without anybody's decision."""
        if self.state is not State.ACTIVE or self.waits:
            return False
        going = {
            name: lane
            for name, lane in self.lanes.items()
            if lane.failure is None and not lane.away
        }
        if self.deployment.order.merges_lanes and len(going) < len(self.lanes):
            return False
        # What waits for others has nothing to do before they have.
        closed, far = self.closed, self.farthest
        return any(
            lane.end > lane.position and lane.far_in(far) > lane.position
            for name, lane in going.items()
            if name not in closed
        )

    @property
    def farthest(self) -> dict[str, Place]:
        """How far buckets may be read, by partitions, so that none is too far ahead of the least.

        One that has come to its end, as in a rerun, holds nobody up.
        """
        least = dict[str, Place]()
        if not self.is_divided:
            return least
        for name, lane in self.lanes.items():
            if lane.bucket is not None and lane.position < self.bounded(name, OPEN):
                whole = lane.bucket.lane
                least[whole] = min(lane.position, least.get(whole, OPEN))
        return {whole: self.measures.after(at, SPREAD) for whole, at in least.items()}

    def runnable(self, now_s: float) -> bool:
        """Whether the planner should see it."""
        if self.state is not State.ACTIVE or self.waits or self.restarts:
            return False
        held_back = [lane.held_back(now_s) for lane in self.lanes.values()]
        if self.deployment.order.merges_lanes and any(held_back):
            return False
        return any(
            not stopped and lane.wave is None and lane.end > lane.position
            for lane, stopped in zip(self.lanes.values(), held_back, strict=True)
        )

    @property
    def in_doubt(self) -> list[Lane]:
        """Lanes to be tried apart, one after the other, while the others go on."""
        if self.apart != str(self.stream.id) or self.deployment.order.merges_lanes:
            return []
        found = [lane for lane in self.lanes.values() if lane.suspect_until is not None]
        return found if len(found) <= FEW else []

    def shown(self, now_s: float, room: SlotRoom | None) -> tuple[Mapping[str, Lane], bool]:
        """The lanes that may be planned together now, and whether others of them are in doubt.

        A try of one in doubt goes first, by itself, if its bin may start; the next one waits until
        it is over. Without ``room`` all of them share the fate of the stream.
        """
        doubted = self.in_doubt if room is not None and self.apart else []
        if room is None or not doubted:
            return self.lanes, False
        rest = {name: lane for name, lane in self.lanes.items() if lane.suspect_until is None}
        due = [lane for lane in doubted if lane.may_run(now_s)]
        may_start = room.long > 0 and (room.hung > 0 or not self.hung)
        others_may = any(lane.may_run(now_s) for lane in rest.values())
        if not due or any(lane.wave for lane in doubted) or (others_may and not may_start):
            return rest, True
        first = min(due, key=lambda lane: lane.not_before_s)
        return {name: lane for name, lane in self.lanes.items() if lane is first}, False

    def _most_records(self, lanes: Iterable[Lane]) -> int | None:
        """Of the next slices of these lanes."""
        if not self.apart:
            return self.most_records
        known = [self.most_records, *(lane.most_records for lane in lanes)]
        return min((most for most in known if most is not None), default=None)

    def view(
        self, now_s: float, allowance: Allowance = NO_LIMIT, room: SlotRoom | None = None
    ) -> StreamView:
        """What the planner is shown of it; of lanes in doubt see `shown`."""
        merged, places, far = self.merges, self.measures, self.farthest
        shown, spared = self.shown(now_s, room)
        most = self._most_records(shown.values())
        guess = most is None
        lanes = tuple(
            lane.view(name, places, merged=merged, far=lane.far_in(far), guess=guess)
            if far
            else lane.view(name, places, merged=merged)
            for name, lane in shown.items()
            if not lane.held_back(now_s)
        )
        if self.heirs:
            lanes = tuple(self._with_parents(lanes))
        records = allowance.records
        if most is not None:
            records = most if records is None else min(records, most)
        return StreamView(
            id=self.stream.id,
            topic=self.stream.topic,
            lanes=lanes,
            order=self.deployment.order,
            epoch=self.epoch,
            weight=self.tenant.weight * self.deployment.priority * self.deployment.share,
            cost=self.cost,
            credit_s=self.credit_s,
            allowance_records=records,
            allowance_bytes=allowance.bytes,
            apart="" if spared else self.apart,
            hung=self.hung and not spared,
            spared=spared,
            call_limit_s=self.deployment.handler_timeout_s,
        )

    def _with_parents(self, lanes: Iterable[LaneView]) -> Iterable[LaneView]:
        """Lanes with what they wait for.

        Where lanes are merged one that is waited for goes on: what follows its last record is in
        the lane that waits, and may be older than what the others have.
        """
        lineage, places = self.lineage, self.places
        waiting = closed(lineage, places)
        behind = {parent.lane for waits in waiting.values() for parent in waits if self.merges}
        for lane in lanes:
            parents = ahead(lane.name, lineage, places) if waiting else ()
            goes_on = lane.goes_on or lane.name in behind
            yield replace(lane, parents=parents, goes_on=goes_on)
