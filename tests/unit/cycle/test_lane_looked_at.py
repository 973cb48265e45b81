"""What a driver remembers of a lane of which only reading tells where it ends."""

from types import SimpleNamespace

import pytest
from uncounted import UNCOUNTED

from headrace.board.lanes import Lane
from headrace.cycle.in_doubt import past
from headrace.cycle.lineage import is_over
from headrace.model.lineage import Parent
from headrace.model.places import OPEN, UNKNOWN, place_at
from headrace.model.receipts import Behind, Receipt
from headrace.model.streams import LaneId, Slice
from headrace.policies.visits import LEAST, SELDOM_S
from headrace.testing.wide_log import WIDE_PLACES, wide

NOW_S = 100.0
UP_TO_DATE = Behind(0.0)
LANE = LaneId("keep", "acme", "acme.visits[0]")


def piece(records=16):
    return Slice(LANE, "acme.visits", wide(0), OPEN, 1, records=records, most_bytes=9)


def came_to(reached, behind=UP_TO_DATE):
    return Receipt(piece(), wide(reached), committed=True, records=5, behind=behind)


@pytest.fixture
def lane():
    """Visited, and at the end of what there is."""
    made = Lane(wide(5))
    made.may_be_visited(NOW_S)
    made.visited(came_to(5), NOW_S)
    return made


def waits(lane):
    return lane.view(LANE.name, WIDE_PLACES, merged=False).waits


def test_between_two_visits_nothing_of_it_is_planned(lane):
    assert waits(lane) == 0
    lane.may_be_visited(NOW_S + SELDOM_S)
    assert waits(lane) == LEAST


@pytest.mark.parametrize("behind", [UP_TO_DATE, Behind(0.0, sealed=True)])
def test_one_that_does_not_stand_where_its_visit_came_to_is_visited_again(behind):
    lane = Lane(wide(3))
    lane.may_be_visited(NOW_S)
    lane.visited(came_to(5, behind), NOW_S)
    assert waits(lane) == LEAST


def test_one_whose_visit_did_not_come_to_its_end_is_due_behind_those_that_were_due_meanwhile(lane):
    lane.may_be_visited(NOW_S + SELDOM_S)
    lane.visited(came_to(5, behind=None), NOW_S + 2 * SELDOM_S)
    assert lane.visits.due_s == NOW_S + 2 * SELDOM_S
    lane.may_be_visited(NOW_S + 2 * SELDOM_S)
    assert waits(lane) == LEAST


def test_a_note_is_not_given_after_trouble_which_it_may_make():
    lane = Lane(wide(5))
    lane.visited(came_to(5, Behind(0.0, note="here")), NOW_S)
    assert lane.note == "here"
    lane.tries = 1
    assert lane.note == ""


def test_one_that_was_moved_since_is_visited_at_once(lane):
    lane.position = wide(6)
    lane.may_be_visited(NOW_S)
    assert waits(lane) == LEAST


def test_up_to_a_bad_record_as_many_wait_as_its_log_counts_or_as_its_slice_had(lane):
    lane.may_be_visited(NOW_S + SELDOM_S)
    lane.stop_before, lane.before_stop = wide(9), 12
    assert waits(lane) == 4
    assert lane.view(LANE.name, UNCOUNTED, merged=False).waits == 12


def test_an_open_slice_that_nobody_can_count_is_passed_behind_its_first_place():
    assert past(piece(records=4), SimpleNamespace(measures=WIDE_PLACES)) == wide(4)
    behind = past(piece(records=4), SimpleNamespace(measures=UNCOUNTED))
    assert UNKNOWN < wide(0) < behind < wide(1)


def test_a_parent_at_its_end_that_itself_waits_for_another_is_not_over():
    kept = {"b": (Parent("a", place_at(5)),), "c": (Parent("b", place_at(0)),)}
    starts = {"c": place_at(0)}
    for at, over in ((3, []), (5, ["a", "b"])):
        places = {"a": place_at(at), "b": place_at(0), "c": place_at(1)}
        found = is_over(["c"], kept, places, starts)
        assert found == over
