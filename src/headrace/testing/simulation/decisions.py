"""What was decided about lanes as a whole, held against what is true, and the generations of it.

A driver gives new lanes their first positions, sends a stream on behind what Kafka lost, or
suspends it for a person to decide; a person seeks. Each is looked at in the moment in which it is
in the store. Exact is then: a lane begins no later than its log; a skip is from where the lane is
to where its log goes on, with a note of the very offsets; whoever is suspended or sent on has lost
something, and as the use case's policy has it. A record that is blamed makes trouble.

Two things are taken as they are told, as nobody can know better: the end of a topic that is gone,
and offsets that were looked at while the topic was another. A reason shown to people may be of a
moment ago: its offsets have to be some that the lane had.

What sends one lane of a stream away raises the epoch of all, and so takes what was under way from
the others too: they begin a generation together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.board import Board
from headrace.cycle.restarts import PASSED_OVER
from headrace.errors import LaneExpired
from headrace.model import places
from headrace.model.buckets import whole_lane
from headrace.model.lane_names import number_of
from headrace.model.places import FIRST, number_at
from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import (
    RERUN_MARK,
    DataLossPolicy,
    LaneId,
    Slice,
    State,
    Stream,
    StreamId,
    original,
)
from headrace.model.waves import Wave
from headrace.ports import Store
from headrace.testing.ledger import Place
from headrace.testing.simulation.deployed import Deployed
from headrace.testing.simulation.divided import Divided, lacking
from headrace.testing.simulation.generations import Generation, Generations
from headrace.testing.simulation.given_up import GivenUp
from headrace.testing.simulation.keys import those_in
from headrace.testing.simulation.left_alone import LeftAlone
from headrace.testing.simulation.lineage import Gate
from headrace.testing.simulation.passed_ranges import PassedRanges
from headrace.testing.simulation.topics import WorldTopics, lane_of, named, topic_of
from headrace.testing.simulation.troubles import GOOD, trouble_of

_RETENTION = re.compile(r"\[(\d+)\] lost offsets (\d+)\.\.\d+ to retention")
_CUT = re.compile(r"\[(\d+)\] ends at \d+, but all before (\d+) was read")
_IDS = re.compile(r"made again \(id ([^,]+), now ([^)]+)\)")
_EXPIRED = re.compile(r"([^ ]+) is not listed by its log any more")
_MADE_AGAIN = re.compile(r"in partition (\d+) from offset (\d+) on is lost")


@dataclass(eq=False, slots=True)
class Decisions:
    """Keeps generations true to what was decided, and notes what may not be decided."""

    store: Store
    topics: WorldTopics
    deployed: Deployed
    generations: Generations
    counts: Counter[str]
    #: streams of which Kafka lost something at some time
    lossy: set[StreamId] = field(default_factory=set)
    #: suspended for that at a monotonic second, and nobody has decided yet
    stopped: dict[StreamId, float] = field(default_factory=dict)
    #: whose first lanes have their places, or that began without a topic
    begun: set[StreamId] = field(default_factory=set)
    #: what a person passed over without knowing which record it was: use case and bare place
    skipped: set[tuple[str, Place]] = field(default_factory=set)
    found: list[str] = field(default_factory=list)
    #: recorded slices that lanes were sent away from
    given_up: GivenUp = field(default_factory=GivenUp)
    #: streams that may pass over what is too old
    left_alone: LeftAlone = field(init=False)
    #: what lanes passed over, and who was told
    passed_ranges: PassedRanges = field(init=False)
    divided: Divided = field(init=False)
    gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is given up yet."""
        self.left_alone = LeftAlone(self.store, self.topics.clock)
        self.passed_ranges = PassedRanges(self.counts)
        self.divided = Divided(self.generations)
        self.gate = Gate(self.divided)

    def decided(self, name: str, args: Sequence[Any]) -> None:
        """A driver made a decision; the store has it."""
        if name == "start_lanes":
            for item in args[0]:
                self._started(item)
        elif name == "pass_over":
            self._passed_over_old(*args)
        elif name == "skip_lost":
            self._skipped(*args)
        elif name == "stay":
            self.left_alone.decided(args[0])
        elif name == "keep":
            for failure in args[0]:
                self._blamed(failure)
        elif name == "forget_lanes":
            self._forgotten(*args)
        else:
            self._suspended(*args)

    def sought(
        self,
        stream: StreamId,
        offsets: Mapping[str, places.Place],
        topic_id: str | None,
        gone: Collection[str] = (),
    ) -> None:
        """A person sent a stream's lanes elsewhere, or began a rerun.

        It is so in the topic that the person was told of, which may be gone; a rerun's is that
        which its stream was of, if that was of any. Lanes in ``gone`` the person was told of as not
        listed any more, and forgotten, also where the list was short of others.
        """
        self.counts["seeks"] += 1
        self.left_alone.decided(stream)
        self.passed_ranges.elsewhere([LaneId(*stream, name) for name in offsets])
        self.begun.add(stream)
        self.gate.sent_back(stream)
        self.stopped.pop(stream, None)
        rerun, read = RERUN_MARK in stream.use_case, self.deployed.topics_of(stream)
        known = {topic: self.topics.made[topic] for topic in read}
        logs = known if topic_id is None else self.topics.logs_of(topic_id)
        to = {
            name: (number_at(at), logs[topic_of(LaneId(*stream, name))])
            for name, at in offsets.items()
        }
        there = {name for topic in logs for name in self._listed(stream, topic)}
        wholes = set(map(whole_lane, offsets))
        for topic, log in logs.items():
            of, dropped = named(topic, log), self.topics.lineage.dropped
            if (wholes >= there and not rerun) or not self.gate.knows(stream, of):
                # Whoever seeks all of it decides about what is not there as well.
                self.gate.give_up(stream, of, dropped)
            self.gate.give_up(stream, of, dropped.keys() & map(whole_lane, gone))
        if not rerun:
            self.found += self._left_behind(stream, to)
        turned = any(
            (now := self.generations.now(LaneId(*stream, name))) is None or now.at != offset
            for name, (offset, _) in to.items()
        )
        ways = {lane: self.generations.now(lane) for lane in self._lanes(stream)}
        self._forget_what_has_no_place(stream)
        left = [lane.name for lane in ways if self.generations.now(lane) is not None]
        # Of a lane that is there some division stays whole, whichever it is.
        whole = set(map(whole_lane, left)).difference(lacking(left))
        self.found += [
            f"{lane} is there, and a seek forgot that it was at {way.at}"
            for lane, way in ways.items()
            if way is not None and way.log == logs.get(topic_of(lane)) and not rerun
            if whole_lane(lane.name) in there - whole - wholes
        ]
        self._sent(stream, turned=turned)
        for lane in self._lanes(stream):
            now, into = self.generations.now(lane), logs.get(topic_of(lane))
            if now is None or into is None or lane.name in to or now.log == into:
                continue
            if whole_lane(lane.name) in there:
                self.found.append(f"{lane} is left at {now.at} of topic {now.log}, now {into}")
            else:
                to[lane.name] = (0, into)
        self._begin_all(stream, to)

    def _left_behind(self, stream: StreamId, to: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        """What was read of lanes that follow one that is read again, and stays read."""
        sent = set(map(whole_lane, to))
        for name, (offset, log) in to.items():
            now = self.generations.now(LaneId(*stream, name))
            topic = topic_of(LaneId(*stream, name))
            if not self.topics.is_there(topic, log):
                continue
            end = self.topics.log.edges(topic, number_of(name)).stop
            if now is None or now.log != log or offset >= min(now.at, end):
                continue
            followers = set(self.topics.lineage.descendants(topic, log, whole_lane(name)))
            for lane in self._lanes(stream):
                known, follower = self.generations.now(lane), lane.name
                is_after = whole_lane(follower) in followers
                if not is_after or known is None or not self._has(lane):
                    continue
                if whole_lane(follower) in sent and self.divided.is_over(lane):
                    continue  # those that its partition has now are sent
                at = to[follower][0] if follower in to else known.at
                if at > self.topics.log.edges(topic, number_of(follower)).start:
                    yield f"{name} of {stream} goes back, and {follower} stays read up to {at}"

    def added_again(self, stream: StreamId) -> None:
        """A stream begins afresh."""
        self.begun.discard(stream)
        self.left_alone.added_again(stream)
        self.passed_ranges.begins_anew(stream)
        self.found += self._forgotten_topics(stream)
        self.generations.added_again(stream)
        self.stopped.pop(stream, None)
        self.gate.forget(stream)
        self._sent(stream, turned=True)

    def _forgotten_topics(self, stream: StreamId) -> Iterator[str]:
        """Topics that a stream was in, and that it could take for new ones now."""
        now = next(one for one in self.store.registry.streams() if one.id == stream)
        if now.state is State.REMOVED:
            return
        logs = (of for topic_id in now.left_ids for of in self.topics.logs_of(topic_id).items())
        kept = {named(topic, log) for topic, log in logs}
        for topic in self.gate.begun(stream):
            if topic not in kept:
                yield f"{stream} forgets topic {topic}, in which it was"

    def _sent(self, stream: StreamId, *, turned: bool) -> None:
        """Lanes of a stream are elsewhere by now, by a decision."""
        places = {at.lane: at.next_offset for at in self.store.progress.load_positions([stream])}
        self.given_up.sent(stream, places, turned=turned)

    def may_run(self, piece: Slice, wave: Wave, *, replaced: bool = False) -> None:
        """Note whether a slice starts that may not, or before what its lane follows is done."""
        topic, now = topic_of(piece.lane), self.generations.now(piece.lane)
        if now is None or self.generations.is_late(piece) or self._is_removed(piece.lane.stream):
            return
        if not self.topics.is_there(topic, now.log):
            return
        # One that was replaced and does not know it yet is refused when it commits.
        if not replaced:
            self.passed_ranges.starts(piece)
        is_new = not (wave.intended or replaced)
        if is_new and piece.lane.stream in self.left_alone.left:
            self.found.append(f"{piece} runs, and what is too old of it was not passed over")
        if wave.intended and self.given_up.has(wave, piece):
            self.found.append(f"{piece} of {wave.id} runs, and was given up")
        lineage = self.topics.lineage
        of = named(topic, now.log)
        waits_for = self.gate.waits_for(
            piece.lane, of, lineage, lambda name: self._end_for(piece.lane, name)
        )
        if odd := self.gate.too_old(piece, lineage) or self.gate.too_new(piece):
            self.found.append(f"{piece} has {odd}")
        if waits_for:
            self.found.append(f"{piece} runs before {waits_for}")

    def left_out(self, board: Board) -> None:
        """Note streams of which a driver plans nothing, as what it would be can not be.

        One that is to be taken up anew may have lanes of before beside those of now, and tells
        nobody that these can not be.
        """
        for stream, held in board.streams.items():
            reason = held.doubled or held.lacking or held.unfit
            if reason and (not held.is_outdated or held.waits == reason):
                self.found.append(f"{stream} is left out of plans: {reason}")

    def _is_removed(self, stream: StreamId) -> bool:
        """Whether all that may come of a stream is what was recorded of it."""
        return any(
            known.state is State.REMOVED
            for known in self.store.registry.streams()
            if known.id == stream
        )

    def _end_for(self, lane: LaneId, parent: str) -> int:
        """Where a parent ends for a stream; a rerun has its own end, or leaves it out."""
        end = self.topics.end_of(topic_of(lane), number_of(parent))
        untils = [
            known.until
            for known in self.store.registry.deployments()
            if known.use_case == lane.use_case and known.until is not None
        ]
        if not untils:
            return end
        parts = [at for name, at in (untils[0] or {}).items() if whole_lane(name) == parent]
        return min(end, number_at(untils[0].get(parent, max(parts, default=FIRST))))

    def dropped(self, topic: str) -> None:
        """A lane is not listed any more; that it was done may not be known to anybody."""
        self.lossy |= {
            stream.id
            for stream in self.store.registry.streams()
            if topic in self.deployed.topics_of(stream.id)
        }

    def _forgotten(
        self,
        stream: StreamId,
        names: Collection[str],
        epoch: int,
        topics: Collection[str] = (),
    ) -> None:
        """Parents that are done, and that nobody needs, or all lanes of topics that are gone."""
        del epoch, topics
        self.left_alone.moved(stream)
        for name in names:
            lane = LaneId(*stream, name)
            topic = topic_of(lane)
            now, dropped = self.generations.now(lane), self.topics.lineage.dropped
            if now is None or not self.topics.is_there(topic, now.log):
                continue
            if self.divided.is_over(lane):
                self.counts["divisions forgotten"] += 1
                continue
            whole = whole_lane(name)
            if whole not in dropped or now.at < self._end_for(lane, whole):
                self.found.append(f"{lane} is forgotten at {now.at}")
            self.counts["parents forgotten"] += 1
            self.gate.give_up(stream, named(topic, now.log), [whole])
        self._forget_what_has_no_place(stream)

    def _forget_what_has_no_place(self, stream: StreamId) -> None:
        there = {at.lane for at in self.store.progress.load_positions([stream])}
        for lane in self._lanes(stream):
            if lane not in there:
                self.generations.forgotten(lane)

    def lost(self, topic: str) -> None:
        """Kafka took something of a topic: whoever has not read it has lost it."""
        for lane in self.lanes_of(topic):
            now = self.generations.now(lane)
            if now is not None:
                self._stands(lane, now.at)
                self._had(lane, now.at)
            elif topic not in self.topics.partitions:
                self.lossy.add(lane.stream)

    def moved(self, lane: LaneId, to: places.Place) -> None:
        """A slice moved its lane, or a person; its log may have been cut since it was read."""
        self.left_alone.moved(lane.stream)
        self.passed_ranges.stands(lane, to)
        self._stands(lane, number_at(to))

    def _had(self, lane: LaneId, at: int) -> None:
        """Note whether a log may have lost what a lane is stopped at, or whose letter waits."""
        if topic_of(lane) in self.topics.partitions and self._has(lane):
            stop = self.topics.log.edges(topic_of(lane), number_of(lane.name)).stop
            open_ones = self.store.failures.every(lane.stream, only_open=True)
            until = [number_at(one.skipped_to) for one in open_ones if one.slice.lane == lane]
            if at == stop or stop < max(until, default=0):
                self.lossy.add(lane.stream)

    def _stands(self, lane: LaneId, offset: int) -> None:
        """Note whether a lane stands where its log is not."""
        topic = topic_of(lane)
        if topic not in self.topics.partitions:
            self.lossy.add(lane.stream)
        elif self._has(lane):
            edges = self.topics.log.edges(topic, number_of(lane.name))
            if not edges.start <= offset <= edges.stop:
                self.lossy.add(lane.stream)

    def passed_over(self, piece: Slice) -> None:
        """A person skipped a whole slice."""
        name = piece.lane.name
        passed = range(number_at(piece.from_offset), number_at(piece.until_offset))
        for offset in those_in(name, passed):
            place = Place(piece.lane_topic, number_of(name), offset)
            self.skipped.add((piece.lane.use_case, place))

    def lanes_of(self, topic: str) -> list[LaneId]:
        """All lanes that read a topic."""
        return list(self.generations.lanes(lambda lane: topic_of(lane) == topic))

    def _started(self, first: LaneStart) -> None:
        """First positions; lanes that have one keep it, in the log that they are in."""
        (known,) = [one for one in self.store.registry.streams() if one.id == first.stream]
        at_end = self._begins(known, first)
        if first.topic_id is None or known.topic_id != first.topic_id:
            return  # who asked was asleep, and the stream is in another topic by now
        logs = self.topics.logs_of(first.topic_id)
        for lane in self._lanes(first.stream):
            now, log = self.generations.now(lane), logs.get(topic_of(lane))
            if now is not None and log is not None and now.log != log:
                self.found.append(
                    f"{lane} goes on at {now.at} in topic {log} as if it were {now.log}"
                )
        self._begins_in(first.stream, logs)
        places = {at.lane for at in self.store.progress.load_positions([first.stream])}
        for name, at in first.offsets.items():
            offset = number_at(at)
            lane = LaneId(*first.stream, name)
            if lane not in places:
                continue  # what it follows was lost, and somebody has to decide first
            if self.generations.now(lane) is not None:
                continue
            topic, log = topic_of(lane), logs[topic_of(lane)]
            ends = self.divided.begins(lane, first.parents.get(name, ()))
            if self.topics.is_there(topic, log) and self.topics.has(topic, number_of(name)):
                start = self.topics.log.edges(topic, number_of(name)).start
                self.counts["lanes divided otherwise"] += bool(ends)
                self.counts["lanes begun at their end"] += at_end and offset > start
                if offset > start and ends != {offset} and not at_end:
                    self.found.append(f"{lane} begins at {offset}, its log at {start}")
            self._begin(lane, offset, log, known.epoch)

    def _begins(self, known: Stream, first: LaneStart) -> bool:
        """Whether a stream begins with these lanes, and at their ends."""
        if known.topic_id is None and not known.begun_without_topic:
            return False  # who asked was asleep, and it is somebody else's
        begins = known.id not in self.begun
        self.counts["streams begun without a topic"] += begins and first.topic_id is None
        self.begun.add(known.id)
        return begins and known.id.use_case in self.deployed.at_end

    def _skipped(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
        *more: Any,
    ) -> None:
        del more
        self.counts["losses passed over"] += 1
        self._allowed(stream, DataLossPolicy.SKIP)
        logs = self.topics.logs_of(topic_id)
        ways = {move.lane: self.generations.now(move.lane) for move in moves}
        was = {lane: way.log for lane, way in ways.items() if way is not None}
        for move in moves:
            log = logs[topic_of(move.lane)]
            self.passed_ranges.passed([move], elsewhere=was.get(move.lane, log) != log)
        turned = any(log != logs[topic_of(lane)] for lane, log in was.items())
        if any(log > logs[topic_of(lane)] for lane, log in was.items()):
            self.found.append(f"{stream} goes back to one of {logs}, which it left")
        self._begins_in(stream, logs)
        notes = {note.slice.lane: note for note in failures}
        self._deepened(stream, moves, notes, turned=turned)
        there = {at.lane.name for at in self.store.progress.load_positions([stream])}
        for move in moves:
            now = self.generations.now(move.lane)
            assert now is not None, "its position was compared"
            note = notes.get(move.lane)
            if note is None:
                self.found.append(f"{move.lane} is sent to {move.to_offset}, and nobody is told")
                continue
            if note.error.code == LaneExpired.__name__:
                self._check_expired(note, now)
            else:
                self._check_skip(move, note, now, logs[topic_of(move.lane)], there)
        expired = [
            lane.name for lane, note in notes.items() if note.error.code == LaneExpired.__name__
        ]
        self.counts["lanes given up"] += len(expired)
        for topic, log in logs.items():
            self.gate.give_up(stream, named(topic, log), set(map(whole_lane, expired)))
        self._forget_what_has_no_place(stream)
        self._sent(stream, turned=any(move.to_offset < move.from_offset for move in moves))
        self._begin_all(
            stream,
            {
                move.lane.name: (number_at(move.to_offset), logs[topic_of(move.lane)])
                for move in moves
                if move.lane.name in there
            },
        )

    def _passed_over_old(
        self, stream: StreamId, moves: Sequence[Move], failures: Sequence[Failure]
    ) -> None:
        """A stream that was left alone passes over what is too old, told by exact offsets."""
        self.counts["old records passed over"] += 1
        if stream not in self.left_alone.left:
            self.found.append(f"{stream} passes over records, and nobody left it alone")
        self.left_alone.decided(stream)
        name = original(stream.use_case)
        # Of one whose order changes a driver may not have heard yet.
        merged = self.deployed.use_cases[name].order.merges_lanes
        self.found += self.left_alone.held_back(
            moves, merged=merged and name not in self.deployed.mixed
        )
        del failures  # what is on record counts
        kept = [
            note for note in self.store.failures.every(stream) if note.error.code == PASSED_OVER
        ]
        told = {(one.slice.lane, one.slice.from_offset, one.slice.until_offset) for one in kept}
        (topic_id,) = [one.topic_id for one in self.store.registry.streams() if one.id == stream]
        logs = self.topics.logs_of(topic_id or "")
        if all(self.topics.is_there(*of) for of in logs.items()) and all(
            self._has(one.lane) for one in moves
        ):
            misled = self._misled(stream, logs, {move.lane for move in moves})
            self.found += self.left_alone.too_soon(stream, moves, misled, self.topics.log)
        for move in moves:
            bounds, now = (move.from_offset, move.to_offset), self.generations.now(move.lane)
            topic, log = topic_of(move.lane), logs[topic_of(move.lane)]
            if (move.lane, *bounds) not in told:
                self.found.append(f"{move.lane} passes over {bounds}, and that is not on record")
            if now is None or now.log != log or move.to_offset <= move.from_offset:
                self.found.append(f"{move.lane} passes over {bounds} in topic {log}, and is {now}")
            elif self.topics.is_there(topic, log) and self._has(move.lane):
                number = number_of(move.lane.name)
                if number_at(move.to_offset) > self.topics.log.edges(topic, number).stop:
                    self.found.append(f"{move.lane} passes over {bounds}, beyond its log")
        self.passed_ranges.passed(moves, elsewhere=False)
        self._sent(stream, turned=False)
        self._begin_all(
            stream,
            {
                move.lane.name: (number_at(move.to_offset), logs[topic_of(move.lane)])
                for move in moves
            },
        )

    def _misled(
        self, stream: StreamId, logs: Mapping[str, int], moved: Collection[LaneId]
    ) -> dict[str, places.Place]:
        """Where lanes are that stayed, and whose leaders may have told a low end."""
        lanes = set(self._lanes(stream)).difference(moved)
        stayed = {lane: self.generations.now(lane) for lane in lanes}
        return {
            lane.name: places.place_at(now.at)
            for lane, now in stayed.items()
            if now is not None and now.log == logs.get(topic_of(lane))
            if whole_lane(lane.name) in self.topics.stale
            if self._has(lane) and not self.divided.is_over(lane)
        }

    def _deepened(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        notes: Mapping[LaneId, Failure],
        *,
        turned: bool,
    ) -> None:
        """What comes after a skip that sent something back, or changed the topic, is newer.

        So is what comes after a lane that was given up; of one that had no place nothing was read.
        """
        back = any(move.to_offset < move.from_offset for move in moves)
        gone = any(
            note.error.code == LaneExpired.__name__ and self.generations.now(lane) is not None
            for lane, note in notes.items()
        )
        if (turned or back or gone) and RERUN_MARK not in stream.use_case:
            self.gate.sent_back(stream)

    def _check_expired(self, note: Failure, now: Generation) -> None:
        """Told by exact offsets, where its end can be known, and only of lanes that are gone."""
        piece, topic = note.slice, topic_of(note.slice.lane)
        end = self.topics.lineage.dropped.get(whole_lane(piece.lane.name))
        self._check_away(piece.lane)
        if not self.topics.is_there(topic, now.log):
            return
        start, until = number_at(piece.from_offset), number_at(piece.until_offset)
        if (
            end is None
            or start != now.at
            or until not in (start, end, self.divided.end_of(piece.lane))
        ):
            self.found.append(f"{piece.lane} is at {now.at} of {end}, and the note is of {piece}")

    def _check_away(self, lane: LaneId) -> None:
        """A lane that is not listed is not gone while its topic is away, unless it was before."""
        topic, now = topic_of(lane), self.generations.now(lane)
        if topic in self.topics.partitions or now is None or now.log != self.topics.made[topic]:
            return
        if whole_lane(lane.name) not in self.topics.lineage.dropped:
            self.found.append(f"{lane} counts as gone, and its topic may come again")

    def _check_skip(
        self, move: Move, note: Failure, now: Generation, log: int, there: Collection[str]
    ) -> None:
        """Told by exact offsets, and no record of the log that is there is passed over."""
        lane, made_again = move.lane, log != now.log
        topic = topic_of(lane)
        if not self.topics.is_there(topic, log):
            return
        to = number_at(move.to_offset)
        if not made_again and to <= now.at:
            self._check_cut(move, note, now)
            return
        until = now.at if made_again else to
        bounds = number_at(note.slice.from_offset), number_at(note.slice.until_offset)
        told = (note.slice.lane, *bounds)
        if told != (lane, now.at, until):
            self.found.append(f"{lane} lost {now.at} to {until}, and the note is of {note.slice}")
        if lane.name not in there:
            return  # another topic does not have it, and nothing is read of it
        start = self.topics.log.edges(topic, number_of(lane.name)).start if self._has(lane) else 0
        if to > start:
            self.found.append(f"{lane} is sent from {now.at} to {to}, its log has {start}")

    def _check_cut(self, move: Move, note: Failure, now: Generation) -> None:
        """Sent back to an end that its log had since it was cut, and told so."""
        lane, topic = move.lane, topic_of(move.lane)
        end, until = number_at(note.slice.from_offset), number_at(note.slice.until_offset)
        if number_at(move.to_offset) == now.at:  # what it was stopped at is gone, and no more
            is_told = now.at <= end < until
        else:
            end = number_at(move.to_offset)
            is_told = until == now.at and number_at(note.slice.from_offset) <= end
        if note.slice.lane != lane or not is_told:
            self.found.append(f"{lane} was at {now.at}, and the note is of {note.slice}")
        if not self.topics.cut_below(topic, number_of(lane.name), end + 1):
            self.found.append(
                f"{lane} is sent back from {now.at} to {move.to_offset}, where its log never ended"
            )

    def _blamed(self, failure: Failure) -> None:
        error = failure.error
        if error.offset is not None and trouble_of(error.raw_value).kind == GOOD:
            self.found.append(f"{failure.slice} stops at {error.offset}, which is good: {error}")

    def _ended(self, stream: StreamId) -> None:
        """A rerun is over; it has read what it was to read."""
        (until,) = [
            e.until for e in self.store.registry.deployments() if e.use_case == stream.use_case
        ]
        for name, end in (until or {}).items():
            now = self.generations.now(LaneId(*stream, name))
            if now is None or now.at < number_at(end):
                self.found.append(f"{stream} is ended at {now and now.at} of {end} in {name}")
        self.stopped.pop(stream, None)
        self.counts["reruns ended"] += 1

    def _suspended(self, stream: StreamId, state: State, reason: str = "") -> None:
        if state is State.REMOVED:
            self._ended(stream)
            return
        assert state is State.SUSPENDED, "drivers do nothing else"
        self.counts["streams suspended for losses"] += 1
        self._allowed(stream, DataLossPolicy.FAIL)
        self.stopped[stream] = self.topics.clock.monotonic_s()
        for before, then in _IDS.findall(reason):
            if self.topics.log_of_id(then) < self.topics.log_of_id(before):
                self.found.append(f"{stream} stops for a topic that it left: {reason}")
        for name in _EXPIRED.findall(reason):
            self._check_away(LaneId(*stream, name))
        told = _RETENTION.findall(reason) + _MADE_AGAIN.findall(reason)
        told += _CUT.findall(reason)
        for partition, offset, *_ in told:
            read = self.deployed.topics_of(stream)
            lanes = (lane_of(stream, topic, int(partition)) for topic in read)
            ways = (way for lane in lanes for way in self.generations.of(lane))
            if not any(int(offset) in way.stands for way in ways):
                self.found.append(f"{stream} was never at {offset}: {reason}")

    def _allowed(self, stream: StreamId, policy: DataLossPolicy) -> None:
        if stream not in self.lossy:
            self.found.append(f"{stream} is treated as if it had lost records")
        if self.deployed.loss_of(stream) is not policy:
            self.found.append(f"{stream} has lost records, and it is not for {policy}")

    # generations

    def _begin_all(self, stream: StreamId, to: Mapping[str, tuple[int, int]]) -> None:
        """Lanes begin anew, each at an offset of the how-manieth topic of their name."""
        self.generations.elsewhere(stream)
        (epoch,) = [known.epoch for known in self.store.registry.streams() if known.id == stream]
        for name, (offset, log) in sorted(to.items()):
            self._begin(LaneId(*stream, name), offset, log, epoch)
        for lane in self._lanes(stream):
            now = self.generations.now(lane)
            if lane.name not in to and now is not None:
                self._begin(lane, now.at, now.log, epoch)

    def _begin(self, lane: LaneId, offset: int, log: int, epoch: int) -> None:
        self.left_alone.moved(lane.stream)
        self.generations.begins(lane, offset, log, epoch, len(self.topics.written))
        if not self.topics.is_there(topic_of(lane), log):
            self.generations.deleted([lane])
            self.lossy.add(lane.stream)
        else:
            self._stands(lane, offset)

    def _has(self, lane: LaneId) -> bool:
        """Whether its partition is there."""
        return self.topics.has(topic_of(lane), number_of(lane.name))

    def _listed(self, stream: StreamId, topic: str) -> Iterator[str]:
        """The lanes of a topic that its log tells of, if it is there."""
        numbers = self.topics.listed(topic) if topic in self.topics.partitions else []
        return (lane_of(stream, topic, number).name for number in numbers)

    def _begins_in(self, stream: StreamId, logs: Mapping[str, int]) -> None:
        """A stream reads these topics now, and waits for nothing that was gone before."""
        for of in (named(*one) for one in logs.items()):
            if not self.gate.knows(stream, of):
                self.gate.give_up(stream, of, self.topics.lineage.dropped)

    def _lanes(self, stream: StreamId) -> list[LaneId]:
        return list(self.generations.lanes(lambda lane: lane.stream == stream))
