"""Which topics and partitions there are, asked as seldom as it may be.

A new stream needs its topic's id and its first positions at once. Later, partitions are added now
and then, and a topic can be deleted and made again under its name. Nothing but a description tells,
and descriptions are not for nothing: the Kafka client keeps some 150 bytes of every topic it
describes, for ever. So each topic is described every 30 s as long as 40 a second are enough for
that (1,000 topics); with more of them the round takes longer. All topics are listed every 10 s at
most for streams that read by a pattern, and at once where a new one has its first look; that list
is for all of them, and for newcomers as well. Described at once are
topics of streams that were taken up, those whose log's end went back, and, as far as the 40 allow,
those with the first record after a quiet time; nothing of them runs before that. A topic that is
not there is looked for every 2 s, for a pattern in the last list, and so is one whose log leaves
out a lane that it had. Of topics that are not there, which may be very many, 1,000 are asked for
at once, and more in turn; what waits for something else is seen to, however many these are.

Brokers may answer turns later (`talks.py`). Until they have, nothing runs of a stream that has to
be looked at first, not even what was recorded in another life, and what was learned of one that
changed meanwhile tells nothing: it is looked at again.

Where logs end is not asked here, and what became of records that are gone is `losses.py`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice

import structlog

from headrace.board import Board, HeldStream
from headrace.cycle.described import (
    KeptList,
    Listed,
    absent,
    as_known,
    as_taken,
    described,
    without,
)
from headrace.cycle.divisions import as_divided, divisions, forgettable, is_misdivided, lacking
from headrace.cycle.ends import Ends
from headrace.cycle.first_places import (
    NewLanes,
    SeenTopic,
    Told,
    asked,
    begins_whole,
    begins_without_topic,
    places_of,
    start_of,
    waits_to_begin,
    wanted_of,
    without_topic,
)
from headrace.cycle.gone_topics import note_missing, over
from headrace.cycle.lineage import (
    doubtful,
    is_over,
    lanes_go,
    listed_or_away,
    startable,
    unlisted,
)
from headrace.cycle.losses import FirstAndLast, Losses
from headrace.cycle.missing_topics import MissingTopics, without_its_topic, without_topics
from headrace.cycle.sweep import Sweep
from headrace.cycle.talks import Talk
from headrace.cycle.topic_ids import doubted_id, is_the_same
from headrace.errors import BrokerUnavailable, StoreUnavailable
from headrace.model.lineage import Lineage
from headrace.model.parked import NOTHING_PARKED
from headrace.model.places import FIRST
from headrace.model.records import LaneStart
from headrace.model.streams import State, StreamId
from headrace.model.topic_lists import (
    id_without,
    ids_in,
    is_another,
    is_away,
    is_list,
    missing_of,
    topic_of_lane,
)
from headrace.model.topic_patterns import is_pattern
from headrace.ports import Progress, TopicInfo
from headrace.telemetry.log_fields import of_stream

log = structlog.get_logger(__name__)

TOPICS_EVERY_S = 30.0
TOPICS_PER_S = 40.0
#: one request for many costs less than many for one
TOPICS_STEP_S = 1.0
#: between two lists of all topics, but for the first look of a stream
LIST_EVERY_S = 10.0
#: for those that wait; of topics that are not there, of so many streams at once
WAITING_EVERY_S, MOST_WAITING = 2.0, 1000
_SHARED = (
    "a topic that its pattern matches is read for another tenant by another use case; the driver's "
    "log says which"
)
_FIRST_A_LOOK = "its topic is looked at before more of it is read"


@dataclass(slots=True)
class TopicKeeper:
    """Keeps ids, lanes and first positions on a board true."""

    progress: Progress
    board: Board
    #: told which streams' lanes are to be asked, and which not
    ends: Ends
    #: told which streams' topics were looked at; says which of them can not go on
    losses: Losses
    #: of all who look for topics by patterns
    listed: KeptList
    #: topic -> streams that read it
    _streams: dict[str, dict[StreamId, HeldStream]] = field(default_factory=dict)
    _topic_of: dict[StreamId, str] = field(default_factory=dict)
    #: what of its topics the version names that was taken
    _reads: dict[StreamId, str] = field(default_factory=dict)
    _sweep: Sweep[str] = field(
        default_factory=lambda: Sweep(TOPICS_PER_S, TOPICS_PER_S, TOPICS_EVERY_S, TOPICS_STEP_S)
    )
    _waiting: dict[StreamId, HeldStream] = field(default_factory=dict)
    #: those of them whose topic is not there, the one looked for longest ago first
    _topicless: dict[StreamId, HeldStream] = field(default_factory=dict)
    _waiting_at_s: float = float("-inf")
    _missing: MissingTopics = field(default_factory=MissingTopics)
    #: topics of lanes that would be forgotten if it were sure that they are gone
    _seem_over: dict[str, None] = field(default_factory=dict)
    #: topics of streams that woke up, for the next look
    _woken: dict[str, None] = field(default_factory=dict)
    #: topics that are asked about, and not answered yet
    _asked: frozenset[str] = frozenset()

    @property
    def doubts_lists(self) -> bool:
        """Whether lanes will be forgotten if lists go on to be without them."""
        return bool(self._seem_over)

    def follow(self, held: HeldStream) -> None:
        """Look at a stream's topic from now on; at once if it is new, and first."""
        stream = held.stream
        if self._streams.get(stream.topic, {}).get(stream.id) is held:
            longer = is_list(stream.topic) and held.reads != self._reads.get(stream.id)
            if longer or is_misdivided(held):
                self._reads[stream.id] = held.reads
                self._sweep.hurry(stream.topic)
            return
        self.leave(stream.id)
        self._streams.setdefault(stream.topic, {})[stream.id] = held
        self._topic_of[stream.id], self._reads[stream.id] = stream.topic, held.reads
        self._sweep.add(stream.topic)
        self._sweep.hurry(stream.topic)
        held.looked_at = _FIRST_A_LOOK

    def leave(self, stream: StreamId) -> None:
        """Look at it no more."""
        topic = self._topic_of.pop(stream, None)
        self._reads.pop(stream, None)
        self._waits_no_more(stream)
        self._missing.forget(stream)
        if topic is None:
            return
        del self._streams[topic][stream]
        if not self._streams[topic]:
            del self._streams[topic]
            self._sweep.discard(topic)

    def doubt(self, held: HeldStream, why: str) -> None:
        """Plan nothing of a stream until its topic was looked at, which is next."""
        held.doubts += 1
        self._wait(held, why)
        self._sweep.hurry(held.stream.topic)

    def woken(self, streams: Iterable[HeldStream], now_s: float) -> bool:
        """Read nothing of streams with news after a quiet time before a look; if one is due."""
        for held in streams:
            topic = held.stream.topic
            if topic in self._asked:
                held.looked_at = _FIRST_A_LOOK
            elif topic in self._woken or self._sweep.claim(topic, now_s):
                self._woken[topic] = None
                held.looked_at = _FIRST_A_LOOK
        return bool(self._woken)

    def ask(self, now_s: float) -> Talk[None]:
        """Look at what is due.

        Raises:
            BrokerUnavailable: nothing was learned; all of it is due in the next turn.
            StoreUnavailable: the same.
        """
        names = self._woken | dict.fromkeys(self._sweep.due(now_s))
        self._woken = {}
        if now_s - self._waiting_at_s >= WAITING_EVERY_S:
            self._waiting_at_s = now_s
            names |= self._next_waiting()
            names |= self._seem_over
            self._seem_over = {}
        if not names:
            return
        self._asked = frozenset(names)
        try:
            yield from self._look_at(list(names), now_s)
            self._missing.tell(now_s)
        except (BrokerUnavailable, StoreUnavailable):
            for name in names:
                self._sweep.hurry(name)
            raise
        finally:
            self._asked = frozenset()

    def _next_waiting(self) -> dict[str, None]:
        """Topics of streams that wait, but of those without one only whose turn it is.

        Who doubts what a log says believes it after looks that are not far apart.
        """
        there = [held for stream, held in self._waiting.items() if stream not in self._topicless]
        some = list(islice(self._topicless.items(), MOST_WAITING))
        for stream, held in some:
            del self._topicless[stream]
            self._topicless[stream] = held
        return dict.fromkeys(held.stream.topic for held in chain(there, dict(some).values()))

    def _look_at(self, names: Sequence[str], asked_s: float) -> Talk[None]:
        wanted = [held for name in names for held in self._streams.get(name, {}).values()]
        marked = [(held, _mark(held)) for held in wanted]
        most_s = 0.0 if any(map(self._is_new, wanted)) else LIST_EVERY_S
        listed = self.listed.within(most_s, asked_s)
        known: dict[str, TopicInfo] = yield partial(described, names=names, listed=listed)
        missing = [one for one in marked if one[0].stream.topic not in known]
        yield from self._begin_without(missing, listed)
        self._find_shared(wanted, known)
        infos = ((held, _known(held, known), mark) for held, mark in marked)
        now_s = self.losses.clock.monotonic_s()
        seen = [
            SeenTopic(held, as_divided(held, info), mark)
            for held, info, mark in infos
            if self._is_same(held, mark) and self._is_there(held, info)
            if info is not None and self._is_believed(held, info, asked_s, now_s)
        ]
        for held, info, _ in seen:
            held.unlisted = unlisted(held, info, asked_s, now_s)
        edges = yield from self.losses.ask([seen_topic[:2] for seen_topic in seen])
        seen = self._same(seen)
        stuck = self.losses.find([seen_topic[:2] for seen_topic in seen], edges)
        for seen_topic in seen:
            self.ends.renew(seen_topic.held)
            self.ends.forget(seen_topic.held)
        self._wait_for(seen, stuck)
        seen = [
            seen_topic._replace(mark=_mark(seen_topic.held))
            for seen_topic in seen
            if seen_topic.held.stream.id not in stuck
        ]
        seen = yield from self._start_lanes(seen, listed)
        for seen_topic in seen:
            held = seen_topic.held
            held.lacking = lacking(held, known[held.stream.topic].lanes)
            self._forget_lanes(seen_topic, edges)
        self._divide([one for one in seen if is_misdivided(one.held)])
        for seen_topic in seen:
            self._go_on(seen_topic.held)
        yield from self._forget_topics([seen_topic.held for seen_topic in seen], now_s)

    def _is_new(self, held: HeldStream) -> bool:
        """Whether nobody has looked yet for what its pattern matches."""
        stream = held.stream
        is_unknown = stream.topic_id is None and stream.id not in self._waiting
        return is_unknown and is_pattern(stream.topic)

    def _begin_without(
        self, missing: Sequence[tuple[HeldStream, tuple[object, ...]]], listed: Listed
    ) -> Talk[None]:
        """Let streams begin whose topic is not there, if all that comes is to be read.

        An answer that leaves a topic out may not have been able to tell.
        """
        now_s = self.losses.clock.now_s()
        missing = [one for one in missing if begins_without_topic(one[0], now_s)]
        if not missing:
            return
        names = {held.stream.topic for held, _ in missing}
        gone: Collection[str] = yield partial(absent, names=names, listed=listed)
        self._store_lanes(
            [
                without_topic(held)
                for held, mark in missing
                if held.stream.topic in gone and self._is_same(held, mark)
            ]
        )

    def _forget_topics(self, seen: Iterable[HeldStream], now_s: float) -> Talk[None]:
        """Forget topics of patterns that are gone for good, and of which nothing is owed."""
        due = [held for held in seen if over(held, now_s)]
        if not due:
            return
        names = frozenset().union(*(over(held, now_s) for held in due))
        gone: Collection[str] = yield partial(absent, names=names)
        for held in due:
            topics = over(held, now_s)  # of what came meanwhile something may be owed
            sure = topics.intersection(gone)
            held.missing_since |= dict.fromkeys(topics - sure, now_s)
            if sure and self.board.streams.get(held.stream.id) is held:
                self._forget_of(held, sure)

    def _forget_of(self, held: HeldStream, topics: Collection[str]) -> None:
        stream = held.stream
        names = [name for name in held.lanes if topic_of_lane(name, stream.topic) in topics]
        if not self.progress.forget_lanes(stream.id, names, held.epoch, topics):
            return
        held.drop(names)
        held.stream = replace(stream, topic_id=id_without(stream.topic_id or "{}", topics))
        note_missing(held, held.missing_since.keys() - topics, 0.0)
        self._without(held, list(held.missing_since))
        self.ends.renew(held)
        log.info("topics of a pattern are gone", **of_stream(stream.id), topics=sorted(topics))

    def _is_same(self, held: HeldStream, mark: tuple[object, ...]) -> bool:
        """Whether a stream is still as it was when something was asked; if not, it is due again."""
        name = held.stream.id
        if name not in self._topic_of:
            return False
        if self.board.streams.get(name) is held and _mark(held) == mark:
            return True
        self._sweep.hurry(self._topic_of[name])
        return False

    def _same(self, seen: Iterable[SeenTopic]) -> list[SeenTopic]:
        return [
            seen_topic for seen_topic in seen if self._is_same(seen_topic.held, seen_topic.mark)
        ]

    def _is_there(self, held: HeldStream, info: TopicInfo | None) -> bool:
        """Whether its topic is."""
        stream = held.stream
        if info is None and held.state is State.REMOVED:
            held.looked_at = None
            return False
        if info is None:
            reason = _SHARED if held.shared else without_its_topic(stream)
            if held.waiting is None and reason != NOTHING_PARKED:
                self._missing.note(stream.id, stream.topic)
            self._wait(held, reason)
            self._topicless[stream.id] = held
            return False
        return True

    def _is_believed(self, held: HeldStream, info: TopicInfo, asked_s: float, now_s: float) -> bool:
        """Whether it is decided by that; if its topic is another one it is not read for now."""
        stream, held.topic_trouble = held.stream, info.trouble
        missing = missing_of(held.reads, info.lanes, info.topic_id)
        note_missing(held, missing, now_s)
        if doubted := doubted_id(held, info, asked_s, now_s):
            self._wait(held, doubted)
            return False
        if held.state is State.REMOVED:
            held.waiting = held.looked_at = None
            self._waits_no_more(stream.id)
            if is_another(stream.topic_id, info.topic_id):
                # What is recorded of it is all that it may still do, and is of another topic.
                held.read_anew(info.topic_id, held.epoch + 1)
            return False
        if is_another(stream.topic_id, info.topic_id):
            held.looked_at = _FIRST_A_LOOK
        stay = stream.topic_id == info.topic_id and not lanes_go(held, info)
        listed = held.lanes.keys() if stay else set(as_divided(held, info).lanes)
        self._without(held, missing)
        for name, lane in held.lanes.items():
            away = is_away(name, stream.topic, missing)
            lane.looked_at(listed=name in listed, away=away)
        return True

    def _without(self, held: HeldStream, missing: Sequence[str]) -> None:
        """Tell of a list's topics and partitions that are not there; the others go on."""
        before, held.absent = held.absent, _SHARED if held.shared else None
        if missing:
            held.absent = without_topics(held.stream, missing)
            if held.absent != before:
                self._missing.note(held.stream.id, ", ".join(missing))

    def _wait_for(self, seen: Iterable[SeenTopic], reasons: Mapping[StreamId, str]) -> None:
        for held, _, _ in seen:
            if held.stream.id in reasons:
                self._wait(held, reasons[held.stream.id])

    def _go_on(self, held: HeldStream) -> None:
        """Nothing is wrong with its topic."""
        held.waiting = held.looked_at = None
        if held.absent is None:
            self._missing.forget(held.stream.id)
        if held.absent is None or is_pattern(held.stream.topic):
            # Topics of a pattern may be gone for good, and all of them would be described.
            self._waits_no_more(held.stream.id)
        else:
            self._waiting[held.stream.id] = held
            self._topicless.pop(held.stream.id, None)
        self.ends.follow(held)
        self.ends.hurry(held)
        self.board.ready[held.stream.id] = None

    def _start_lanes(self, seen: list[SeenTopic], listed: Listed) -> Talk[list[SeenTopic]]:
        """First positions, for all streams at once; those that can go on.

        Partitions added later always start at their beginning, as in Spark.
        """
        fresh = [
            NewLanes(
                seen_topic,
                [name for name in seen_topic.info.lanes if name not in seen_topic.held.lanes],
            )
            for seen_topic in seen
        ]
        fresh = [
            fresh_topic
            for fresh_topic in fresh
            if fresh_topic.lanes or fresh_topic.seen.held.stream.topic_id is None
        ]
        if not fresh:
            return seen
        now_s = self.losses.clock.now_s()
        reasons = ((one.seen.held, waits_to_begin(*one.seen[:2], now_s)) for one in fresh)
        stuck = {held.stream.id: reason for held, reason in reasons if reason is not None}
        fresh = [one for one in fresh if one.seen.held.stream.id not in stuck]
        names = [fresh_topic.seen.held.stream.topic for fresh_topic in fresh]
        told: Told = yield partial(asked, wanted_of(fresh), names, listed)
        seen = [one for one in self._same(seen) if self._is_agreed(one, told.again)]
        same = {seen_topic.held.stream.id for seen_topic in seen}
        started: list[LaneStart] = []
        for new in fresh:
            if new.seen.held.stream.id in same:
                self._begin_lanes(new, told, started, stuck)
        self._store_lanes(started)
        self._wait_for(seen, stuck)
        return [seen_topic for seen_topic in seen if seen_topic.held.stream.id not in stuck]

    def _find_shared(self, wanted: Iterable[HeldStream], known: Mapping[str, TopicInfo]) -> None:
        """Find topics that patterns match and that are another tenant's by another use case."""
        asked = [held for held in wanted if is_pattern(held.stream.topic)]
        new = {held.stream.id: _unread(held, known.get(held.stream.topic)) for held in asked}
        new = {stream: topics for stream, topics in new.items() if topics}
        found = self.losses.registry.why_shared(new) if new else {}
        for held in asked:
            if held.stream.topic not in known:
                # Maybe nobody told which topics there are; what was found of them is found.
                held.shared = held.shared.intersection(self.listed.names)
                continue
            why = found.get(held.stream.id, {})
            # Whose it is is the operator's to know: a tenant sees why its stream waits.
            for topic in sorted(why.keys() - held.shared):
                id_, reason = held.stream.id, why[topic]
                log.warning("a topic is another tenant's as well", **of_stream(id_), why=reason)
            held.shared = frozenset(why)

    def _begin_lanes(
        self, new: NewLanes, told: Told, started: list[LaneStart], stuck: dict[StreamId, str]
    ) -> None:
        """Decide where new lanes of a stream begin, or why it cannot go on."""
        (held, info, _), names = new
        first = places_of(new, told)
        if isinstance(first, str):
            stuck[held.stream.id] = first
            return
        parents: Lineage = {}
        if info.parents:
            first, parents = startable(held, info, first)
        whole, together = len(first) == len(names), begins_whole(held, info)
        if whole or not together:
            started.append(start_of(new, first, parents))
        # Of lanes in one order the oldest record may be where nobody answers.
        if not whole and (held.deployment.order.merges_lanes or together):
            stuck[held.stream.id] = f"not all lanes of {held.stream.topic} have a leader"
        elif not whole:
            self._sweep.hurry(held.stream.topic)  # a lane without a leader is asked again

    def _is_agreed(self, seen: SeenTopic, again: Mapping[str, TopicInfo | None]) -> bool:
        """Whether a second answer, if it was asked for, was the first; if not, it is due again."""
        topic = seen.held.stream.topic
        if topic not in again or is_the_same(seen.info, _known(seen.held, again)):
            return True
        self._sweep.hurry(topic)
        return False

    def _store_lanes(self, started: Sequence[LaneStart]) -> None:
        starts = [start for start in started if start.offsets or start.known_id is None]
        if not starts:
            return
        self.progress.start_lanes(starts)
        self.board.fill(self.progress.load_positions([start.stream for start in starts]))
        for start in started:
            held = self.board.streams[start.stream]
            if start.begins and start.offsets and not held.lanes:
                self._sweep.hurry(held.stream.topic)  # it has begun already, as somebody else said
            without = held.stream.begun_without_topic or start.topic_id is None
            held.stream = replace(held.stream, topic_id=start.topic_id, begun_without_topic=without)

    def _divide(self, seen: Collection[SeenTopic]) -> None:
        """Let the lanes begin that use cases want now, behind all that may run of the others.

        All streams of a use case come at once, so they are stored together.
        """
        recorded = self.progress.pending_intents() if seen else []
        made = [divisions(held, info, recorded) for held, info, _ in seen]
        self._store_lanes([start for start in made if start is not None])

    def _forget_lanes(self, seen: SeenTopic, edges: FirstAndLast) -> None:
        """Let parents go that nobody needs any more."""
        held, starts = seen.held, edges.starts
        if not held.heirs:
            return
        if held.lanes.keys() & edges.untold:
            starts = {name: FIRST for name, lane in held.lanes.items() if lane.was_visited}
        there = listed_or_away(held, seen.info)
        over = is_over(there, held.lineage, held.places, starts)
        if over and (doubted := doubtful(held)):
            sure = is_over(doubted | there, held.lineage, held.places, starts)
            if len(sure) < len(over):
                self._seem_over[held.stream.topic] = None
            over = sure
        self._forget(held, forgettable(held, over))

    def _forget(self, held: HeldStream, names: Sequence[str]) -> None:
        if names and self.progress.forget_lanes(held.stream.id, names, held.epoch):
            held.drop(names)
            self.ends.renew(held)

    def _wait(self, held: HeldStream, reason: str) -> None:
        held.waiting, held.looked_at = reason, None
        if held.stream.id in self._topic_of:
            self._waiting[held.stream.id] = held
            self._topicless.pop(held.stream.id, None)
        self.ends.leave(held.stream.id)

    def _waits_no_more(self, stream: StreamId) -> None:
        self._waiting.pop(stream, None)
        self._topicless.pop(stream, None)


def _unread(held: HeldStream, info: TopicInfo | None) -> frozenset[str]:
    """Topics of a pattern that it does not read yet; one that it reads is its own."""
    if info is None:
        return frozenset()
    read = {topic_of_lane(name, held.stream.topic) for name in held.lanes}
    return frozenset(ids_in(info.topic_id).keys() - read)


def _known(held: HeldStream, known: Mapping[str, TopicInfo | None]) -> TopicInfo | None:
    """What a log says of its topic, or its list of them, by what the stream knows of it."""
    info = known.get(held.stream.topic)
    taken = None if info is None else as_taken(held, info)
    own = None if taken is None else without(taken, held.shared)
    return None if own is None else as_known(held.stream, own)


def _mark(held: HeldStream) -> tuple[object, ...]:
    """Of a stream that nobody has sent elsewhere or doubted meanwhile the same."""
    return held.epoch, held.stream.topic, held.stream.topic_id, held.doubts
