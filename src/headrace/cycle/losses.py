"""What becomes of a stream whose topic no longer has the records that are next.

Three things take records away before they were read: retention, a log that is cut, and a topic that
is deleted and made again. Passing over that in silence would break the one promise everybody
relies on, and stopping everybody for it would break another. So it is found here, stream by stream,
before anything more of it is planned, and told by exact offsets. Then ``data_loss`` of the use case
decides for this stream alone: ``fail`` suspends it until a person has sought it; ``skip`` sends it
on where its topic does, and the offsets stay in the store as a failure that is over.

A log that ends before a position is first doubted: the cluster is asked who leads it, and for as
long as a leader that is cut off could still answer, its stream waits. So it does while a lane may
only be missing from an answer that was not whole.

A skip waits until nothing of the stream runs, and raises its epoch: a slice of the old log that
still runs somewhere could otherwise commit under offsets that mean other records by now. It waits
for a dead letter as well: what comes of one is of the epoch under which its lane stands still. It
does not wait for a recorded wave that is to run again: that one waits for the skip.

When topics are looked at is `topics.py`'s matter; what is lost, `policies/data_loss.py`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from headrace.board import Board, HeldStream, Lane
from headrace.cycle.lineage import doubtful, has_begun, lanes_go, listed_or_away
from headrace.cycle.talks import Talk
from headrace.cycle.topic_ids import made_again
from headrace.errors import LaneExpired, OffsetOutOfRange, TopicRecreated
from headrace.model.buckets import ended_sooner, share_of, whole_lane
from headrace.model.lane_names import spoken
from headrace.model.lineage import Lineage, Parent, begun
from headrace.model.places import FIRST, UNKNOWN, Place
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.streams import DataLossPolicy, LaneId, Slice, State, Stopper, StreamId
from headrace.model.topic_lists import is_another, is_of, others, reads_several, topic_of_lane
from headrace.policies.data_loss import (
    CUT_PATIENCE_S,
    LIST_PATIENCE_S,
    Loss,
    Lost,
    lost_lanes,
    lost_range,
    lost_topic,
    seen_short,
)
from headrace.ports import Clock, Log, Progress, Registry, TopicInfo
from headrace.telemetry.log_fields import of_stream
from headrace.telemetry.report import Reporter

log = structlog.get_logger(__name__)

_ENDS_FIRST = "what was lost is passed over as soon as nothing of the stream runs"
_LETTER_FIRST = "what was lost is passed over as soon as its dead letter is kept, or is not"
_MOVED = "its positions were moved meanwhile; its topic is looked at again"
_KINDS = {Loss.RECREATED: TopicRecreated, Loss.EXPIRED: LaneExpired}
_NO_LEADER = "a lane of its new topic has no leader; it begins when all have one"


@dataclass(frozen=True, slots=True)
class FirstAndLast:
    """First and last offsets, as far as they were asked for and could be had."""

    starts: Mapping[str, Place]
    ends: Mapping[str, Place]
    #: monotonic second at which the youngest question was put
    asked_s: float = 0.0
    #: lanes of which only readers find whether anything is gone before their starts
    untold: frozenset[str] = frozenset()

    def start_of(self, name: str, found: Place | None) -> Place | None:
        """Before which place all is gone of a lane, if anybody knows.

        Args:
            name: what it is called.
            found: by who read there.
        """
        return found if name in self.untold else self.starts.get(name)


@dataclass(slots=True)
class Losses:
    """Finds what logs lost of the streams on a board, and does what was decided about it."""

    registry: Registry
    progress: Progress
    board: Board
    reporter: Reporter
    clock: Clock
    #: how long a log has to end before a position until it counts as cut
    cut_patience_s: float = CUT_PATIENCE_S
    _sent_on: bool = False

    def find(
        self, seen: Sequence[tuple[HeldStream, TopicInfo]], edges: FirstAndLast
    ) -> dict[StreamId, str]:
        """Hold streams against their topics; return those that can not go on now, each with why.

        Raises:
            StoreUnavailable: a decision may or may not be in the store; look at it again.
        """
        reasons: dict[StreamId, str] = {}
        for held, info in seen:
            reason = self._stream(held, info, edges)
            if reason is not None:
                reasons[held.stream.id] = reason
        return reasons

    def take_sent_on(self) -> bool:
        """Whether lanes were sent on since this was asked last, or may have been."""
        sent_on, self._sent_on = self._sent_on, False
        return sent_on

    def ask(self, seen: Sequence[tuple[HeldStream, TopicInfo]]) -> Talk[FirstAndLast]:
        """Learn where the logs of these streams begin and, where that is doubtful, end.

        Raises:
            BrokerUnavailable: nothing was learned.
        """
        there = {name for _, info in seen for name in info.lanes}
        lanes = {
            name: holders
            for name, holders in self.board.lanes_of(held for held, _ in seen).items()
            if name in there
        }
        # Nobody has asked yet, or the log ends before the position. It need not have been cut: a
        # seek may go to records that came later.
        doubtful = [
            name
            for name, holders in lanes.items()
            if any(_is_doubtful(holder.lane) for holder in holders)
        ]
        if not lanes:
            return FirstAndLast({}, {})
        asked_s = self.clock.monotonic_s()
        made_again = {
            name
            for held, info in seen
            if held.stream.topic_id not in (None, info.topic_id)
            for name in info.lanes
        }
        topic_by_lane = {name: of[0].held.stream.topic for name, of in lanes.items()}
        edges: FirstAndLast = yield partial(_edges, topic_by_lane, doubtful, made_again)
        lost = {
            name
            for name, holders in lanes.items()
            if any(
                _lost_of(holder.lane, edges.start_of(name, None), edges.ends.get(name))
                for holder in holders
            )
        }
        if lost:
            asked_s = self.clock.monotonic_s()
            edges = yield partial(_asked_anew, edges, lost)
        return replace(edges, asked_s=asked_s)

    def _stream(self, held: HeldStream, info: TopicInfo, edges: FirstAndLast) -> str | None:
        if is_another(held.stream.topic_id, info.topic_id):
            found = _of_topic(held, info, edges)
        else:
            found = self._of_ranges(held, edges)
            early = self._too_early(held, found, edges.asked_s)
            if early is not None:
                return early
            found |= self._of_lineage(held, info)
            if unsettled := self._unsettled(held, found):
                return unsettled
            for name, lost in found.items():
                if lost.loss is Loss.CUT and held.lanes[name].aside is not None:
                    held.lanes[name].aside_gone = True
        if found is None:
            return _NO_LEADER
        if not found:
            return None
        if held.deployment.data_loss is DataLossPolicy.FAIL:
            return self._suspend(held, info, found)
        return self._skip(held, info, found)

    def _of_ranges(self, held: HeldStream, edges: FirstAndLast) -> dict[str, Lost]:
        """What its lanes lost, but for those that run, and those that may not be moved now."""
        waits = held.deployment.data_loss is DataLossPolicy.SKIP
        until, found = held.deployment.until, dict[str, Lost]()
        for name, lane in held.lanes.items():
            if lane.wave in self.board.flights:
                continue
            if until is not None and lane.position >= until.get(name, FIRST):
                continue  # a rerun has nothing left to read there
            start = edges.start_of(name, lane.found_start)
            lost = _lost_of(lane, start, edges.ends.get(name))
            # What goes first of all that is too old is too old itself (`restarts.py`).
            goes = held.restarts and held.stream.id not in self.board.owed and lane.failure is None
            # A lane that is stopped at a record goes on when somebody says so, and not before; but
            # of a log that was cut its record is gone, and others may soon have its offset.
            stays = goes or (waits and lane.failure is not None)
            if lost is not None and not (stays and lost.loss is Loss.RETENTION):
                found[name] = lost
        return found

    def _of_lineage(self, held: HeldStream, info: TopicInfo) -> dict[str, Lost]:
        """Lanes that are not listed any more and were not done; what a stream begins without, none.

        A lane that nothing follows may be one of them: what followed it can have gone as well.
        """
        if not has_begun(held) or not lanes_go(held, info):
            return {}
        until = held.deployment.until
        told = info.parents if until is None else {}
        lost = lost_lanes(listed_or_away(held, info), told, held.lineage, held.places)
        lost = {name: loss for name, loss in lost.items() if not _is_told(held, name, info)}
        if until is None:
            return lost
        return {
            name: loss for name, loss in lost.items() if loss.from_place < until.get(name, FIRST)
        }

    def _unsettled(self, held: HeldStream, found: Mapping[str, Lost]) -> str | None:
        """Why nothing can be decided yet about lanes that are not listed any more."""
        waits = held.deployment.data_loss is DataLossPolicy.SKIP
        expired = [name for name, lost in found.items() if lost.loss is Loss.EXPIRED]
        early = doubtful(held).intersection(expired)
        if early:
            return (
                f"{min(early)} is not listed by its log; a list that is not whole is without it as "
                f"well, so it is asked for {LIST_PATIENCE_S:g} s before it counts as gone"
            )
        for name in expired:
            lane = held.lanes.get(name)
            if lane is None:
                continue
            if lane.wave in self.board.flights:
                return _ENDS_FIRST
            if waits and lane.failure is not None:
                return f"{name} is not listed by its log any more; its open failure comes first"
        return None

    def _too_early(self, held: HeldStream, found: Mapping[str, Lost], asked_s: float) -> str | None:
        """Why nothing may be done yet about what seems to be cut; None if nothing only seems so."""
        now_s, reason = self.clock.monotonic_s(), None
        for name, lane in held.lanes.items():
            lost = found.get(name)
            if lost is None or lost.loss is not Loss.CUT:
                lane.short = None
                continue
            patience_s = self.cut_patience_s
            lane.short = seen_short(lane.short, lane.position, asked_s, now_s, patience_s)
            if not lane.short.lasts(self.cut_patience_s):
                reason = (
                    f"{name} seems to end at {lost.from_place}, before "
                    f"{_before(lost, lane.position)}; a broker that is cut off says so as well, so "
                    f"it is asked for {self.cut_patience_s:g} s before the log counts as cut"
                )
        return reason

    def _suspend(self, held: HeldStream, info: TopicInfo, found: Mapping[str, Lost]) -> str:
        errors = [
            _error(lost, f"{_fact(held, name, lost, info)}; {_advice(lost)}")
            for name, lost in found.items()
        ]
        for error in errors:
            log.error("stream suspended", **of_stream(held.stream.id), why=_shown(error))
        more = f" (and {len(errors) - 1} more lanes)" if len(errors) > 1 else ""
        reason = f"{_shown(errors[0])}{more}"
        # What comes in the place of a record that is gone is nobody's to skip with it.
        gone = [name for name, lost in found.items() if lost.loss in (Loss.CUT, Loss.RECREATED)]
        self.registry.set_stream_state(
            held.stream.id, State.SUSPENDED, reason, by=Stopper.FAILURE, epoch=held.epoch, gone=gone
        )
        return reason

    def _skip(self, held: HeldStream, info: TopicInfo, found: Mapping[str, Lost]) -> str | None:
        """Go on behind what is lost; returns why not, if not."""
        if self.board.runs(held):
            return _ENDS_FIRST
        if held.sets_aside:
            return _LETTER_FIRST
        stream, moves, failures = held.stream.id, [], []
        for name, loss in found.items():
            lane = LaneId(*stream, name)
            bounds = loss.from_place, loss.until_place
            records = _spanned(loss, held)
            piece = Slice(lane, held.stream.topic, *bounds, held.epoch, records=records)
            if name in held.lanes:
                moves.append(Move(lane, held.lanes[name].position, loss.go_on_at, held.epoch))
            fact = f"{_fact(held, name, loss, info)}; skipped, {_goes_on(name, loss, info)}"
            failures.append(self._over(piece, _error(loss, fact)))
        parents, gone = _lineage(held, info, found)
        topic_id, self._sent_on = info.topic_id, True
        epoch = self.progress.skip_lost(stream, moves, failures, topic_id, parents, gone)
        # What is read from now on may be deeper, and is so from its first slice on.
        positions = self.progress.load_positions([stream])
        if epoch is None:
            self.board.fill(positions)
            return _MOVED
        held.epoch = epoch
        held.read_anew(info.topic_id, epoch)
        held.stream = replace(held.stream, topic_id=info.topic_id, epoch=epoch)
        held.given_up |= {(info.topic_id, lane) for lane in _expired_lanes(found)}
        for name in found.keys() & held.lanes.keys():
            held.lanes[name].restart(found[name].go_on_at)
        if parents is not None:
            held.follow(parents)
        if gone:
            held.drop(gone)
        self.board.fill(positions)
        self._tell(held, found, failures)
        return None

    def _over(self, piece: Slice, error: SliceError) -> Failure:
        """A failure that stops nothing: it is there to be seen."""
        now_s = self.clock.now_s()
        return Failure(piece, error, now_s, attempts=0, state=FailureState.SKIPPED)

    def _tell(
        self, held: HeldStream, found: Mapping[str, Lost], failures: Sequence[Failure]
    ) -> None:
        stream = held.stream.id
        meter = self.reporter.meter(stream)
        lost = {name: _spanned(loss, held) for name, loss in found.items() if loss.unread}
        meter.lost_records += share_of(lost)
        for failure in failures:
            shown = _shown(failure.error)
            meter.note(shown, self.clock.now_s())
            log.warning("lost records skipped", **of_stream(stream), error=shown)


def _is_doubtful(lane: Lane) -> bool:
    """Whether its end is not known, or is before what it had."""
    return lane.end < max(FIRST, lane.position, _had(lane))


def _had(lane: Lane) -> Place:
    """Where the log came to, by the record that a lane is stopped at, or that is set aside."""
    had = lane.aside if lane.stopped_until is None else lane.stopped_until
    return UNKNOWN if had is None else had


def _lost_of(lane: Lane, start: Place | None, end: Place | None) -> Lost | None:
    return lost_range(lane.position, start, end, _had(lane))


def _before(lost: Lost, position: Place) -> str:
    if lost.from_place < position:
        return f"the position {position}"
    return f"{lost.until_place}, up to where it has what it is stopped at"


def _edges(
    topic_by_lane: Mapping[str, str],
    doubtful: Collection[str],
    made_again: Collection[str],
    log: Log,
) -> FirstAndLast:
    """Asked in a thread; where no start tells a loss, of topics that were made again alone."""
    silent = {topic for topic in {*topic_by_lane.values()} if not log.of(topic).tells_starts}
    untold = frozenset(name for name, topic in topic_by_lane.items() if topic in silent)
    asked = [name for name in topic_by_lane if name not in untold or name in made_again]
    ends = log.end_offsets(doubtful) if doubtful else {}
    return FirstAndLast(log.start_offsets(asked) if asked else {}, ends, untold=untold)


def _asked_anew(edges: FirstAndLast, lost: Collection[str], log: Log) -> FirstAndLast:
    """The edges, of partitions that seem to have lost something as their leaders of now say.

    A new leader does not answer before it knows (KIP-207), but the client may still ask the one
    before, which can be cut off and know nothing of it.
    """
    log.doubt(lost)
    starts = {name: at for name, at in edges.starts.items() if name not in lost}
    ends = {name: at for name, at in edges.ends.items() if name not in lost}
    ends |= log.end_offsets(lost)
    if told := [name for name in lost if name not in edges.untold]:
        starts |= log.start_offsets(told)
    return replace(edges, starts=starts, ends=ends)


def _spanned(lost: Lost, held: HeldStream) -> int:
    """How many records there may be in what is lost; 0 where nobody knows."""
    return held.measures.between(lost.until_place, lost.from_place) or 0


def _error(lost: Lost, message: str) -> SliceError:
    """A loss as it is shown to people."""
    kind = _KINDS.get(lost.loss, OffsetOutOfRange)
    return SliceError(temporary=False, code=kind.__name__, message=message)


def _of_topic(held: HeldStream, info: TopicInfo, edges: FirstAndLast) -> dict[str, Lost] | None:
    """What its lanes lost with their topic; None if the new one cannot be seen whole yet."""
    found: dict[str, Lost] = {}
    other = others(held.stream.topic_id, info.topic_id)
    for name, lane in held.lanes.items():
        if not is_of(name, other):
            continue
        start = edges.starts.get(name) if name in info.lanes else None
        if start is None and name in info.lanes:
            return None
        found[name] = lost_topic(lane.position, start)
    return found


def _lineage(
    held: HeldStream, info: TopicInfo, found: Mapping[str, Lost]
) -> tuple[Lineage | None, set[str]]:
    """What lanes follow after a decision, if that changes, and lanes to forget."""
    other = others(held.stream.topic_id, info.topic_id)
    if not other:
        expired = _expired_lanes(found)
        gone = {name for name in held.lanes if whole_lane(name) in expired} if expired else set()
        cut = {name: loss.go_on_at for name, loss in found.items() if loss.loss is Loss.CUT}
        sooner = ended_sooner(held.lineage, cut) if held.replaced else {}
        return sooner or None, gone
    # One that another topic does not have may come with it later, and begins as any new one does.
    lanes = {name for name in held.lanes if is_of(name, other)}
    if not (info.parents or held.lineage):
        return None, lanes - set(info.lanes)
    # Of another topic nothing is as it was. Where a parent is new to the stream, so is its child.
    kept = {name: of for name, of in held.lineage.items() if name not in lanes}
    parents: dict[str, tuple[Parent, ...]] = {}
    left = lanes & set(info.lanes)
    while True:
        followed = {name: begun(info.parents.get(name, ()), info.lanes, left, {}) for name in left}
        parents = {name: of for name, of in followed.items() if of is not None}
        if len(parents) == len(left):
            return kept | parents, lanes - left
        left = set(parents)


def _expired_lanes(found: Mapping[str, Lost]) -> set[str]:
    """Lanes of the log that are given up: with one bucket of a lane go those that were done."""
    return {whole_lane(name) for name, loss in found.items() if loss.loss is Loss.EXPIRED}


def _is_told(held: HeldStream, name: str, info: TopicInfo) -> bool:
    """Whether it was given up unread; nothing says so in the store before a child has a place."""
    return name not in held.lanes and (info.topic_id, whole_lane(name)) in held.given_up


def _goes_on(name: str, lost: Lost, info: TopicInfo) -> str:
    if lost.loss is Loss.EXPIRED:
        return "what follows it goes on without it"
    if name not in info.lanes:
        return "and there is no such lane now"
    return f"goes on at {lost.go_on_at}"


def _fact(held: HeldStream, name: str, lost: Lost, info: TopicInfo) -> str:
    if lost.loss is Loss.RETENTION:
        gone = f"{lost.from_place}..{lost.until_place}"
        return f"{name} lost offsets {gone} to retention before they were read"
    if lost.loss is Loss.CUT and held.lanes[name].position <= lost.from_place:
        return (
            f"{name} ends at {lost.from_place}, but what it is stopped at was there up to "
            f"{lost.until_place}: the log was cut"
        )
    if lost.loss is Loss.CUT:
        return (
            f"{name} ends at {lost.from_place}, but all before {lost.until_place} was read: "
            "the log was cut"
        )
    if lost.loss is Loss.EXPIRED:
        return _expired(held, name, lost)
    other = others(held.stream.topic_id, info.topic_id)
    if reads_several(held.stream.topic):
        other = other & {topic_of_lane(name, held.stream.topic)}
    made = made_again(held.stream, info, other, "was deleted and made again")
    return f"{made}; what it had in {spoken(name)} from offset {lost.from_place} on is lost"


def _expired(held: HeldStream, name: str, lost: Lost) -> str:
    where = f"{name} is not listed by its log any more"
    if name not in held.lanes:
        return f"{where} and was never read; all that was in it is lost"
    if lost.until_place > lost.from_place:
        return f"{where}; offsets {lost.from_place}..{lost.until_place} of it are lost"
    return (
        f"{where}, and where it ended is not known; what it had from {lost.from_place} on is lost"
    )


def _shown(error: SliceError) -> str:
    return f"{error.code}: {error.message}"


def _advice(lost: Lost) -> str:
    """What a person can do."""
    to = {
        Loss.RETENTION: f" to {lost.go_on_at} or later",
        Loss.CUT: f" to {lost.go_on_at} or earlier",
        Loss.RECREATED: "",
        Loss.EXPIRED: "",
    }[lost.loss]
    return f"seek the stream{to}, then resume it"
