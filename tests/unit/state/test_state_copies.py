"""What a worker knows of the state of lanes, and when it trusts that."""

from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.streams import LaneId
from headrace.state.copies import LANE_COSTS, OLD_S, KnownState, StateCopies
from headrace.testing.clock import FakeClock

LANE = LaneId("score", "acme", "acme.visits[0]")
ADA, BO = StateKey("seen", b"ada"), StateKey("seen", b"bo")


def known(now_s=0.0, **rows):
    made = KnownState()
    kept = {StateKey("seen", key.encode()): row for key, row in rows.items()}
    made.told(kept, StateSize(len(rows), 9), now_s)
    return made


def test_a_copy_is_trusted_only_where_it_ended_under_its_epoch_and_only_once():
    copies = StateCopies(clock=lambda: 0.0)
    for place, epoch in ((5, 1), (6, 1), (5, 2)):
        copies.keep(LANE, 5, 1, known(ada=b"1"))
        right = (place, epoch) == (5, 1)
        assert copies.take(LANE, place, epoch).rows == ({ADA: b"1"} if right else {})
        assert copies.take(LANE, 5, 1).rows == {}, "it was taken, or it was wrong"


def test_what_was_committed_is_in_the_copy():
    made = known(ada=b"1", bo=None)
    changes = StateChanges(LANE, {ADA: None, BO: b"22"}, StateSize(0, 1))
    made.changed(changes)
    assert (made.rows, made.size) == ({ADA: None, BO: b"22"}, StateSize(2, 10))
    assert made.weight == known(ada=None, bo=b"22").weight


def test_a_copy_is_old_after_a_while_since_other_lanes_grow_as_well():
    clock = FakeClock()
    copies = StateCopies(clock=clock.monotonic_s)
    for waits_s, is_told in ((OLD_S, True), (OLD_S + 1, False)):
        copies.keep(LANE, 5, 1, known(clock.monotonic_s(), ada=b"1"))
        clock.move(waits_s)
        assert copies.take(LANE, 5, 1).is_told is is_told


def test_a_lane_and_a_worker_keep_no_more_than_they_may():
    each = known(a=b"1").weight
    copies = StateCopies(
        most_bytes=3 * (each + LANE_COSTS), most_lane_bytes=2 * each, clock=lambda: 0.0
    )
    copies.keep(LANE, 5, 1, known(a=b"1", b=b"2", c=b"3"))
    kept = copies.take(LANE, 5, 1)
    assert [key.key for key in kept.rows] == [b"b", b"c"]
    lanes = [LANE._replace(tenant=str(number)) for number in range(5)]
    for lane in lanes:
        copies.keep(lane, 5, 1, known(a=b"1"))
    assert [len(copies.take(lane, 5, 1).rows) for lane in lanes] == [0, 0, 1, 1, 1]


def test_lanes_of_which_little_is_known_take_room_as_well():
    copies = StateCopies(most_bytes=3 * LANE_COSTS, clock=lambda: 0.0)
    lanes = [LANE._replace(tenant=str(number)) for number in range(5)]
    for lane in lanes:
        copies.keep(lane, 5, 1, known())
    copies.keep(LANE, 5, 1, KnownState())
    assert [copies.take(lane, 5, 1).is_told for lane in lanes] == [False, False, True, True, True]
