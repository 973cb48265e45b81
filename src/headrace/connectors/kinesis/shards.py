"""The shards of a stream, as the service lists them: their names here, and what they follow.

A split closes one shard and opens two, a merge closes two and opens one, and from then on records
of a key stand in another shard than before. So the new ones are listed with what they follow, up to
its end. The service forgets a shard when retention took all of it; that it was another's parent
stays known for as long as the other is listed.

Every key has to have exactly one shard that takes its records. Where a list has none, or two, for
some, it was not whole, or something is wrong that nobody here can mend: it is told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.connectors.kinesis.spots import END
from headrace.model.lane_names import named, taken_apart
from headrace.model.lineage import Lineage, Parent

_ID = re.compile(r"shardId-(\d{12})")
#: hash keys have 128 bits
LAST_HASH_KEY = 2**128 - 1


class HashRange(NamedTuple):
    """The hash keys of a shard, the last one included."""

    first: int
    last: int

    def __contains__(self, hash_key: object) -> bool:
        """Whether records of this hash key are the shard's."""
        return isinstance(hash_key, int) and self.first <= hash_key <= self.last


class Shard(NamedTuple):
    """A shard, as it is listed."""

    number: int
    #: numbers of those that it follows
    parents: tuple[int, ...]
    keys: HashRange
    #: lower than the number of each of its records
    starting: int
    #: it takes no more records
    closed: bool


class Listed(NamedTuple):
    """The shards of a stream, as they were listed together."""

    #: the service's own name of the stream
    arn: str
    #: when it was made, in milliseconds since 1970
    made_ms: int
    #: by number
    shards: Mapping[int, Shard]
    #: numbers of those that follow a shard
    children: Mapping[int, tuple[int, ...]]


class ShardOf(NamedTuple):
    """A shard, by its stream's name and its number."""

    stream: str
    number: int

    @property
    def shard_id(self) -> str:
        """What the service calls it."""
        return f"shardId-{self.number:012}"


def shard_of(lane: str) -> ShardOf | None:
    """The shard of a lane; None for a name that is no shard's."""
    found = taken_apart(lane)
    return None if found is None else ShardOf(*found)


def read_shard(told: Mapping[str, Any]) -> Shard:
    """A shard, of an answer to ``ListShards``.

    Raises:
        ValueError: it is not called as shards of the service are.
    """
    keys, numbers = told["HashKeyRange"], told["SequenceNumberRange"]
    parents = (told.get("ParentShardId"), told.get("AdjacentParentShardId"))
    return Shard(
        number_of(told["ShardId"]),
        tuple(sorted(number_of(parent) for parent in parents if parent)),
        HashRange(int(keys["StartingHashKey"]), int(keys["EndingHashKey"])),
        int(numbers["StartingSequenceNumber"]),
        "EndingSequenceNumber" in numbers,
    )


def lineage_of(stream: str, shards: Iterable[Shard]) -> Lineage:
    """What shards follow, by the names of their lanes."""
    return {
        named(stream, shard.number): tuple(
            Parent(named(stream, parent), END) for parent in shard.parents
        )
        for shard in shards
        if shard.parents
    }


def is_same(known: Mapping[int, Shard], shards: Iterable[Shard]) -> bool:
    """Whether shards are surely of the stream that is known by others, and of none of its name.

    What the numbers of a shard's records start with says when it was made.
    """
    both = [shard for shard in shards if shard.number in known]
    return bool(both) and all(shard.starting == known[shard.number].starting for shard in both)


def misplaced_keys(shards: Collection[Shard]) -> str:
    """Which hash keys have no open shard, or several; empty where each has one."""
    expected = 0
    for shard in sorted((one for one in shards if not one.closed), key=lambda one: one.keys):
        if shard.keys.first > expected:
            return f"no open shard has the hash keys {expected} to {shard.keys.first - 1}"
        if shard.keys.first < expected:
            return f"shard {shard.number} and another have the hash keys from {shard.keys.first} on"
        expected = shard.keys.last + 1
    if expected <= LAST_HASH_KEY:
        return f"no open shard has the hash keys {expected} to {LAST_HASH_KEY}"
    return ""


def number_of(shard_id: str) -> int:
    """The number of a shard, by what the service calls it.

    Raises:
        ValueError: it is called otherwise.
    """
    found = _ID.fullmatch(shard_id)
    if found is None:
        raise ValueError(f"a shard is called {shard_id!r}, and not shardId- with twelve digits")
    return int(found[1])


def by_stream(lanes: Iterable[str]) -> dict[str, dict[str, ShardOf]]:
    """Lanes by their streams, each with its shard; names of no shard are left out."""
    found: dict[str, dict[str, ShardOf]] = {}
    for lane in lanes:
        shard = shard_of(lane)
        if shard is not None:
            found.setdefault(shard.stream, {})[lane] = shard
    return found


def listed_together(arn: str, made_ms: int, shards: Collection[Shard]) -> Listed:
    """What a whole list of shards says, of a stream of this name that was made then."""
    children: dict[int, tuple[int, ...]] = {}
    for shard in in_order(shards):
        for parent in shard.parents:
            children[parent] = (*children.get(parent, ()), shard.number)
    return Listed(arn, made_ms, {shard.number: shard for shard in shards}, children)


def in_order(shards: Iterable[Shard]) -> Sequence[Shard]:
    """Shards by number: parents come before what follows them."""
    return sorted(shards, key=lambda shard: shard.number)
