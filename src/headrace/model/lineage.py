"""Lanes that follow others: what a lane waits for before it is read.

Some logs split a lane in two, or make one of two, and from then on records of a key stand in
another lane than before. A reader that took up the new lane while the old one is not done would
have them out of order, and no place tells: places of two lanes do not compare. So a lane can have
*parents*, each with its end, and is *closed* until every one of them was committed up to there.

Whether a lane is closed is kept nowhere: it follows from where its parents are. So the very
transaction that commits the last of their ends opens it, and whatever sends a parent back (which
raises the epoch of all lanes of its stream) closes it again. What is read and not committed opens
nothing.

Which parents a lane has, only its log knows; how long they are remembered is the store's matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Parent(NamedTuple):
    """A lane that another one follows."""

    lane: str
    #: up to where it has to be committed before the other is read, which is its end. None: its log
    #: does not know it any more; and once that was decided about, it is not waited for
    until: int | None


class Ahead(NamedTuple):
    """A parent that is waited for, and how far it came."""

    lane: str
    at: int
    until: int

    @property
    def is_done(self) -> bool:
        """Whether it is committed to its end."""
        return self.at >= self.until

    def __str__(self) -> str:
        return f"{self.lane}, which is at {self.at} of {self.until}"


#: parents of lanes by their names; one that follows nothing is left out
Lineage = Mapping[str, tuple[Parent, ...]]

#: of a lane that nobody knows a place of
_NOWHERE = -1


def ahead(parents: Collection[Parent], places: Mapping[str, int]) -> tuple[Ahead, ...]:
    """The parents that are waited for, done or not; one that is nowhere yet is not done."""
    return tuple(
        Ahead(lane, places.get(lane, _NOWHERE), until)
        for lane, until in parents
        if until is not None
    )


def closed_by(parents: Collection[Parent], places: Mapping[str, int]) -> list[Ahead]:
    """What a lane waits for; nothing: it is open."""
    return [parent for parent in ahead(parents, places) if not parent.is_done]


def without(parents: Collection[Parent], gone: Collection[str]) -> tuple[Parent, ...]:
    """Parents of a lane when nobody waits any more for those that are gone."""
    return tuple(Parent(lane, None if lane in gone else until) for lane, until in parents)


def begun(
    parents: Collection[Parent], listed: Collection[str], known: Collection[str]
) -> tuple[Parent, ...] | None:
    """Parents of a lane that gets its first place; None if it has to wait for that.

    Args:
        parents: as its log tells them.
        listed: lanes that the log has.
        known: lanes of the stream that have a place, or get one together with it.
    """
    found = []
    for lane, until in parents:
        if lane in known:
            if until is None:
                return None  # how far it has to come nobody knows, and nobody has decided
            found.append(Parent(lane, until))
        elif lane in listed:
            return None  # it gets its own place first
        else:
            found.append(Parent(lane, None))  # before the stream began, or decided about
    return tuple(found)


def bounded(lineage: Lineage, ends: Mapping[str, int]) -> dict[str, tuple[Parent, ...]]:
    """The lineage within a part of a log, in which lanes end sooner, or are not at all."""
    return {
        name: tuple(
            Parent(lane, until and min(until, ends[lane])) for lane, until in parents if lane in ends
        )
        for name, parents in lineage.items()
        if name in ends
    }
