"""Nothing that Kafka lost goes unnoticed, and nothing that is there is taken for lost."""

from hypothesis import given
from hypothesis import strategies as some

from headrace.model.lineage import Parent
from headrace.policies.data_loss import (
    Loss,
    Lost,
    Short,
    lost_lanes,
    lost_range,
    lost_topic,
    seen_short,
)

offsets = some.integers(0, 12)
edges = some.tuples(offsets, offsets).map(sorted)


def test_the_offsets_between_position_and_start_are_lost_to_retention():
    assert lost_range(3, 7, 20) == Lost(Loss.RETENTION, 3, 7, 7)


def test_the_offsets_that_were_read_past_the_end_are_told_where_a_log_was_cut():
    assert lost_range(9, 2, 5) == Lost(Loss.CUT, 5, 9, 5)


def test_a_lane_of_another_topic_goes_on_at_its_beginning_and_nobody_knows_how_much_is_lost():
    assert lost_topic(9, 2) == Lost(Loss.RECREATED, 9, 9, 2)
    assert lost_topic(9, None) == Lost(Loss.RECREATED, 9, 9, 9)


@given(offsets, edges)
def test_a_loss_is_found_exactly_where_the_position_is_outside_the_log(position, log):
    start, end = log
    assert (lost_range(position, start, end) is None) == (start <= position <= end)


@given(offsets, edges)
def test_every_lost_offset_is_missing_from_the_log_and_touches_the_position(position, log):
    start, end = log
    found = lost_range(position, start, end)
    if found is None:
        return
    assert found.until_place > found.from_place
    assert position in (found.from_place, found.until_place)
    assert not any(start <= offset < end for offset in range(found.from_place, found.until_place))


@given(offsets, some.none() | offsets, some.none() | offsets)
def test_a_lane_that_goes_on_where_it_can_has_nothing_more_to_lose(position, start, end):
    found = lost_range(position, start, end)
    after = position if found is None else found.go_on_at
    assert lost_range(after, start, None) is None
    if start is None or end is None or start <= end:
        assert lost_range(after, start, end) is None


@given(offsets, some.integers(0, 3), edges)
def test_a_log_that_has_not_what_a_lane_is_stopped_at_was_cut(position, further, log):
    start, end = log
    had = position + further
    found = lost_range(position, start, end, had)
    if position <= end < had:
        # Also where retention took its beginning: that is told next, once nobody is stopped there.
        assert found == Lost(Loss.CUT, end, had, position)
    else:
        assert found == lost_range(position, start, end)


def test_a_cut_within_what_a_lane_is_stopped_at_is_told_before_what_retention_took_of_it():
    assert lost_range(3, 5, 6, 9) == Lost(Loss.CUT, 6, 9, 3)


@given(offsets)
def test_what_is_not_known_tells_nothing(position):
    assert lost_range(position, None, None) is None


def look(before, position, asked_s, answered_s=None):
    return seen_short(before, position, asked_s, answered_s or asked_s, 20.0)


def test_a_log_counts_as_cut_when_every_look_for_so_long_found_it_too_short():
    first = look(None, 9, 100.0)
    assert not first.lasts(20.0)
    assert not look(first, 9, 119.0).lasts(20.0)
    assert look(look(first, 9, 119.0), 9, 120.0).lasts(20.0)


def test_looks_far_apart_and_looks_at_another_position_begin_anew():
    first = look(None, 9, 100.0)
    assert look(first, 9, 121.0) == Short(9, 121.0, 121.0)
    assert look(first, 8, 119.0) == Short(8, 119.0, 119.0)


def test_an_answer_is_as_old_as_its_question_however_late_it_is_looked_at():
    first = look(None, 9, 100.0, 101.0)
    assert not look(first, 9, 115.0, 140.0).lasts(20.0)
    second = look(first, 9, 120.0)
    assert not second.lasts(20.0)
    assert look(second, 9, 121.0).lasts(20.0)


KEPT = {"left": (Parent("old", 9),), "right": (Parent("old", 9),)}


def lost(listed, told, places, kept=KEPT):
    found = lost_lanes(listed, told, kept, places)
    return {name: (loss.from_place, loss.until_place) for name, loss in found.items()}


def test_a_parent_that_is_not_listed_and_was_done_lost_nothing():
    assert lost({"left", "right"}, KEPT, {"old": 9, "left": 0, "right": 0}) == {}


def test_a_parent_that_is_not_listed_and_was_not_done_lost_the_rest():
    assert lost({"left", "right"}, KEPT, {"old": 5, "left": 0, "right": 0}) == {"old": (5, 9)}


def test_of_a_lane_that_nothing_follows_any_more_nobody_knows_the_end():
    told = {"late": (Parent("middle", None),)}
    assert lost({"late"}, told, {"old": 5}, kept={}) == {"old": (5, 5), "middle": (0, 0)}


def test_what_was_decided_about_is_not_lost_again():
    kept = {"left": (Parent("old", None),)}
    assert lost({"left", "right"}, KEPT, {"left": 0}, kept) == {}


def test_a_lane_that_the_stream_had_is_looked_for_by_its_place_and_not_by_being_listed():
    assert lost({"old", "left", "right"}, KEPT, {"old": 0}, kept={}) == {}
