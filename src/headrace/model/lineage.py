"""Lanes that follow others: what a lane waits for before it is read.

Some logs split a lane in two, or make one of two, and from then on records of a key stand in
another lane than before. A reader that took up the new lane while the old one is not done would
have them out of order, and no place tells: places of two lanes do not compare. So a lane can have
*parents*, each with its end, and is *closed* until every one of them was committed up to there, and
every one of theirs. A parent alone would not do: one in which there never was a record is at its
end from the beginning.

Whether a lane is closed is kept nowhere: it follows from where its parents are. So the very
transaction that commits the last of their ends opens it, and whatever sends a parent back (which
raises the epoch of all lanes of its stream) closes it again. What is read and not committed opens
nothing.

Which parents a lane has, only its log knows; how long they are remembered is the store's matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from headrace.model.places import UNKNOWN, Place
from headrace.model.some_names import some_of


class Parent(NamedTuple):
    """A lane that another one follows."""

    lane: str
    #: up to where it has to be committed before the other is read, which is its end. None: its log
    #: does not know it any more; and once that was decided about, it is not waited for
    until: Place | None


class Ahead(NamedTuple):
    """A lane that another one follows, directly or not, and how far it came."""

    lane: str
    at: Place
    until: Place

    @property
    def is_done(self) -> bool:
        """Whether it is committed to its end."""
        return self.at >= self.until

    def __str__(self) -> str:
        return f"{self.lane} (at {self.at} of {self.until})"


#: parents of lanes by their names; one that follows nothing is left out
Lineage = Mapping[str, tuple[Parent, ...]]

#: of what a lane waits for, so many are named
_SHOWN = 3


def ahead(name: str, lineage: Lineage, places: Mapping[str, Place]) -> tuple[Ahead, ...]:
    """All that has to be done before a lane, done or not; what is nowhere yet is not done."""
    found: dict[str, Ahead] = {}
    left = [*lineage.get(name, ())]
    while left:
        lane, until = left.pop()
        if until is None or (lane in found and found[lane].until >= until):
            continue
        found[lane] = Ahead(lane, places.get(lane, UNKNOWN), until)
        left += lineage.get(lane, ())
    return tuple(found.values())


def followers(lanes: Collection[str], lineage: Lineage) -> set[str]:
    """All that follow one of these lanes, directly or not, done or not."""
    found, new = set[str](), set(lanes)
    while new:
        made = {name for name, of in lineage.items() if any(lane in new for lane, _ in of)}
        new = made - found
        found |= new
    return found


def closed(lineage: Lineage, places: Mapping[str, Place]) -> dict[str, list[Ahead]]:
    """Lanes that are closed, each with what it waits for."""
    every = chain.from_iterable(lineage.values())
    if all(until is None or places.get(lane, UNKNOWN) >= until for lane, until in every):
        return {}  # mostly so, and for a thousand generations much sooner found than lane by lane
    waits = {
        name: [lane for lane in ahead(name, lineage, places) if not lane.is_done]
        for name in lineage
    }
    return {name: lanes for name, lanes in waits.items() if lanes}


def waits_told(waits: Mapping[str, Sequence[Ahead]]) -> str:
    """What closed lanes wait for, in a line for people; empty if there are none."""
    if not waits:
        return ""
    name, lanes = next(iter(waits.items()))
    others = f" ({len(waits) - 1} more wait)" if len(waits) > 1 else ""
    return f"{name} waits for its parents: {some_of(lanes, _SHOWN)}{others}"


def without(parents: Collection[Parent], gone: Collection[str]) -> tuple[Parent, ...]:
    """Parents of a lane when nobody waits any more for those that are gone."""
    return tuple(Parent(lane, None if lane in gone else until) for lane, until in parents)


def ends_in(*lineages: Lineage) -> dict[str, Place]:
    """Ends of parents, as far as any of their children has them."""
    return {
        lane: until
        for lineage in lineages
        for parents in lineage.values()
        for lane, until in parents
        if until is not None
    }


def begun(
    parents: Collection[Parent],
    listed: Collection[str],
    known: Collection[str],
    ends: Mapping[str, Place],
) -> tuple[Parent, ...] | None:
    """Parents of a lane that gets its first place; None if it has to wait for that.

    Args:
        parents: as its log tells them.
        listed: lanes that the log has.
        known: lanes of the stream that have a place, or get one together with it.
        ends: of parents whose log does not know them any more, and a sibling does.
    """
    found = []
    for lane, told in parents:
        until = ends.get(lane) if told is None else told
        if lane in known:
            if until is None:
                return None  # how far it has to come nobody knows, and nobody has decided
            found.append(Parent(lane, until))
        elif lane in listed:
            return None  # it gets its own place first
        else:
            found.append(Parent(lane, None))  # before the stream began, or decided about
    return tuple(found)


def is_undecided(parents: Collection[Parent], known: Collection[str]) -> bool:
    """Whether a parent that has a place has no end: nobody knows whether it is done."""
    return any(until is None and lane in known for lane, until in parents)


def bounded(lineage: Lineage, ends: Mapping[str, Place]) -> dict[str, tuple[Parent, ...]]:
    """The lineage within a part of a log, in which lanes end sooner, or are not at all.

    What follows a lane that is not in it follows what that one does.
    """
    found = {}
    for name in ends:
        parents, passed, left = dict[str, Parent](), set[str](), [*lineage.get(name, ())]
        while left:
            lane, until = left.pop()
            if lane in ends and until is not None:
                parents[lane] = Parent(lane, min(until, ends[lane]))
            elif lane not in parents and lane not in passed:
                passed.add(lane)
                left += lineage.get(lane, ())
        if parents:
            found[name] = tuple(parents[lane] for lane in sorted(parents))
    return found


def depths(
    names: Iterable[str],
    lineage: Lineage,
    known: Mapping[str, int],
    base: int,
    *,
    deeper: bool = True,
) -> dict[str, int]:
    """How deep lanes are: deeper than all that they follow.

    Args:
        names: of lanes; one that is known as well is as deep as it is.
        lineage: what they follow. Where nobody knows a parent, it may be as deep as any.
        known: depths of lanes that have one.
        base: that of lanes that follow nothing.
        deeper: else as deep as the deepest that they follow, where numbers of both compare.
    """
    found, wanted, deepest = dict(known), set(names), max([base, *known.values()])
    # Generations can be more than calls may be within each other.
    left, begun_with = [*wanted], set[str]()
    while left:
        name = left.pop()
        if name in found:
            continue
        parents = [lane for lane, _ in lineage.get(name, ())]
        first = [lane for lane in parents if lane in wanted and lane not in found]
        if first and name not in begun_with:
            begun_with.add(name)
            left += [name, *first]
        else:
            of = max((found.get(lane, deepest) for lane in parents), default=base)
            found[name] = of + 1 if parents and deeper else of
    return {name: found[name] for name in wanted}
