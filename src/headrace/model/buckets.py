"""Buckets: a lane divided by its records' keys or places, each part a lane of its own.

With order ``key`` what has to keep its order are the records of one key, and a lane of the log is
divided into some fixed *buckets* by a hash of the key. To nearly everybody a bucket is a lane like
any other, with a name, a place and one slice at a time; its places are those of the lane it is of.
The name says which lane that is, which bucket, and of how many: ``acme.visits[3]#5/16``. So lanes
of two divisions never have one name, and a reader needs nothing but the name.

With order ``none`` a lane may be divided by the places of its records instead: nothing has to keep
its order, so records of one key may be in all buckets. These are called ``acme.visits[3]#p5/16``.

How records come into buckets is `spark/bucket_reading.py`'s matter, and when a lane gets another
division `cycle/divisions.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from sys import intern
from typing import NamedTuple

from headrace.model.lineage import Lineage, Parent
from headrace.model.places import UNKNOWN, Place

#: a lane has no more buckets than this, and so many if nobody says
MOST_BUCKETS, BUCKETS = 64, 16
_FORM = re.compile(r"(.+)#(p?)(0|[1-9][0-9]?)/([1-9][0-9]?)", re.DOTALL)
#: names that are remembered as they were taken apart
_REMEMBERED = 1 << 16


class Division(NamedTuple):
    """How a lane is divided."""

    #: 1: it is whole
    buckets: int = 1
    by_place: bool = False


WHOLE = Division()


class Bucket(NamedTuple):
    """A bucket of a lane."""

    #: the name that the log gave the lane
    lane: str
    number: int
    #: how many buckets the lane has
    of: int
    #: whether a record's place says in which it is, and not its key
    by_place: bool = False

    @property
    def name(self) -> str:
        """Its name as a lane."""
        by = "p" if self.by_place else ""
        return intern(f"{self.lane}#{by}{self.number}/{self.of}")

    @property
    def division(self) -> Division:
        """How its lane is divided."""
        return Division(self.of, self.by_place)


@lru_cache(_REMEMBERED)
def bucket_of(name: str) -> Bucket | None:
    """What a name says of a bucket; None: it is that of a whole lane."""
    found = _FORM.fullmatch(name) if "#" in name else None
    if found is None:
        return None
    bucket = Bucket(intern(found[1]), int(found[3]), int(found[4]), bool(found[2]))
    return bucket if bucket.number < bucket.of and 2 <= bucket.of <= MOST_BUCKETS else None


def whole_lane(name: str) -> str:
    """The lane of its log that a lane is, or is a bucket of."""
    bucket = bucket_of(name)
    return name if bucket is None else bucket.lane


def parts_of(name: str) -> int:
    """Into how many buckets the lane is divided that a lane is of; 1: into none."""
    return division_of(name).buckets


def division_of(name: str) -> Division:
    """How the lane is divided that a lane is of."""
    bucket = bucket_of(name)
    return WHOLE if bucket is None else bucket.division


def divided(lane: str, buckets: int, *, by_place: bool = False) -> list[str]:
    """The lanes that a lane of a log is in so many buckets; itself where that is one."""
    if buckets == 1:
        return [lane]
    return [Bucket(lane, number, buckets, by_place).name for number in range(buckets)]


def share_of(counts: Mapping[str, int]) -> int:
    """About how many records lanes have of so many places each; at least one, if there are any.

    A bucket is taken to have its share of what its lane has; only in all is that near to the truth.

    >>> share_of({"t[0]#0/2": 1, "t[0]#1/2": 1}), share_of({"t[0]#0/2": 1}), share_of({"t[0]": 3})
    (1, 1, 3)
    """
    found: dict[int, int] = {}
    for name, count in counts.items():
        parts = parts_of(name)
        found[parts] = found.get(parts, 0) + count
    return ceil(sum(Fraction(count, parts) for parts, count in found.items()))


def most_of(ranges: Mapping[str, tuple[Place, int]]) -> int:
    """How many records lanes have at most in ranges of so many places, each from a place on.

    The same where it ends there. What buckets of a lane have from one place on is there once. And
    one bucket may have all of it, as where all records have one key.

    >>> most_of({"t[0]#0/2": ("3", 5), "t[0]#1/2": ("3", 4), "t[1]": ("3", 2)})
    7
    """
    most: dict[tuple[str, Place], int] = {}
    for name, (place, count) in ranges.items():
        at = (whole_lane(name), place)
        most[at] = max(count, most.get(at, 0))
    return sum(most.values())


def by_whole_lane(names: Iterable[str]) -> dict[str, list[str]]:
    """Lanes by the lane of their log, each in the order given."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(whole_lane(name), []).append(name)
    return found


