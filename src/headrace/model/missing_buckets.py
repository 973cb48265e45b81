"""Positions that are not whole: a lane of a log is divided, and some of its buckets have none.

A lane gets all of its buckets in one transaction (`buckets.py`), and none of them begins again
while others are there: where it was, nobody knows. So if a row is gone, as in a store that was
restored in parts or changed by hand, what is in that bucket would be read by nobody, and no lag
would tell. Nothing of such a stream is read before a person has said where the bucket goes on.

Buckets also go by right, one after the other: when another division, or lanes that the log made of
theirs, came after them. Then what follows says that it waits for them no more. And of a lane that
its log does not list any more nothing is said here: that one ended. Nor of one that is in two
divisions at once (`second_division.py`): that is mended as a whole. A partition of which no bucket
has a place is new to its stream and begins; a rerun begins none, so there all of them are missing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from headrace.model.buckets import by_whole_lane, divided, division_of, unreplaced, whole_lane
from headrace.model.lane_names import in_order, said, spoken
from headrace.model.lineage import Lineage, ends_in
from headrace.model.places import Place
from headrace.model.second_division import divided_twice
from headrace.model.some_names import some_of

#: of the buckets that are missing in a lane, so many are named
_SHOWN = 4


def missing_buckets(
    names: Collection[str],
    lineage: Lineage,
    listed: Collection[str],
    until: Collection[str] | None = None,
) -> list[str]:
    """Lanes that have to be there beside those that are, and are not; in their order.

    Args:
        names: lanes that have a place.
        lineage: what these follow.
        listed: lanes of the log, as it names them.
        until: lanes that a rerun has to read; None: it is none.

    >>> missing_buckets(["t[0]#0/2"], {}, ["t[0]"])
    ['t[0]#1/2']
    """
    due = {*_followed(lineage), *(until or ())}
    for lane, parts in by_whole_lane(names).items():
        for buckets, by_place in set(map(division_of, parts)):
            due.update(divided(lane, buckets, by_place=by_place))
    over = {lane for parents in lineage.values() for lane, end in parents if end is None}
    known = set(listed).difference(map(whole_lane, divided_twice(names, lineage)))
    missing = {name for name in due - over - set(names) if whole_lane(name) in known}
    return in_order(missing if until is None else missing & set(until))


def told(
    stream: object, topic: str, missing: Collection[str], lineage: Lineage, at: Mapping[str, Place]
) -> str | None:
    """What people are told of these, and what to do about it; None: there are none.

    Args:
        stream: whose they are.
        topic: that it reads.
        missing: as `missing_buckets` finds them.
        lineage: what lanes of the stream follow.
        at: where its lanes are committed.
    """
    if not missing:
        return None
    (lane, parts), *rest = by_whole_lane(in_order(missing)).items()
    shown = some_of([said(name, topic) for name in parts], _SHOWN)
    also = f" (and {len(rest)} more)" if rest else ""
    others = [place for name, place in at.items() if whole_lane(name) == lane]
    some = "some" if others else "any"
    least = f"; of the others the least is at {min(others)}" if others else ""
    return (
        f"{spoken(lane, topic)}{also} is without {some} of its buckets in the store, as after a "
        f"restore or a change by hand: {shown}. Nobody would read their records, and how far "
        f"they were read nobody knows{least}. {_mends(stream, topic, parts, lineage, at)}"
    )


def _followed(lineage: Lineage) -> Iterable[str]:
    """Lanes up to whose ends those of another division wait."""
    for name, parents in lineage.items():
        for lane, end in parents:
            if end is not None and whole_lane(lane) == whole_lane(name):
                yield lane


def _mends(
    stream: object,
    topic: str,
    parts: Collection[str],
    lineage: Lineage,
    at: Mapping[str, Place],
) -> str:
    """Where others are not done that end, nobody reads them to there, and no part can be sought."""
    seek = f"headrace streams seek {stream} --to"
    if ends_in(lineage).keys() & set(parts) or unreplaced(lineage, at):
        return f"'{seek}' a place mends it, of the whole topic"
    to = json.dumps({topic: {said(name, topic): -2 for name in parts}})
    return (
        f"{seek} '{to}' reads these alone again, from where their log begins; a place instead of "
        "-2 passes over what is before it"
    )
