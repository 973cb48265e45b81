"""What is in Kinesis: streams, their shards, and where these begin; no record is handed out here.

Shards do not say where they end, nor what retention took of them, so nobody is told: both show when
they are read (`walk.py`). Where one begins, and what was there at a time, is found by reading until
a record comes, or the shard says that it has no more. That costs of what a shard gives in a second,
so it is asked only of lanes that get a place. One whose answers are empty for long is gone on with
at the next question, and left out until then. So is what has no answer within a moment, as where a
region cannot be reached: whoever asks has other streams, and other logs, to ask. Where each tenant
has a connection of its own, those who had no answer in time are asked on other lines than those who
had. Who asks once, and not again in a while, is not told of what is there as if it were not: he
waits, or is told why.

Whether a stream is still the one that it was is told by the numbers that its shards start with. An
account may describe so few streams in a second that who has many could not look at them otherwise:
so that is asked of those alone that nobody knows yet, or that are others.

Lists of shards come from a service that has many parts, so one may be without a shard that another
has. Which hash keys have no open shard, or two, at two looks in a row, is told with the stream, and
in the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from headrace.connectors.kinesis.client import SPENT_S, Kinesis, Spent, translated
from headrace.connectors.kinesis.first_places import Search
from headrace.connectors.kinesis.shards import (
    Listed,
    Shard,
    is_same,
    lineage_of,
    listed_together,
    misplaced_keys,
    shard_of,
)
from headrace.connectors.kinesis.spots import PLACES, beginning
from headrace.connectors.kinesis.streams import listed
from headrace.errors import BrokerUnavailable, HeadraceError, TopicMissing
from headrace.model.lane_names import named
from headrace.model.places import OPEN, Place, Places
from headrace.model.topic_names import connection_of
from headrace.ports import Clock, TopicInfo
from headrace.process.clock import SystemClock
from headrace.process.daemon_threads import DaemonThreads

log = structlog.get_logger(__name__)

V = TypeVar("V")

#: requests at once, to a connection
_AT_ONCE = 8
#: without an answer; beyond it nobody is given other lines, since it is not one tenant any more
_MOST_HELD_UP = 8 * _AT_ONCE
#: seconds after which nobody waits for what was asked
_PATIENCE_S = 3.0
#: for who asks once, of what an account is given in a second
_MOST_TRIES = 30
#: searches, and questions without an answer, that are remembered
_MOST_KEPT = 10_000
#: a stream that is being made or taken away has no shards to read
_THERE = frozenset({"ACTIVE", "UPDATING"})


@dataclass(slots=True)
class KinesisLog:
    """``headrace.ports.Log`` on Kinesis."""

    client: Kinesis = field(repr=False)
    clock: Clock = field(default_factory=SystemClock)
    #: whoever asks does not come again, so nothing that may be there is left out
    asks_once: bool = False
    #: lets seconds pass
    pause: Callable[[float], None] = time.sleep
    #: connections of which each tenant has its own
    of_tenants: frozenset[str] = frozenset()
    #: shards by the names of their lanes, as they were listed last
    _shards: dict[str, Shard] = field(default_factory=dict, repr=False)
    #: streams as they were listed last, by name; whoever shows them elsewhere looks at it meanwhile
    _listed: dict[str, Listed] = field(default_factory=dict, repr=False)
    #: by lane, and from when on: searches that did not come to an end yet
    _searches: dict[tuple[str, float | None], Search] = field(default_factory=dict, repr=False)
    #: hash keys that were misplaced at the last look, by stream
    _misplaced: dict[str, str] = field(default_factory=dict, repr=False)
    #: what was asked and had no answer in time, by question
    _asked_before: dict[tuple[object, object], Future[Any]] = field(
        default_factory=dict, repr=False
    )
    #: by connection: one that cannot be reached holds its own threads alone; and so do those of
    #: its tenants who had no answer in time
    _pools: dict[tuple[str | None, bool], DaemonThreads] = field(default_factory=dict, repr=False)
    #: tenants who had none when they were asked last, each with its connection
    _held_up: set[str] = field(default_factory=set, repr=False)

    def of(self, topic: str) -> KinesisLog:
        """This one has all streams."""
        return self

    @property
    def places(self) -> Places:
        """Sequence numbers, between which nobody counts."""
        return PLACES

    @property
    def tells_ends(self) -> bool:
        """Only reading tells."""
        return False

    @property
    def tells_starts(self) -> bool:
        """Numbers have gaps, so the first that is left says nothing of those before it."""
        return False

    def listed(self, stream: str) -> Listed | None:
        """A stream as it was listed last; None if it was not. Nobody is asked."""
        return self._listed.get(stream)

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and shards of each stream that exists."""
        found, troubles = self._asked(names, self._info, "info")
        self._raise_if_away(found, troubles)
        return found

    def all_topics(self) -> Collection[str]:
        """None: patterns are of Kafka's topics."""
        return ()

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Streams that are surely not there."""
        _, troubles = self._asked(names, self._summary, "summary")
        return {name for name, error in troubles.items() if isinstance(error, TopicMissing)}

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """Nobody knows before it is read."""
        return dict.fromkeys((lane for lane in lanes if lane in self._shards), OPEN)

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The first record that is left; of a shard without any, that none came until now."""
        return self._first_places(lanes, None)

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """The first record that is not older; where none is, that none came until now."""
        return self._first_places(lanes, timestamp_s)

    def doubt(self, lanes: Collection[str]) -> None:
        """Nothing is remembered of who has them."""

    def close(self) -> None:
        """Give up connections."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        close = getattr(self.client, "close", None)
        if close is not None:
            close()

    def _asked(
        self, keys: Collection[str], question: Callable[[str], V], what: object
    ) -> tuple[dict[str, V], dict[str, HeadraceError]]:
        """Answers, and why there is none; what has none yet is left out, and not asked twice."""
        found, troubles = self._answers(keys, question, what)
        for _ in range(_MOST_TRIES if self.asks_once else 0):
            spent = [key for key, error in troubles.items() if isinstance(error, Spent)]
            if not spent:
                break
            self.pause(SPENT_S)
            more, again = self._answers(spent, question, what)
            found |= more
            troubles = {key: why for key, why in troubles.items() if key not in spent} | again
        return found, troubles

    def _answers(
        self, keys: Collection[str], question: Callable[[str], V], what: object
    ) -> tuple[dict[str, V], dict[str, HeadraceError]]:
        found, troubles = dict[str, V](), dict[str, HeadraceError]()
        asked = dict[str, Future[V]]()
        for key in keys:
            before = self._asked_before.pop((what, key), None)
            asked[key] = before or self._pool_of(key).submit(question, key)
        _, late = wait(asked.values(), None if self.asks_once else _PATIENCE_S)
        for key, answer in asked.items():
            if answer in late:
                if not (self._is_of_a_tenant(key) and self._gives_way(key, answer)):
                    self._asked_before[what, key] = answer
                continue
            self._held_up.discard(_whose(key))
            try:
                found[key] = answer.result()
            except HeadraceError as error:
                troubles[key] = error
        _bound(self._asked_before)
        return found, troubles

    def _pool_of(self, name: str) -> DaemonThreads:
        line = connection_of(name), _whose(name) in self._held_up
        if line not in self._pools:
            self._pools[line] = DaemonThreads(_AT_ONCE, "kinesis-log")
        return self._pools[line]

    def _is_of_a_tenant(self, name: str) -> bool:
        return connection_of(name) in self.of_tenants

    def _gives_way(self, name: str, answer: Future[Any]) -> bool:
        """Let others of a connection go on; whether this was not asked yet, and has to be anew."""
        if answer.cancel():
            return True
        whose, line = _whose(name), (connection_of(name), False)
        if whose not in self._held_up:
            self._held_up.add(whose)
            asked = sum(not one.done() for one in self._asked_before.values())
            if asked < _MOST_HELD_UP:
                # What it asked goes on in these threads, which end then.
                self._pools.pop(line, None)
        return False

    def _raise_if_away(self, found: Collection[object], troubles: dict[str, HeadraceError]) -> None:
        away = [error for error in troubles.values() if isinstance(error, BrokerUnavailable)]
        if away and not found:
            raise away[0]
        for error in troubles.values() if self.asks_once else ():
            if not isinstance(error, TopicMissing):
                raise error
        for name, error in troubles.items():
            if not isinstance(error, TopicMissing | Spent):
                log.warning("a stream could not be looked at", topic=name, error=str(error))

    def _summary(self, stream: str) -> dict[str, Any]:
        try:
            told = self.client.describe_stream_summary(StreamName=stream)
        except Exception as error:
            raise translated(error, f"stream {stream}") from error
        found: dict[str, Any] = told["StreamDescriptionSummary"]
        if found["StreamStatus"] not in _THERE:
            raise Spent(f"stream {stream} is {found['StreamStatus']}")
        return found

    def _info(self, stream: str) -> TopicInfo:
        known = self._listed.get(stream)
        shards = self._shards_of(stream, known)
        if known is None or not shards:
            summary = self._summary(stream)
            # Not as it is told: whoever asks is given it in a time zone of his own.
            made_ms = round(summary["StreamCreationTimestamp"].timestamp() * 1000)
            known = Listed(str(summary["StreamARN"]), made_ms, {}, {})
            shards = listed(self.client, stream)
        lanes = {named(stream, shard.number): shard for shard in shards}
        for lane in [*self._shards]:
            if _is_of(lane, stream) and lane not in lanes:
                self._shards.pop(lane, None)
        self._shards |= lanes
        trouble = self._misplaced_at(stream, shards)
        self._listed[stream] = listed_together(known.arn, known.made_ms, shards)
        topic_id = f"{known.arn}@{known.made_ms}"
        begin = {lane: beginning(shard.starting) for lane, shard in lanes.items()}
        return TopicInfo(topic_id, tuple(lanes), lineage_of(stream, shards), begin, trouble)

    def _shards_of(self, stream: str, known: Listed | None) -> list[Shard]:
        """Its shards, if it is the stream that is known; none: somebody has to look."""
        if known is None:
            return []
        try:
            shards = listed(self.client, stream)
        except (Spent, TopicMissing, BrokerUnavailable):
            raise
        except HeadraceError:  # it may be made or taken away just now
            return []
        return shards if is_same(known.shards, shards) else []

    def _misplaced_at(self, stream: str, shards: Collection[Shard]) -> str:
        """Which hash keys have not one open shard, if it was so at the last look too."""
        wrong, before = misplaced_keys(shards), self._misplaced.get(stream)
        self._misplaced[stream] = wrong
        if not wrong or wrong != before:
            return ""
        log.warning("a stream's shards do not have each key once", topic=stream, why=wrong)
        return f"the shards of {stream} do not have each key once: {wrong}"

    def _first_places(self, lanes: Collection[str], since_s: float | None) -> dict[str, Place]:
        streams = {lane: shard.stream for lane in lanes if (shard := shard_of(lane)) is not None}
        unknown = {stream for lane, stream in streams.items() if lane not in self._shards}
        if unknown:
            self.topics(unknown)
        there = [lane for lane in streams if lane in self._shards]
        found, troubles = self._asked(there, lambda lane: self._first_place(lane, since_s), since_s)
        self._raise_if_away(found, troubles)
        return {lane: place for lane, place in found.items() if place is not None}

    def _first_place(self, lane: str, since_s: float | None) -> Place | None:
        """Where the first record is; None if that did not show yet."""
        shard = shard_of(lane)
        assert shard is not None, "only shards are listed"
        search = self._searches.pop((lane, since_s), None) or Search(
            self.client,
            self.clock,
            shard,
            self._shards[lane].starting,
            since_s,
        )
        for _ in range(_MOST_TRIES if self.asks_once else 1):
            place = search.go_on()
            if place is not None:
                return place
            if self.asks_once:
                self.pause(SPENT_S)
        self._searches[lane, since_s] = search
        _bound(self._searches)
        return None


def _bound(kept: dict[Any, Any]) -> None:
    """Forget what was kept first, should it be too much."""
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]


def _whose(name: str) -> str:
    """A tenant of a connection, in the name of a stream that begins with it, or of its lane."""
    return name.partition(".")[0]


def _is_of(lane: str, stream: str) -> bool:
    shard = shard_of(lane)
    return shard is not None and shard.stream == stream
