"""Where an application of the Kinesis Client Library stands, as places.

The library keeps a table in DynamoDB with a row, a *lease*, for each shard: its ``checkpoint`` is
the sequence number of the last record that was handled, ``checkpointSubSequenceNumber`` says which
part of that record it was, and ``SHARD_END`` that all of the shard is done. A row of a child is
made when its parents are done, and theirs are taken away some time after. So a shard without a row
is done if one that follows it has one, and else nobody began it.

Several streams may share a table; then the names of rows have the stream in front. Nothing is ever
written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.connectors.kinesis.shards import number_of, shard_of
from headrace.connectors.kinesis.spots import END, before, has_room
from headrace.errors import ConfigError
from headrace.model.lineage import Lineage
from headrace.model.places import Place

_DONE: Final = "SHARD_END"
_FROM_START: Final = "TRIM_HORIZON"
#: columns of each row
_KEY, _CHECKPOINT, _PART = "leaseKey", "checkpoint", "checkpointSubSequenceNumber"


class Lease(NamedTuple):
    """A row of the table."""

    checkpoint: str
    #: of the record of the checkpoint: which of its parts was handled last
    part: int


def leases_of(items: Iterable[Mapping[str, Any]], stream: str) -> dict[int, Lease]:
    """The leases of a stream by the numbers of its shards.

    Args:
        items: rows of a table, with plain values.
        stream: the stream's own name.

    Raises:
        ConfigError: it is no table of the library, or has none of this stream.
    """
    found = {}
    for item in items:
        if item.get("entityType", "LEASE") != "LEASE":
            continue
        try:
            of, _, shard = item[_KEY].rpartition(":")
            # As in account:stream:created:shardId-000000000000.
            if of and of.split(":")[1:2] != [stream]:
                continue
            found[number_of(shard)] = Lease(str(item[_CHECKPOINT]), int(item.get(_PART) or 0))
        except (KeyError, AttributeError, ValueError) as error:
            raise ConfigError(
                "the table is none of the Kinesis Client Library: a row of it is no lease"
            ) from error
    if not found:
        raise ConfigError(f"the table has no lease of a shard of stream {stream}")
    return found


def places_of(
    leases: Mapping[int, Lease], starts: Mapping[str, Place], lineage: Lineage
) -> dict[str, Place]:
    """Where lanes go on that an application has read, so that nothing is left out or comes twice.

    Args:
        leases: where it stands.
        starts: all lanes of the stream, and where the first record is that is left of each.
        lineage: what they follow.

    Raises:
        ConfigError: a checkpoint says nothing, or records behind one may be gone.
    """
    numbers = {lane: shard.number for lane in starts if (shard := shard_of(lane)) is not None}
    done = _followed([lane for lane, number in numbers.items() if number in leases], lineage)
    found = {}
    for lane, number in numbers.items():
        lease = leases.get(number)
        if lease is not None:
            found[lane] = _place(lane, lease, starts[lane])
        else:
            found[lane] = END if lane in done else starts[lane]
    gone = leases.keys() - numbers.values()
    lost = sorted(number for number in gone if leases[number].checkpoint != _DONE)
    if lost:
        raise ConfigError(
            f"shards {lost} were not read to their ends, and are not there any more: retention "
            "took what was left of them; seek to TRIM_HORIZON to read what there is"
        )
    return found


def _place(lane: str, lease: Lease, start: Place) -> Place:
    if lease.checkpoint == _DONE:
        return END
    if lease.checkpoint == _FROM_START:
        return start
    if not lease.checkpoint.isdecimal() or not has_room(int(lease.checkpoint)):
        raise ConfigError(
            f"of {lane} nothing was checkpointed ({lease.checkpoint}), so nobody knows where it "
            "began; seek to LATEST or to a time"
        )
    place = before(int(lease.checkpoint), lease.part + 1)
    if place < start:
        raise ConfigError(
            f"the first record that is left of {lane} is behind its checkpoint "
            f"{lease.checkpoint}: retention may have taken some between; seek to TRIM_HORIZON to "
            "read what there is"
        )
    return place


def _followed(lanes: Iterable[str], lineage: Lineage) -> set[str]:
    """All that these follow, directly or not."""
    found, left = set[str](), list(lanes)
    while left:
        parents = {parent.lane for parent in lineage.get(left.pop(), ())} - found
        found |= parents
        left += parents
    return found