def divided_otherwise(names: Iterable[str], there: Collection[str]) -> list[str]:
    """Lanes that cannot come to those that are there: theirs of the log is divided otherwise.

    One that is missing among others of its own division can: it is as it was before.
    """
    divisions: dict[str, set[Division]] = {}
    for name in there:
        divisions.setdefault(whole_lane(name), set()).add(division_of(name))
    new = (name for name in names if name not in there)
    return [name for name in new if divisions.get(whole_lane(name), set()) - {division_of(name)}]


def least_places(places: Mapping[str, Place]) -> dict[str, Place]:
    """How far the lanes of a log are done: as far as the least of what each is divided into."""
    found: dict[str, Place] = {}
    for name, place in places.items():
        lane = whole_lane(name)
        found[lane] = min(place, found.get(lane, place))
    return found


def replaced(lineage: Lineage) -> dict[str, Place]:
    """Lanes that lanes of another division follow, each with the place where it ends."""
    return {
        name: until
        for follower, parents in lineage.items()
        for name, until in parents
        if until is not None and whole_lane(name) == whole_lane(follower)
    }


def unreplaced(lineage: Lineage, places: Mapping[str, Place]) -> dict[str, Place]:
    """Of lanes that those of another division follow all that are not done, each with its end."""
    ends = replaced(lineage)
    return {name: end for name, end in ends.items() if places.get(name, UNKNOWN) < end}


def follows_others(lineage: Lineage) -> bool:
    """Whether a lane follows another one of its log, and not only what its own is divided into."""
    return any(
        whole_lane(lane) != whole_lane(name)
        for name, parents in lineage.items()
        for lane, _ in parents
    )


def ended_sooner(lineage: Lineage, cut: Mapping[str, Place]) -> dict[str, tuple[Parent, ...]]:
    """The lineage when lanes that begin where those of another division end go on before that.

    Their log was cut, and what comes from there on is theirs alone. Empty: none of them does.

    Args:
        lineage: of all lanes of a stream.
        cut: where lanes of it go on.
    """
    ends = {whole_lane(name): at for name, at in cut.items() if name in lineage}
    sooner = {name: ends.get(whole_lane(name)) for name in replaced(lineage)}
    if all(end is None for end in sooner.values()):
        return {}
    return {
        name: tuple(
            parent if (end := sooner.get(parent.lane)) is None else _sooner(parent, end)
            for parent in parents
        )
        for name, parents in lineage.items()
    }


def _sooner(parent: Parent, end: Place) -> Parent:
    return parent if parent.until is None else Parent(parent.lane, min(parent.until, end))


def of_parts(lineage: Lineage, parts: Mapping[str, Sequence[str]]) -> dict[str, tuple[Parent, ...]]:
    """What the parts of lanes follow: all parts of each lane that theirs does.

    Args:
        lineage: of lanes of a log, as it says.
        parts: what these are divided into; one that is not named is whole.
    """
    return {
        name: tuple(
            Parent(part, until) for lane, until in parents for part in parts.get(lane, (lane,))
        )
        for whole, parents in lineage.items()
        for name in parts.get(whole, (whole,))
    }


class Heirs(NamedTuple):
    """Lanes that begin where others end."""

    #: first places
    places: dict[str, Place]
    #: what they follow
    parents: dict[str, tuple[Parent, ...]]


def heirs_of(
    lane: str, now: Iterable[str], buckets: int, at: Place, *, by_place: bool = False
) -> Heirs:
    """What it takes to divide a lane of a log otherwise from a place on.

    Between two kinds of buckets stands the whole lane, in which nothing is: what is new follows
    it alone, and not each of all that there was.

    Args:
        lane: of the log.
        now: what it is divided into.
        buckets: how many it is to have; 1: none.
        at: where they begin, and the others end.
        by_place: whether it is to be by places, and not by keys.
    """
    ends = tuple(Parent(name, at) for name in now)
    places, parents = dict[str, Place](), dict[str, tuple[Parent, ...]]()
    if len(ends) > 1 and buckets > 1:
        places[lane], parents[lane], ends = at, ends, (Parent(lane, at),)
    for name in divided(lane, buckets, by_place=by_place):
        places[name], parents[name] = at, ends
    return Heirs(places, parents)
