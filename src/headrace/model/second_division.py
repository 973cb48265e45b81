"""Positions that can not be: a lane of a log is read in two divisions at once.

Lanes of another division follow those before them (`buckets.py`), and no driver begins any that do
not. But a store can be restored in parts, or changed by hand, and then records of one key would be
read in both, twice or out of their order. Nobody knows which of the two is right, so nothing of
such a stream is read before a person has said where it goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

from headrace.model.buckets import Division, by_whole_lane, division_of
from headrace.model.lane_names import in_order, spoken
from headrace.model.lineage import Lineage, ahead
from headrace.model.places import Place


def divided_twice(names: Iterable[str], lineage: Lineage) -> set[str]:
    """Lanes of all lanes of a log that are in two divisions of which neither follows the other."""
    found = set[str]()
    for parts in by_whole_lane(names).values():
        divisions: dict[Division, set[str]] = {}
        for name in parts:
            divisions.setdefault(division_of(name), set()).add(name)
        if len(divisions) > 1 and not _follow_each_other(divisions.values(), lineage):
            found.update(parts)
    return found


def told(stream: object, twice: Collection[str], places: Mapping[str, Place]) -> str | None:
    """What people are told of these, and what to do about it; None: there are none."""
    if not twice:
        return None
    lane, parts = next(iter(by_whole_lane(in_order(twice)).items()))
    least = min(places[name] for name in parts)
    return (
        f"{spoken(lane)} has places in the store in two divisions at once, as after a restore or "
        "a change by hand, and would be read twice or out of order. 'headrace streams seek "
        f"{stream} --to' a place mends it, of the whole topic; all before {least} here is done"
    )


def _follow_each_other(divisions: Collection[set[str]], lineage: Lineage) -> bool:
    names = (name for names in divisions for name in names)
    before = {name: {lane.lane for lane in ahead(name, lineage, {})} for name in names}

    def follows(late: set[str], early: set[str]) -> bool:
        return all(early <= before[name] for name in late)

    return all(follows(one, of) or follows(of, one) for one, of in combinations(divisions, 2))
