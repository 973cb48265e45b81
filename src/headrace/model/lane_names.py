"""What lanes are called, and in which order people and plans have them.

A lane's name is what its log calls it, and to nearly everybody it is a word like any other: it is
compared, kept and shown, and nothing more. Some logs number the lanes of a topic; theirs are called
``topic[number]``, so that lanes of two topics never have one name. Whoever has to know the number
(the column ``partition`` of a record has it) takes it from here, and so does the order: ``t[2]``
comes before ``t[10]``. Only the number as it is usually written counts, so that a lane has one name
and not two: ``t[03]`` is a name of another form.

A lane that is divided has buckets (``buckets.py``), whose names say so behind the lane's:
people are told of *partition 3, bucket 5 of 16*, and may say ``3#5/16``.

Whether there is such a lane, only its log knows.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from headrace.model.buckets import Division, bucket_of, division_of, whole_lane
from headrace.model.topic_names import connection_of

T = TypeVar("T")

_FORM = re.compile(r"(.+)\[(0|[1-9][0-9]{0,9})\]", re.DOTALL)
#: names that are remembered as they were taken apart: a hundred bytes each
_REMEMBERED = 1 << 16


class Numbered(NamedTuple):
    """A lane of a log that numbers them."""

    topic: str
    number: int


def named(topic: str, number: int) -> str:
    """The name of a topic's lane of this number."""
    return intern(f"{topic}[{number}]")


@lru_cache(_REMEMBERED)
def taken_apart(name: str) -> Numbered | None:
    """Topic and number; None for a name of another form."""
    found = _FORM.fullmatch(name)
    return Numbered(intern(found[1]), int(found[2])) if found else None


def number_of(name: str) -> int:
    """The number in a name, or in that of the lane it is a bucket of.

    Raises:
        ValueError: it is a name of another form.
    """
    found = taken_apart(whole_lane(name))
    if found is None:
        raise ValueError(f"lane {name!r} is not of the form topic[number]")
    return found.number


def in_order(names: Iterable[str]) -> list[str]:
    """Names by topic, and those of one topic by number; any two names have an order."""
    return sorted(names, key=place_of)


def place_of(name: str) -> tuple[str, int, str]:
    """What a name is put in order by."""
    bucket = bucket_of(name)
    if bucket is not None:
        topic, number, _ = place_of(bucket.lane)
        by = "p" if bucket.by_place else ""
        return topic, number, f"{bucket.lane}#{by}{bucket.of:02}#{bucket.number:02}"
    topic, number = taken_apart(name) or (name, -1)
    return topic, number, name


def label_of(name: str) -> str:
    """What tells lanes of one topic apart: the number, or a name of another form as it is."""
    lane = whole_lane(name)
    found = taken_apart(lane)
    return name if found is None else f"{found.number}{name.removeprefix(lane)}"


def spoken(name: str, read: str | None = None) -> str:
    """How people are told of a lane where its topic is plain: ``partition 3``.

    Where its stream reads something else than one topic, with that lane's: what it reads is
    ``read``.
    """
    bucket = bucket_of(name)
    if bucket is not None:
        by = " by place" if bucket.by_place else ""
        return f"{spoken(bucket.lane, read)}, bucket {bucket.number} of {bucket.of}{by}"
    found = taken_apart(name)
    if found is None:
        return f"lane {name}"
    of = "" if read in (None, found.topic) else f" of {found.topic}"
    kind = "partition " if connection_of(name) is None else "shard "
    return f"{kind}{found.number}{of}"


def alike(told: Mapping[str, T]) -> list[tuple[list[str], T]]:
    """Lanes with what is told of them: those together that are buckets of one lane, and alike."""
    found: dict[tuple[str, Division, T], list[str]] = {}
    for name, what in told.items():
        found.setdefault((whole_lane(name), division_of(name), what), []).append(name)
    return [(names, what) for (_, _, what), names in found.items()]


def together(names: Sequence[str], read: str | None = None, *, several: bool = False) -> str:
    """How people are told of one lane, or of buckets of one lane, as `alike` has them.

    Args:
        names: the lane, or the buckets.
        read: what their stream reads, if that may be more than one topic.
        several: whether numbers alone do not tell the lanes of its stream apart.
    """
    buckets = [bucket for name in names if (bucket := bucket_of(name)) is not None]
    if len(names) == 1 or not buckets:
        return names[0] if several else spoken(names[0], read)
    lane, _, of, by_place = buckets[0]
    which = f"buckets {', '.join(str(bucket.number) for bucket in buckets)} of {of}"
    which = f"all {of} buckets" if len(buckets) == of else which
    return f"{lane if several else spoken(lane, read)}, {which}{' by place' if by_place else ''}"


def are_of_several(names: Iterable[str]) -> bool:
    """Whether numbers alone do not tell these lanes apart."""
    found = map(taken_apart, map(whole_lane, names))
    return len({of.topic for of in found if of is not None}) > 1


def said(name: str, topic: str) -> str:
    """What a person has to say for a lane of a stream that reads a topic; see `meant`."""
    found = taken_apart(whole_lane(name))
    return label_of(name) if found is not None and found.topic == topic else name


def written_name(name: str, topic: str) -> str:
    """What tells lanes of a stream apart in what is written elsewhere, and never changes.

    A number alone is one of the stream's topic, and else stands nowhere: identities of effects were
    made of it when a stream had one topic, and what was written so must be known again. Others have
    their names, without the characters that separate the parts of an identity.
    """
    found = taken_apart(name)
    if found is not None and found.topic == topic:
        return str(found.number)
    kept = quote(name, safe="[]")
    return f"%{ord(kept[0]):02X}{kept[1:]}" if kept.isdigit() else kept


def meant(text: str, topic: str, lanes: Container[str]) -> str:
    """The name of the lane that a person means.

    A number alone is one of the topic, if none of the stream's lanes is called so.
    """
    bucket = bucket_of(f"{text}")
    name = f"{topic}[{text if bucket is None else bucket.lane}]"
    if text in lanes or taken_apart(name) is None:
        return text
    return name if bucket is None else bucket._replace(lane=name).name
