"""Lanes that follow others, as topics are looked at: which begin, and which are forgotten.

A log tells of a new lane and of its parents at once, and the store is told so at once too: whatever
happens next, the lane is never there without what it waits for. A parent's row stays as long as it
can matter: until its log does not list it any more, and each of its children was committed once.
That one answer is without a lane tells little. It may be in the next one, and would then be read
again from its beginning, so it has to be missing from every answer for a while.
What a log lost of parents is `losses.py`'s matter, and is decided about before anything here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.board import HeldStream
from headrace.model.buckets import follows_others
from headrace.model.lineage import Lineage, Parent, begun, closed
from headrace.model.places import Place
from headrace.policies.data_loss import LIST_PATIENCE_S, NOWHERE, Short, seen_short
from headrace.ports import TopicInfo


def has_begun(held: HeldStream) -> bool:
    """Whether a stream ever had lanes: all that it had may be lost and given up.

    Its topic may even be another one by now, of which it saw nothing yet. Or it has begun without
    one, so that all is read that comes.
    """
    stream = held.stream
    return bool(held.lanes) or stream.topic_id is not None or stream.begun_without_topic


def startable(
    held: HeldStream, info: TopicInfo, first: Mapping[str, Place]
) -> tuple[dict[str, Place], dict[str, tuple[Parent, ...]]]:
    """New lanes that can get their first places now, with what they follow.

    One whose parent has none waits until that has: a lane in the store that does not say what it
    follows would be read at once. A rerun reads nothing of lanes that are new to it.
    """
    if held.deployment.until is not None:
        return dict(first), {}
    found = dict(first)
    while True:
        known = held.lanes.keys() | found.keys()
        followed = {
            name: begun(info.parents[name], info.lanes, known, held.ends)
            for name in found
            if name in info.parents
        }
        early = [name for name, parents in followed.items() if parents is None]
        if not early:
            return found, {name: parents for name, parents in followed.items() if parents}
        for name in early:
            del found[name]


def lanes_go(held: HeldStream, info: TopicInfo) -> bool:
    """Whether lanes of a topic may be gone from its list one day; where none follows, none is.

    That one follows what its own was divided into before says nothing: no list tells of that.
    """
    return bool(info.parents) or (bool(held.heirs) and follows_others(held.lineage))


def listed_or_away(held: HeldStream, info: TopicInfo) -> set[str]:
    """Lanes that a log lists, and those of topics of a list that are away: they may come again."""
    return {*info.lanes, *(name for name, lane in held.lanes.items() if lane.away)}


def unlisted(held: HeldStream, info: TopicInfo, asked_s: float, now_s: float) -> dict[str, Short]:
    """Lanes that a log does not list, each with how long it has been so; of most logs none.

    Args:
        held: has those that were missing before.
        info: what its log says.
        asked_s: monotonic second at which it was asked.
        now_s: monotonic.
    """
    if not (info.parents or held.heirs):
        return {}
    missing = {parent.lane for parents in info.parents.values() for parent in parents}
    missing = (missing | held.lanes.keys()) - listed_or_away(held, info)
    found = {}
    for name in missing:
        position = held.lanes[name].position if name in held.lanes else NOWHERE
        before = held.unlisted.get(name)
        found[name] = seen_short(before, position, asked_s, now_s, LIST_PATIENCE_S)
    return found


def doubtful(held: HeldStream) -> set[str]:
    """Lanes that are not listed, and have not been so for long enough to be gone."""
    return {name for name, seen in held.unlisted.items() if not seen.lasts(LIST_PATIENCE_S)}


def is_over(
    listed: Collection[str], kept: Lineage, places: Mapping[str, Place], starts: Mapping[str, Place]
) -> list[str]:
    """Parents that nobody needs any more.

    Args:
        listed: lanes that the log has.
        kept: parents of the stream's lanes.
        places: where its lanes are committed.
        starts: where lanes of the log begin; one behind that was committed at least once.
    """
    waiting: dict[str, bool] = {}
    shut = closed(kept, places)
    for child, parents in kept.items():
        moved = child not in listed or places[child] > starts.get(child, places[child])
        for lane, until in parents:
            if until is not None and lane in places and lane not in listed:
                done = moved and places[lane] >= until and lane not in shut
                waiting[lane] = waiting.get(lane, False) or not done
    return [lane for lane, waits in waiting.items() if not waits]
