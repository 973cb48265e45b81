"""Where an application of the Kinesis Client Library stands, as places.

It keeps a row for each shard (`lease_rows.py`). That of a child is made when its parents are done,
and theirs are taken away some time after. So a shard without a row is done if one that follows it
has one, and else nobody began it.

Rows need not say which stream they are of. But numbers of shards count up, and one that takes
records is nobody's to have ended: so what contradicts the stream as it is was written of another
one that had its name, and is not gone by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headrace.connectors.kinesis.lease_rows import DONE, FROM_START, Lease, place_of
from headrace.connectors.kinesis.shards import shard_of
from headrace.connectors.kinesis.spots import END
from headrace.errors import ConfigError
from headrace.model.lineage import Lineage
from headrace.model.places import UNKNOWN, Place

_NONE = Lease("", 0)


def places_of(
    leases: Mapping[int, Lease],
    starts: Mapping[str, Place],
    lineage: Lineage,
    open_: Collection[int],
) -> dict[str, Place]:
    """Where lanes go on that an application has read, so that nothing is left out or comes twice.

    Args:
        leases: where it stands.
        starts: all lanes of the stream, and where the first record is that is left of each.
        lineage: what they follow.
        open_: numbers of those that take records.

    Raises:
        ConfigError: a checkpoint says nothing, or records behind one may be gone, or these are
            leases of another stream.
    """
    numbers = {lane: shard.number for lane in starts if (shard := shard_of(lane)) is not None}
    _check_its(leases, numbers.values(), open_)
    done = _followed([lane for lane, number in numbers.items() if number in leases], lineage)
    found = {}
    for lane, number in numbers.items():
        lease = leases.get(number)
        if lease is not None:
            found[lane] = _place(lane, lease, starts[lane])
        else:
            found[lane] = END if lane in done else starts[lane]
    gone = leases.keys() - numbers.values()
    lost = sorted(number for number in gone if leases[number].checkpoint != DONE)
    if lost:
        raise ConfigError(
            f"shards {lost} were not read to their ends, and are not there any more: retention "
            "took what was left of them; seek to TRIM_HORIZON to read what there is"
        )
    return found


def _check_its(leases: Mapping[int, Lease], there: Collection[int], open_: Collection[int]) -> None:
    ended = sorted(number for number in open_ if leases.get(number, _NONE).checkpoint == DONE)
    unknown = sorted(number for number in leases if number > max(there, default=-1))
    if ended or unknown:
        why = (
            f"shards {ended} are at {DONE} there, and take records"
            if ended
            else f"it has shards {unknown}, which the stream has not"
        )
        raise ConfigError(
            f"the table is not of the stream that is read now: {why}. If the stream was deleted "
            "and made again, seek to TRIM_HORIZON to read what there is; if it was split or "
            "merged just now, try again"
        )


def _place(lane: str, lease: Lease, start: Place) -> Place:
    if lease.checkpoint == FROM_START:
        return start
    place = place_of(lease)
    if place == UNKNOWN:
        raise ConfigError(
            f"of {lane} nothing was checkpointed ({lease.checkpoint}), so nobody knows where it "
            "began; seek to LATEST or to a time"
        )
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
