"""Which lanes a stream has of those of its log, and how it comes by others.

With order ``key``, and with ``none`` where it says so, each lane of a log is divided into buckets
(`model/buckets.py`), into as many as the use case says. A lane that is new to a stream is divided
so from its beginning. One that has places in the store is what these say. Should the use case be
deployed with another number, or by places instead of keys, it has to be *drained* first: the place
of a bucket says nothing of a record of another division. So a place is chosen behind all that may
run. There the lanes of the new division begin; they follow the old ones, which end there, and
everything that holds for lanes that follow others does the rest (`model/lineage.py`).

What may run is known: what this driver planned since it holds the stream, whose epoch refuses all
others, and what is recorded. A rerun reads what it was begun with, and is never divided otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from headrace.board import HeldStream
from headrace.cycle.lineage import lanes_go
from headrace.model.buckets import (
    Division,
    Heirs,
    bucket_of,
    by_whole_lane,
    divided,
    heirs_of,
    of_parts,
    whole_lane,
)
from headrace.model.lane_names import in_order
from headrace.model.lineage import Parent, ahead
from headrace.model.missing_buckets import missing_buckets, told
from headrace.model.places import Place
from headrace.model.records import LaneStart
from headrace.model.topic_lists import is_of, others
from headrace.model.waves import Wave
from headrace.ports import TopicInfo


def as_divided(held: HeldStream, info: TopicInfo) -> TopicInfo:
    """What a log says of a topic, as a stream has its lanes."""
    wanted, is_rerun = held.deployment.division, held.deployment.until is not None
    if not _has_buckets(held) and (wanted.buckets == 1 or is_rerun):
        return info
    known = by_whole_lane(held.lanes)
    of = {
        lane: known[lane] if lane in known else [] if is_rerun else _parts(lane, wanted)
        for lane in info.lanes
    }
    names = tuple(name for lane in info.lanes for name in of[lane] if _stands(held, name, info))
    last = {
        lane: [name for name in parts if name not in held.replaced]
        for lane, parts in (known | of).items()
        if parts  # what is new to a rerun follows its lanes all the same
    }
    return replace(info, lanes=names, parents=of_parts(info.parents, last))


def is_misdivided(held: HeldStream) -> bool:
    """Whether the use case wants its lanes divided otherwise than they are, and than they will."""
    wanted = held.deployment.division
    if held.deployment.until is not None or (wanted.buckets == 1 and not held.is_divided):
        return False
    return any(
        lane.division != wanted and name not in held.replaced for name, lane in held.lanes.items()
    )


def lacking(held: HeldStream, listed: Collection[str]) -> str | None:
    """Why nothing of a stream may be read: some of its buckets have no place; None: all have.

    Args:
        held: the stream, as the store has it.
        listed: lanes of its log, as that names them.
    """
    if not _has_buckets(held):
        return None
    lineage = held.lineage
    missing = missing_buckets(held.lanes, lineage, listed, held.deployment.until)
    return told(held.stream.id, held.stream.topic, missing, lineage, held.places)


def divisions(held: HeldStream, info: TopicInfo, recorded: Iterable[Wave]) -> LaneStart | None:
    """Lanes of another division, which follow those that are there; None: none can begin now.

    Args:
        held: the stream, as the store has it.
        info: what its log says of its topic.
        recorded: waves that are written down, whoever did.
    """
    if held.lacking or held.doubled:
        return None  # what is missing, or too much, now would be found by nobody then
    ends, parents = _sure_ends(held, recorded), dict[str, tuple[Parent, ...]]()
    places, listed = dict[str, Place](), by_whole_lane(info.lanes)
    goes = lanes_go(held, info)
    for lane, names in by_whole_lane(held.lanes).items():
        if goes and lane not in listed:
            continue  # it ended, and what it is divided into is read to there
        if any(held.lanes[name].away for name in names):
            continue  # its topic is not there, and may be another one when it is
        made = _divided_anew(held, lane, names, max(ends[name] for name in names))
        if made is not None:
            places |= made.places
            parents |= made.parents
    if not places:
        return None
    return LaneStart(
        held.stream.id,
        info.topic_id,
        places,
        held.stream.topic_id,
        parents,
        held.epoch,
        # Records keep the numbers that they had, so versions of both divisions compare.
        deeper=not held.measures.numbers,
    )


def forgettable(held: HeldStream, over: Iterable[str]) -> list[str]:
    """Of lanes that nobody needs any more those that follow none that stays.

    Only who follows a lane of another division knows where it ends: without that it would read on.
    """
    found = set(over)
    while early := {name for name in found if not found.issuperset(_divided_before(held, name))}:
        found -= early
    return in_order(found)


def _divided_before(held: HeldStream, name: str) -> set[str]:
    """What a lane follows that is of the same lane of the log, and is there still."""
    return {
        lane
        for lane, until in held.lanes[name].parents
        if until is not None and lane in held.lanes and whole_lane(lane) == whole_lane(name)
    }


def _divided_anew(held: HeldStream, lane: str, names: list[str], at: Place) -> Heirs | None:
    """None where it is as it is to be, and where something is followed and so comes to an end.

    What was divided otherwise a moment ago is forgotten first.
    """
    wanted = held.deployment.division
    if held.lanes[names[0]].division == wanted or any(name in held.ends for name in names):
        return None
    return heirs_of(lane, names, wanted.buckets, at, by_place=wanted.by_place)


def _has_buckets(held: HeldStream) -> bool:
    """Whether a stream has any, or is a rerun that was begun with some."""
    return held.is_divided or any(map(bucket_of, held.deployment.until or ()))


def _parts(lane: str, wanted: Division) -> list[str]:
    return divided(lane, wanted.buckets, by_place=wanted.by_place)


def _stands(held: HeldStream, name: str, info: TopicInfo) -> bool:
    """Whether a lane has something to be read still, or follows one that has, or goes on.

    None is to be forgotten before what it follows: nobody would know any more where that ends. In
    another topic nothing is as it was, and what was to be replaced is not there any more.
    """
    if name not in held.replaced:
        return True
    if is_of(name, others(held.stream.topic_id, info.topic_id)):
        return False
    before = {lane.lane for lane in ahead(name, held.lineage, {})} & held.lanes.keys()
    return any(lane not in held.replaced or not held.is_done(lane) for lane in {name, *before})


def _sure_ends(held: HeldStream, recorded: Iterable[Wave]) -> dict[str, Place]:
    """A place of each lane that nothing goes beyond which may run."""
    ends = {name: max(lane.position, lane.planned_to) for name, lane in held.lanes.items()}
    for piece in (piece for wave in recorded for piece in wave.slices):
        if piece.lane.stream == held.stream.id and piece.lane.name in ends:
            ends[piece.lane.name] = max(ends[piece.lane.name], piece.until_offset)
    return ends
