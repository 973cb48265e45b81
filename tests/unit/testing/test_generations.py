"""To which way of a lane a slice belongs, whatever its driver knew when it planned it."""

from __future__ import annotations

from headrace.model.streams import LaneId, Slice
from headrace.testing.simulation.generations import Generations

LANE = LaneId("count", "acme", "acme.visits[0]")


def sent() -> Generations:
    """A lane that began at 0 under epoch 3, and was sent to 40 under epoch 5."""
    made = Generations()
    made.begins(LANE, 0, log=1, epoch=3)
    made.begins(LANE, 40, log=1, epoch=5)
    return made


def test_a_slice_of_an_epoch_that_is_over_may_begin_where_its_lane_is_now() -> None:
    """Its driver read the epoch before the decision, and the position after it."""
    made = sent()
    late = Slice(LANE, "acme.visits", 40, 44, epoch=3)
    assert made.of_slice(late) == 1
    assert made.is_late(late)
    assert made.found == []


def test_a_slice_from_where_its_lane_was_belongs_to_what_was_there() -> None:
    made = sent()
    assert made.of_slice(Slice(LANE, "acme.visits", 0, 4, epoch=3)) == 0
    assert made.of_slice(Slice(LANE, "acme.visits", 40, 44, epoch=5)) == 1
    assert made.found == []


def test_a_slice_from_where_its_lane_never_was_is_found() -> None:
    made = sent()
    made.of_slice(Slice(LANE, "acme.visits", 7, 9, epoch=3))
    made.of_slice(Slice(LANE, "acme.visits", 0, 4, epoch=5))
    assert len(made.found) == 1
