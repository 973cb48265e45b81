"""One tenant with four lanes, whose positions are moved."""

from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, StreamId, Tenant

ACME = StreamId("keep", "acme")
LANES = 4
#: how long a test waits for something before it fails
DEADLINE_S = 60


def prepare(store):
    store.registry.deploy(Deployment("keep", "m.py", "00", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    store.progress.start_lanes(
        [LaneStart(ACME, "id", {f"acme.visits[{p}]": 0 for p in range(LANES)})]
    )


def moves(epoch, start=0, end=10):
    return [Move(LaneId(*ACME, f"acme.visits[{lane}]"), start, end, epoch) for lane in range(LANES)]


def offsets(store):
    return {position.next_offset for position in store.progress.load_positions()}
