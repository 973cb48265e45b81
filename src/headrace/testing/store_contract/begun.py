"""What the suites of a store begin with: a use case, two tenants, and a failure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.lane_names import named, number_of
from headrace.model.places import Place, number_at, place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, FailureState, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.ports import Store

SCORE = Deployment("score", "cases/score.py", "ab12", "{tenant}.visits")
ACME = StreamId("score", "acme")
BOLT = StreamId("score", "bolt")


def lane(partition: int, stream: StreamId = ACME) -> LaneId:
    """A lane, of acme's stream unless said otherwise."""
    return LaneId(*stream, named(f"{stream.tenant}.visits", partition))


def by_lane(offsets: Mapping[int, int], stream: StreamId = ACME) -> dict[str, Place]:
    """Offsets of partitions by the names of their lanes."""
    return {lane(partition, stream).name: place_at(offset) for partition, offset in offsets.items()}


def offsets(store: Store, stream: StreamId = ACME) -> dict[int, int]:
    """Where each partition of a stream is."""
    return {
        number_of(position.lane.name): number_at(position.next_offset)
        for position in store.progress.load_positions([stream])
    }


def ordinals(store: Store, stream: StreamId = ACME) -> dict[int, int]:
    """How many records each partition of a stream counts as passed."""
    return {
        number_of(position.lane.name): position.ordinal
        for position in store.progress.load_positions([stream])
    }


def started(store: Store, *at: int) -> int:
    """A store with the streams of acme and bolt, held once; acme's lanes stand at ``at``."""
    store.registry.deploy(SCORE)
    store.registry.add_tenant(Tenant("acme"))
    store.registry.add_tenant(Tenant("bolt"))
    store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane(dict(enumerate(at))))])
    return store.membership.hold([ACME])[ACME]


#: of whatever happened last
LATEST = 1_000


def failed(
    partition: int = 0,
    at: int = 3,
    until: int = 9,
    *,
    stream: StreamId = ACME,
    names_record: bool = True,
    epoch: int = 1,
) -> Failure:
    """A failure at ``at``: its lane stopped there, or with a record named at most one before."""
    begins = max(0, at - 1) if names_record else at
    piece = Slice(
        lane(partition, stream),
        f"{stream.tenant}.visits",
        place_at(begins),
        place_at(until),
        epoch,
        records=until - begins,
    )
    offset, behind = (place_at(at), place_at(at + 1)) if names_record else (None, None)
    error = SliceError(False, "HandlerError", "no JSON", offset=offset)
    return Failure(piece, error, 1.0, behind=behind)


def still_open(store: Store, stream: StreamId | None = None) -> list[int | None]:
    """Ids of open failures, of all streams or of one."""
    return [failure.id for failure in store.failures.every(stream, only_open=True)]


def state_of(store: Store, number: int) -> FailureState:
    """What became of a failure."""
    return store.failures.one(number).state
