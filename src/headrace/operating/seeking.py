"""Setting where a stream reads next, also while it runs.

A seek to where the log is not would stop the stream, or lose what it meant to read again; so
offsets are looked at before the store is told. Lanes that a failure stopped go on.

What is read again has its effects again, and no guarantee is against that. So a seek is first
*planned*, with how much comes again and how much is passed over, for a person to be asked; then it
is carried out as it was planned. To add a stream that was removed is a seek too, to where its use
case starts.

Offsets mean something in one topic only. So the store is told the id of the topic they were looked
up in, and one that is made again before any driver has looked is found as it always is. Of a topic
that was made again no lane keeps an offset of the old one: all partitions are sought together.

A lane that follows others stays closed until they come to their ends again, if they are sent back.
To seek all lanes of a stream decides as well about those that its log does not list any more, or
that another topic does not have: they are forgotten, and nobody waits for them. Should one come
again, it is a new one. One list without a lane is not believed, as by drivers: where lanes may go,
the log is asked for as long as they ask it, and where none ever goes the seek is refused. Nor is
the id of a topic that a stream left, unless somebody has suspended the stream.

A topic of several that is not there may come again, so no seek forgets it by the way. Who knows
that it is gone for good gives it up by its name, with all that is recorded of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from headrace.cycle.bucket_log import BucketLog
from headrace.cycle.lags import topic_now, untold
from headrace.cycle.seek_places import (
    StreamLog,
    check_listed,
    given_up,
    seek_offsets,
    seek_target,
    stream_log,
)
from headrace.cycle.topic_ids import IF_IT_IS, is_the_same, told_as_left
from headrace.cycle.whole_positions import check_divided
from headrace.errors import ConfigError, Temporary
from headrace.model.buckets import by_whole_lane, most_of
from headrace.model.lane_names import in_order, said
from headrace.model.lineage import Lineage, Parent, begun, ends_in, followers, without
from headrace.model.places import Place
from headrace.model.records import Deployment
from headrace.model.starting import SinceTime, read_starting
from headrace.model.streams import (
    RERUN_MARK,
    State,
    Stream,
    StreamId,
    lineage_of,
    places_of,
)
from headrace.model.topic_lists import (
    as_said,
    id_without,
    is_another,
    is_away,
    is_of,
    missing_of,
    others,
    topic_of_lane,
)
from headrace.model.topic_patterns import is_pattern
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.policies.starting import Edges, first_places, unnamed
from headrace.policies.state_sent import forgotten
from headrace.ports import Log, Progress, Store, TopicInfo

#: how often a log is asked about a lane that it did not list
_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Shift:
    """What a seek does to one lane; amounts are records, at most. None: nobody can count them."""

    #: where it reads next now; None: it has no position in this topic
    at: Place | None
    to: Place
    #: read before, and to be read again
    again: int | None
    #: never read, and never to be
    passed: int | None


@dataclass(frozen=True, slots=True)
class Seek:
    """A seek as it was planned."""

    stream: StreamId
    #: what it reads: a topic, or several
    topic: str
    #: by lane, in their order
    shifts: Mapping[str, Shift]
    topic_id: str
    #: lanes of the stream that its topic does not have, and that are forgotten
    gone: frozenset[str] = frozenset()
    #: nobody has suspended the stream, so that some of it may run
    runs: bool = False
    #: what its lanes follow from then on; None: nothing, as in most logs
    parents: Lineage | None = None
    #: topics and partitions of several that are not there, and that somebody gives up
    given_up: tuple[str, ...] = ()

    @property
    def offsets(self) -> dict[str, Place]:
        """Where lanes read next after it."""
        return {lane: shift.to for lane, shift in self.shifts.items()}

    @property
    def does_something(self) -> bool:
        """Whether a record is read again or passed over, or may be, or a lane is forgotten."""
        return self.again != 0 or self.passed != 0 or bool(self.gone)

    @property
    def again(self) -> int | None:
        """Records that are read again, at most; None: nobody can count them."""
        return _most(self.shifts, lambda shift: shift.again)

    @property
    def passed(self) -> int | None:
        """Records that are passed over, at most; None: nobody can count them."""
        return _most(self.shifts, lambda shift: shift.passed)


def _most(shifts: Mapping[str, Shift], amount: Callable[[Shift], int | None]) -> int | None:
    ranges = dict[str, tuple[Place, int]]()
    for name, shift in shifts.items():
        count = amount(shift)
        if count is None:
            return None
        ranges[name] = (shift.to, count)
    return most_of(ranges)


def planned(
    store: Store,
    log: Log,
    stream: StreamId,
    to: str | Mapping[str, Place],
    wait: Callable[[float], object] | None = time.sleep,
    before: Seek | None = None,
) -> Seek:
    """What it means to let a stream read next at ``to``; does nothing.

    Args:
        store: knows the stream.
        log: knows the offsets.
        stream: the one to seek.
        to: what a person typed (see ``seek_target``), or offsets as for ``seek_offsets``.
        wait: so many seconds, if the log has to be asked again; None: it is asked once more, and
            at once, for what is only looked at.
        before: the same, as it was planned: about lanes that are gone the log was asked for long
            enough, and what it gives up stays so where ``to`` is offsets.

    Raises:
        UnknownName: there is no such stream.
        ConfigError: ``to`` cannot be understood, the log does not hold it, or the stream's topic
            was made again and not all of it is sought, or it is a rerun of the old one; or it is
            one that the stream left.
        Temporary: a list was without lanes that are there.
    """
    positions = store.progress.load_positions([stream])
    of = stream_log(store.registry, log, stream, positions)
    offsets = seek_target(log, of, to) if isinstance(to, str) else seek_offsets(of, to)
    told = frozenset[str]() if before is None else before.gone
    over = _given_up(of, to, before)
    if not (offsets or over) or of.topic is None:
        raise ConfigError(f"stream {stream} has no partition to seek; is its topic there?")
    lanes = places_of(positions)
    followed = lineage_of(positions)
    _check_own(store, of.stream, offsets.keys() - lanes.keys())
    _check_not_rerun(of.stream, of.topic)
    _check_not_left(of.stream, of.topic)
    other = others(of.stream.topic_id, of.topic.topic_id)
    if of.stream.topic_id != of.topic.topic_id:
        _check_agreed(log, of)
    left = lanes.keys() & set(of.topic.lanes) - set(offsets)
    _check_whole(of.stream, other, {name for name in left if is_of(name, other)})
    whole = offsets.keys() >= set(of.topic.lanes)
    if whole:
        check_listed(of, positions)
    else:
        check_divided(stream, positions)
    another, away = bool(other), missing_of(of.stream.topic, of.topic.lanes, of.topic.topic_id)
    _check_away(of.stream, over, away)
    gone = frozenset(
        name
        for name in lanes.keys() - set(of.topic.lanes)
        if is_of(name, other)
        or is_away(name, of.stream.topic, over)
        or (whole and not is_away(name, of.stream.topic, away))
    )
    # What is divided otherwise by now is gone as well, and no list says so.
    doubtful = by_whole_lane(gone.difference(told)).keys() - by_whole_lane(of.topic.lanes).keys()
    if doubtful and (over or not another):
        _check_gone(log, of, doubtful, wait)
    shifts, runs = _shifts(of, of.topic, lanes, offsets), of.stream.state is State.ACTIVE
    parents: Lineage | None = None
    if followed or of.topic.parents:
        kept: Lineage = {} if another else followed
        known = () if another else lanes
        parents = _whole(of.topic) if whole else _part(of.topic, kept, known, offsets)
        _check_followers(of, shifts, lanes, {**of.topic.parents, **kept})
    return Seek(
        stream, of.stream.topic, shifts, _left_id(of, lanes, gone, over), gone, runs, parents, over
    )


def planned_again(
    store: Store,
    log: Log,
    to: str | Mapping[str, Place],
    seek: Seek,
    wait: Callable[[float], object] = time.sleep,
) -> Seek:
    """What a seek that was planned comes to by now: the same places, if its lanes are the same.

    If they became others, as one was split, it is ``to`` that was meant and not these places.
    """
    now = planned(store, log, seek.stream, to, wait, seek)
    if now.parents != seek.parents:
        return now
    return planned(store, log, seek.stream, seek.offsets, wait, now)


def check_state(store: Store, seek: Seek, *, forget_state: bool) -> None:
    """Refuse what `carry_out` would refuse because of state, for who only looks or is asked yet.

    Raises:
        ConfigError: as there.
    """
    if parts := store.kept_state.parts(seek.stream):
        was = next(known for known in store.registry.streams() if known.id == seek.stream)
        places = places_of(store.progress.load_positions([seek.stream]))
        left = {name: at for name, at in places.items() if name not in seek.gone}
        other = others(was.topic_id, seek.topic_id)
        forgotten(seek.stream, parts, left, seek.offsets, other, forget=forget_state)


def carry_out(progress: Progress, seek: Seek, *, forget_state: bool = False) -> None:
    """Do what was planned, under a new epoch.

    Args:
        progress: of the store.
        seek: as it was planned.
        forget_state: let lanes that are sent back begin there without the state that they keep.

    Raises:
        ConfigError: the stream was removed, or a lane that keeps state is sent back with it.
    """
    progress.seek(
        seek.stream,
        seek.offsets,
        seek.topic_id,
        seek.parents,
        seek.gone,
        forget_state=forget_state,
    )


def seek(
    store: Store,
    log: Log,
    stream: StreamId,
    to: str | Mapping[str, Place],
    wait: Callable[[float], object] = time.sleep,
) -> dict[str, Place]:
    """Let a stream read next at ``to``, and ask nobody; return the offsets by lane.

    Raises:
        UnknownName, ConfigError: as ``planned`` and ``carry_out``.
    """
    plan = planned(store, log, stream, to, wait)
    carry_out(store.progress, plan)
    return plan.offsets


def begun_again(store: Store, log: Log, streams: Collection[StreamId]) -> list[Seek]:
    """What comes again when these are added: of each that was removed and had read something.

    Raises:
        Temporary: nobody knows.
    """
    deployments = {known.use_case: known for known in store.registry.deployments()}
    found = []
    for stream in store.registry.streams():
        if stream.id not in streams or stream.state is not State.REMOVED:
            continue
        positions = store.progress.load_positions([stream.id])
        lanes = places_of(positions)
        of = stream_log(store.registry, log, stream.id, positions)
        check_listed(of, positions)
        if of.topic is not None and lanes:
            to = _begun_at(log, of, deployments[stream.id.use_case])
            found.append(
                Seek(stream.id, stream.topic, _shifts(of, of.topic, lanes, to), of.topic.topic_id)
            )
    return found


def _begun_at(log: Log, of: StreamLog, deployment: Deployment) -> Mapping[str, Place]:
    """Where a stream would begin; where it could not, at worst all comes again."""
    starting, lanes = read_starting(deployment.starting_offsets), list(of.starts)
    topic_id = None if of.topic is None else of.topic.topic_id
    topics = as_said(of.stream.topic, deployment.topic, topic_id)
    if untold(of.ends) or unnamed(starting, topics, lanes):
        return of.starts
    then: Mapping[str, Place] = {}
    if isinstance(starting, SinceTime):
        then = BucketLog(log).offsets_at(lanes, starting.at_s)
    found = first_places(starting, topics, lanes, Edges(of.starts, of.ends, then))
    return of.starts if isinstance(found, str) else {**of.starts, **found}


def _shifts(
    of: StreamLog, topic: TopicInfo, lanes: Mapping[str, Place], offsets: Mapping[str, Place]
) -> dict[str, Shift]:
    # An offset of a topic that is no more says nothing of what was read of this one.
    other = others(of.stream.topic_id, topic.topic_id)
    return {
        lane: _shift(None if is_of(lane, other) else lanes.get(lane), offsets[lane], of, lane)
        for lane in in_order(offsets)
    }


def _shift(at: Place | None, to: Place, of: StreamLog, lane: str) -> Shift:
    start, end = of.starts.get(lane, to), of.ends.get(lane, to)
    # What Kafka lost can neither be read again nor be passed over.
    read = min(max(start, at if at is not None else start), end)
    between = of.places.between
    again = between(read, to) if read > to else 0
    passed = between(to, read) if to > read else 0
    return Shift(at, to, again, passed)


def _whole(topic: TopicInfo) -> dict[str, tuple[Parent, ...]]:
    """What lanes follow when all of them are sought: nobody waits for what is not listed."""
    listed = set(topic.lanes)
    return {
        name: without(parents, {parent.lane for parent in parents} - listed)
        for name, parents in topic.parents.items()
    }


def _part(
    topic: TopicInfo, followed: Lineage, lanes: Collection[str], offsets: Collection[str]
) -> dict[str, tuple[Parent, ...]]:
    """What lanes follow when some of them are sought: what they did, and new ones what they do.

    Raises:
        ConfigError: a new one follows a lane that has no place yet, or that something was lost of.
    """
    found, known = dict(followed), {*lanes, *offsets}
    for name in ({*offsets} - {*lanes}) & topic.parents.keys():
        parents = begun(topic.parents[name], topic.lanes, known, ends_in(followed))
        if parents is None or any(parent.until is None for parent in parents):
            raise ConfigError(
                f"no driver has begun {name} yet, which follows others; seek all lanes of the "
                "stream together, or wait until one has"
            )
        found[name] = parents
    return found


def _check_followers(
    of: StreamLog, shifts: Mapping[str, Shift], lanes: Mapping[str, Place], lineage: Lineage
) -> None:
    """Refuse to read a lane again without what was read of those that follow it.

    What comes again is newer than all that was read before, as it has to be where a log was cut.
    So an older state of a key would stay for ever over that which its younger lane had told.
    """
    back = in_order(name for name, shift in shifts.items() if shift.again != 0)
    late = {
        name: of.starts[name]
        for name in in_order(followers(back, lineage) & lanes.keys() & of.starts.keys())
        if (shifts[name].to if name in shifts else lanes[name]) > of.starts[name]
    }
    if late:
        topic = of.stream.topic
        again = ", ".join(said(name, topic) for name in back)
        more = ", ".join(f"{said(name, topic)} at {start}" for name, start in late.items())
        raise ConfigError(
            f"what comes again of {again} of {topic} would count as newer than what was read of "
            f"lanes that follow it; seek {more} as well"
        )


def _given_up(of: StreamLog, to: str | Mapping[str, Place], before: Seek | None) -> tuple[str, ...]:
    if isinstance(to, str):
        return tuple(given_up(of, to))
    return () if before is None else before.given_up


def _left_id(
    of: StreamLog, lanes: Collection[str], gone: Collection[str], over: Collection[str]
) -> str:
    """The id of what it reads, without topics of which no lane is left."""
    topic_id = "" if of.topic is None else of.topic.topic_id
    topic = of.stream.topic
    left = {topic_of_lane(name, topic) for name in lanes if name not in gone}
    none = {topic_of_lane(name, topic) for name in gone if is_away(name, topic, over)} - left
    return id_without(topic_id, none) if none else topic_id


def _check_away(stream: Stream, over: Collection[str], away: Collection[str]) -> None:
    """Refuse to give up what is there, or what the stream does not read."""
    for part in over:
        if part not in away:
            raise ConfigError(
                f"{part} is given up by null, which is for a topic or a partition of stream "
                f"{stream.id} that is not there; {', '.join(away) or 'none of them'} is not there"
            )


def _check_gone(
    log: Log, of: StreamLog, gone: Collection[str], wait: Callable[[float], object] | None
) -> None:
    """Ask for lanes that are not listed, for as long as a driver does before they count as gone."""
    name, topic = of.stream.topic, of.topic
    for _ in range(1 if wait is None else _LOOKS):
        if wait is not None:
            wait(LIST_PATIENCE_S / _LOOKS)
        now = topic_now(log, of.stream)
        if (
            now is None
            or topic is None
            or now.topic_id != topic.topic_id
            or set(gone).intersection(now.lanes)
        ):
            raise Temporary(
                f"{', '.join(in_order(gone))} of {name}: one list was without, the next one was "
                "not; nothing was done, try again"
            )


def _check_agreed(log: Log, of: StreamLog) -> None:
    """Have a second answer agree about a topic of which the stream has read nothing yet."""
    if of.topic is not None and not is_the_same(of.topic, topic_now(log, of.stream)):
        raise Temporary(
            f"topic {of.stream.topic}: two answers, one after the other, were of other topics or "
            "of other partitions; nothing was done, try again"
        )


def _check_not_left(stream: Stream, topic: TopicInfo) -> None:
    if stream.state is State.ACTIVE and stream.has_left(topic.topic_id):
        told = told_as_left(stream, topic)
        raise ConfigError(f"{told}: nothing was done, try again. {IF_IT_IS}")


def _check_own(store: Store, stream: Stream, fresh: Collection[str]) -> None:
    """See that lanes that a seek lets begin are of no topic that is another tenant's as well."""
    if fresh and is_pattern(stream.topic):
        topics = {topic_of_lane(name, stream.topic) for name in fresh}
        if why := store.registry.why_shared({stream.id: topics}).get(stream.id):
            raise ConfigError("; ".join(why[topic] for topic in sorted(why)))


def _check_not_rerun(stream: Stream, topic: TopicInfo) -> None:
    if RERUN_MARK in stream.id.use_case and is_another(stream.topic_id, topic.topic_id):
        raise ConfigError(
            f"topic {stream.topic} was deleted and made again, and the end of rerun {stream.id} is "
            f"an offset of the old one: headrace streams remove {stream.id}, and begin "
            "another rerun if you want one"
        )


def _check_whole(stream: Stream, other: Collection[str], left: Collection[str]) -> None:
    if left:
        lanes = ", ".join(said(lane, stream.topic) for lane in in_order(left))
        again = ", ".join(sorted(filter(None, other))) or stream.topic
        raise ConfigError(
            f"topic {again} was deleted and made again; seek all of its partitions, also {lanes}"
        )
