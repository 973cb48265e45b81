"""Rows of the tables that the Kinesis Client Library keeps in DynamoDB: what is in each column.

The library has a row, a *lease*, for each shard: its ``checkpoint`` is the sequence number of the
last record that was handled, ``checkpointSubSequenceNumber`` says which part of that record it was,
and ``SHARD_END`` that all of the shard is done. Several streams may share a table; then the names
of rows have the stream in front, as in ``account:stream:created:shardId-000000000000``.

A place says more than a checkpoint (`spots.py`), and less of one thing: how many parts the last
record had. So one that is done counts as if it had one part, and where nothing but the next record
is known, the number before it stands for all that came before. Nobody who goes on from there leaves
anything out.

Names and types are those of versions 2 and 3, and of 1 as far as it has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.connectors.kinesis.shards import Listed, Shard, ShardOf, number_of
from headrace.connectors.kinesis.spots import END, before, has_room, spot_of
from headrace.errors import ConfigError
from headrace.model.places import UNKNOWN, Place

#: all of a shard is done
DONE: Final = "SHARD_END"
#: nothing of it is, and it is read from its start, or from a moment that stands elsewhere
FROM_START: Final = "TRIM_HORIZON"
FROM_A_TIME: Final = "AT_TIMESTAMP"
#: of each row; the first is the key of the table
KEY, OWNER = "leaseKey", "leaseOwner"
_CHECKPOINT, _PART = "checkpoint", "checkpointSubSequenceNumber"
#: goes up whenever somebody writes the row
COUNTER: Final = "leaseCounter"
#: an attribute as DynamoDB is told: its type, and its value
Attribute = Mapping[str, Any]


class Lease(NamedTuple):
    """How far a row says that its shard is done."""

    checkpoint: str
    #: of the record of the checkpoint: which of its parts was handled last
    part: int


def leases_of(items: Iterable[Mapping[str, Any]], stream: Listed) -> dict[int, Lease]:
    """The leases of a stream by the numbers of its shards.

    Args:
        items: rows of a table, with plain values.
        stream: as it is listed now.

    Raises:
        ConfigError: it is no table of the library, or has none of this stream, or those of another
            that has its name: of another account, or deleted and made again since.
    """
    found, streams = dict[int, Lease](), set[str]()
    ours = _identifier(stream)
    name = ours.split(":")[1]
    for item in items:
        if item.get("entityType", "LEASE") != "LEASE":
            continue
        try:
            of, _, shard = item[KEY].rpartition(":")
            # As in account:stream:created:shardId-000000000000.
            if of and of.split(":")[1:2] != [name]:
                continue
            found[number_of(shard)] = lease_of(item)
            streams.add(of)
        except (KeyError, AttributeError, ValueError) as error:
            raise ConfigError(
                "the table is none of the Kinesis Client Library: a row of it is no lease"
            ) from error
    if not found:
        raise ConfigError(f"the table has no lease of a shard of stream {name}")
    if len(streams) > 1:
        told = ", ".join(of or "one that is not named" for of in sorted(streams))
        raise ConfigError(
            f"the table has leases of several streams {name}: {told}; take those away that are "
            f"not of the one that is read now, {ours} (account:stream:second at which it was made)"
        )
    if theirs := streams - {ours, ""}:
        raise ConfigError(
            f"the table has leases of {theirs.pop()}, and the stream that is read now is {ours} "
            "(account:stream:second at which it was made), of which nothing was checkpointed; "
            "seek to TRIM_HORIZON to read what there is"
        )
    return found


def lease_of(item: Mapping[str, Any]) -> Lease:
    """What a row with plain values says.

    Raises:
        KeyError, ValueError: it is no lease.
    """
    return Lease(str(item[_CHECKPOINT]), int(item.get(_PART) or 0))


def lease_at(place: Place, shard: Shard) -> Lease:
    """What a row says of a shard that stands at a place."""
    if place == END:
        return Lease(DONE, 0)
    spot = spot_of(place)
    number = spot.number - (spot.part == 0)
    if number <= shard.starting:
        return Lease(FROM_A_TIME if spot.is_since else FROM_START, 0)
    return Lease(str(number), max(0, (spot.part or 0) - 1))


def place_of(lease: Lease) -> Place:
    """The place that a row says; `UNKNOWN` where it is none that anybody knows without reading."""
    if lease.checkpoint == DONE:
        return END
    if not lease.checkpoint.isdecimal() or not has_room(int(lease.checkpoint)):
        return UNKNOWN
    return before(int(lease.checkpoint), lease.part + 1)


def key_of(stream: Listed, number: int) -> str:
    """What the row of a shard is called in a table that several streams share."""
    return f"{_identifier(stream)}:{ShardOf('', number).shard_id}"


def columns_of(stream: Listed, number: int, lease: Lease) -> dict[str, Attribute]:
    """All that a row says of a shard, but for its key, its owner and its counter."""
    shard = stream.shards[number]
    found: dict[str, Attribute] = {
        "streamName": {"S": _identifier(stream)},
        "shardId": {"S": ShardOf("", number).shard_id},
        _CHECKPOINT: {"S": lease.checkpoint},
        _PART: {"N": str(lease.part)},
        "ownerSwitchesSinceCheckpoint": {"N": "0"},
        "startingHashKey": {"S": str(shard.keys.first)},
        "endingHashKey": {"S": str(shard.keys.last)},
    }
    relatives = {"parentShardId": shard.parents, "childShardIds": stream.children.get(number, ())}
    for name, numbers in relatives.items():
        if numbers:
            found[name] = {"SS": [ShardOf("", one).shard_id for one in numbers]}
    return found


def _identifier(stream: Listed) -> str:
    """A stream as the library tells it from all others: its account, name, and second."""
    account, _, name = stream.arn.split(":", 4)[-1].partition(":stream/")
    return f"{account}:{name}:{stream.made_ms // 1000}"
