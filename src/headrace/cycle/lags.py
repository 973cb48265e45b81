"""Answers for operators that need both the store and Kafka: lag, and a health check.

The driver does not need these, so they are asked only when a person asks. What a person means who
names a place is in `seek_places.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from headrace.cycle.described import as_known, described
from headrace.cycle.whole_positions import odd
from headrace.model.buckets import (
    by_whole_lane,
    of_parts,
    parts_of,
    replaced,
    share_of,
    whole_lane,
)
from headrace.model.lane_names import in_order, spoken, taken_apart
from headrace.model.lineage import Lineage, Parent, closed, ends_in
from headrace.model.places import OPEN, Place, Places
from headrace.model.streams import PassedRange, State, Stream, StreamId
from headrace.model.topic_lists import (
    is_away,
    missing_of,
    others,
    topic_of_lane,
)
from headrace.ports import Log, Store, TopicInfo

#: offsets by lane
_Offsets = Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class StreamLag:
    """One stream with its positions, and how far the log is ahead of them."""

    stream: Stream
    #: active only if tenant and stream both are
    state: State
    #: next offset by lane
    positions: Mapping[str, Place]
    #: end of the log by lane; one that cannot be asked now is left out
    ends: Mapping[str, Place]
    starts: Mapping[str, Place]
    #: None: it is not there, or Kafka was not asked
    topic: TopicInfo | None
    #: where a rerun ends, by lane; one that is over ends nowhere, and has nothing to read
    until: Mapping[str, Place] | None = None
    #: None: no log was asked
    places: Places | None = None
    #: what its lanes follow
    parents: Lineage = field(default_factory=dict)
    #: what lanes passed over right before where they read next
    passed_ranges: Mapping[str, PassedRange] = field(default_factory=dict)

    @property
    def waits_for(self) -> dict[str, list[str]]:
        """Lanes that are not read yet, each with those that have to be done before."""
        waits = closed(self.parents, self.positions)
        return {lane: in_order(parent.lane for parent in waits[lane]) for lane in in_order(waits)}

    @property
    def lag_records(self) -> int | None:
        """Offsets between positions and ends, a rerun's own; None if not all of it is known.

        Without a topic there is none. Of a lane without a leader nobody knows the end, and
        most of what waits may be there.
        """
        if self.topic is None or self.places is None:
            return None
        lanes = set(self.topic.lanes)
        if self.until is not None:
            lanes &= self.until.keys()
        begins = {**self.starts, **self.positions}
        if self.untold or self.odd:
            return None
        if not lanes <= self.ends.keys() & begins.keys():
            return None
        divided_at = replaced(self.parents)
        lasts = {lane: min(self._last(lane), divided_at.get(lane, OPEN)) for lane in lanes}
        found = ((lane, last, begins[lane]) for lane, last in lasts.items())
        between = self.places.between
        return share_of({lane: between(*ends) or 0 for lane, *ends in found if ends[0] > ends[1]})

    @property
    def is_guess(self) -> bool:
        """Whether its lag is one: of what is between two places nobody knows what a bucket has."""
        return any(parts_of(lane) > 1 for lane in (*self.positions, *(self.until or ())))

    @property
    def untold(self) -> list[str]:
        """Lanes of which only reading tells where they end."""
        return untold(self.ends)

    @property
    def odd(self) -> list[str]:
        """What cannot be of its positions, whatever its log says of them."""
        if self.topic is None or not self.is_guess:
            return []
        return odd(self.stream, self.topic, self.positions, self.parents, self.until)

    def _last(self, lane: str) -> Place:
        end = self.ends[lane]
        return end if self.until is None else min(end, self.until[lane])

    def faults(self) -> list[str]:
        """What cannot be: each a sentence. Empty when store and Kafka agree."""
        if self.state is State.REMOVED:
            return []
        if self.topic is None:
            return [f"topic {self.stream.topic} is not there"] if self.positions else []
        found, ends = [], ends_in(self.parents)
        other = others(self.stream.topic_id, self.topic.topic_id)
        if other:
            again = ", ".join(sorted(filter(None, other))) or self.stream.topic
            found.append(f"topic {again} was deleted and made again")
        missing = missing_of(self.stream.topic, self.topic.lanes, self.topic.topic_id)
        found += [
            f"{'topic ' if taken_apart(one) is None else ''}{one} is not there" for one in missing
        ]
        for lane in in_order(self.positions):
            position, start, end = self.positions[lane], self.starts.get(lane), self.ends.get(lane)
            told = spoken(lane, self.stream.topic)
            if is_away(lane, self.stream.topic, missing):
                continue
            if lane not in self.topic.lanes:
                if lane in ends and position >= ends[lane]:
                    continue  # it is done, and its log lists it no more
                of = topic_of_lane(lane, self.stream.topic)
                found.append(f"{spoken(lane)} of {of} is gone")
            elif start is not None and position < start:
                found.append(f"{told}: offsets {position}..{start} were deleted")
            elif end is not None and position > end:
                found.append(f"{told}: position {position} is past the end {end}")
        return found + self.odd


def lags(
    store: Store,
    log: Log | None,
    wanted: Callable[[Stream, State], bool] = lambda stream, state: True,
) -> list[StreamLag]:
    """Streams with what Kafka says of their topics now.

    Args:
        store: knows the streams.
        log: is asked about the topics of those that are wanted, and of no others; None: Kafka is
            asked nothing, and no lag is known.
        wanted: whether a stream is, in the state that it and its tenant are in together.
    """
    found = store.registry.streams()
    # After the streams: somebody may just now be added.
    tenants = {tenant.name: tenant.state for tenant in store.registry.tenants()}
    states = {stream.id: _effective(tenants[stream.id.tenant], stream.state) for stream in found}
    streams = [stream for stream in found if wanted(stream, states[stream.id])]
    known, ends, starts = _of_log(log, {stream.topic for stream in streams})
    until = {deployment.use_case: deployment.until for deployment in store.registry.deployments()}
    positions: dict[StreamId, dict[str, Place]] = {}
    parents: dict[StreamId, dict[str, tuple[Parent, ...]]] = {}
    ranges: dict[StreamId, dict[str, PassedRange]] = {}
    for position in store.progress.load_positions():
        stream_id, lane = position.lane.stream, position.lane.name
        positions.setdefault(stream_id, {})[lane] = position.next_offset
        if position.parents:
            parents.setdefault(stream_id, {})[lane] = position.parents
        if position.passed_range is not None:
            ranges.setdefault(stream_id, {})[lane] = position.passed_range
    infos = {
        stream.id: with_buckets(_known(stream, known), positions.get(stream.id, {}))
        for stream in streams
    }
    return [
        StreamLag(
            stream=stream,
            state=states[stream.id],
            positions=positions.get(stream.id, {}),
            ends=_of_topic(ends, infos[stream.id]),
            starts=_of_topic(starts, infos[stream.id]),
            topic=infos[stream.id],
            until=until.get(stream.id.use_case),
            places=None if log is None else log.of(stream.topic).places,
            parents=parents.get(stream.id, {}),
            passed_ranges=ranges.get(stream.id, {}),
        )
        for stream in streams
    ]


def untold(ends: Mapping[str, Place]) -> list[str]:
    """Lanes whose log does not say where they end."""
    return in_order(lane for lane, end in ends.items() if end == OPEN)


def _of_log(
    log: Log | None, topics: Collection[str]
) -> tuple[Mapping[str, TopicInfo], _Offsets, _Offsets]:
    """Topics, and where their lanes end and start."""
    if log is None:
        return {}, {}, {}
    known = described(log, topics)
    asked = [lane for info in known.values() for lane in info.lanes]
    told = [
        lane for topic, info in known.items() if log.of(topic).tells_starts for lane in info.lanes
    ]
    return known, log.end_offsets(asked), log.start_offsets(told)


def _known(stream: Stream, known: Mapping[str, TopicInfo]) -> TopicInfo | None:
    info = known.get(stream.topic)
    return None if info is None else as_known(stream, info)


def _effective(tenant: State, stream: State) -> State:
    return tenant if tenant is not State.ACTIVE else stream


def _of_topic(offsets: _Offsets, info: TopicInfo | None) -> _Offsets:
    whole = {lane: whole_lane(lane) for lane in info.lanes} if info else {}
    return {lane: offsets[of] for lane, of in whole.items() if of in offsets}


def with_buckets(
    info: TopicInfo | None, lanes: Collection[str], gone: Collection[str] = ()
) -> TopicInfo | None:
    """What a log says of a topic, with lanes as a stream has them; without those that are gone."""
    if info is None or not any("#" in name for name in lanes):
        return info
    of = by_whole_lane(name for name in lanes if name not in gone)
    names = tuple(name for lane in info.lanes for name in of.get(lane, [lane]))
    return replace(info, lanes=names, parents=of_parts(info.parents, of))


def topic_now(log: Log, stream: Stream) -> TopicInfo | None:
    """What a log says now of what a stream reads; None: it is not there."""
    return _known(stream, described(log, [stream.topic]))
