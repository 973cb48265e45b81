"""How late a lane is, by where its log ended when."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka import OFFSETS
from headrace.telemetry.lateness import MOST_LOOKS, MOST_S, EndSample, remembered
from headrace.telemetry.lateness import lag_s as lag_in


def lag_s(looks, position):
    return lag_in(looks, position, OFFSETS)


def after(position, *looks):
    """What is remembered of looks of (second, end) at a lane that stands still."""
    kept = ()
    for at_s, end in looks:
        kept = remembered(kept, EndSample(at_s, end), position)
    return kept


def test_a_lane_whose_log_ends_at_its_position_is_not_late():
    assert lag_s(after(7, (0.0, 3), (5.0, 7)), 7) == 0.0


def test_a_lane_is_as_late_as_its_log_ended_there():
    looks = after(10, (0.0, 10), (10.0, 20), (20.0, 30))
    assert lag_s(looks, 10) == 20.0
    assert lag_s(looks, 15) == 15.0
    assert lag_s(looks, 20) == 10.0
    assert lag_s(looks, 30) == 0.0


def test_a_log_that_rested_before_it_grew_is_late_since_it_grew():
    looks = after(10, (0.0, 10), (50.0, 10), (100.0, 10), (102.0, 12))
    assert lag_s(looks, 10) == 2.0


def test_a_backlog_from_before_the_first_look_is_drawn_on_at_the_rate_seen_since():
    looks = after(0, (100.0, 50), (110.0, 60))
    assert lag_s(looks, 0) == 60.0  # one a second: it ended at 0 at second 50


def test_a_backlog_of_a_log_that_does_not_grow_is_late_since_it_was_first_seen():
    assert lag_s(after(0, (100.0, 50)), 0) == 0.0
    assert lag_s(after(0, (100.0, 50), (107.0, 50)), 0) == 7.0


def test_a_line_drawn_backwards_ends_after_a_day():
    assert lag_s(after(0, (0.0, 10**9), (10.0, 10**9 + 1)), 0) == MOST_S


def test_looks_that_the_position_has_passed_are_forgotten():
    kept = after(0, *((float(n), 10 * n) for n in range(1, 6)))
    assert len(remembered(kept, EndSample(6.0, 60), 35)) == 4  # the one at 30, then 40, 50 and 60


@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.integers(0, 50)), min_size=2, max_size=80),
    st.floats(0, 1),
)
def test_what_is_remembered_is_bounded_and_lateness_falls_as_the_position_moves(steps, share):
    kept, at_s, end = (), 0.0, 100
    for seconds, grown in steps:
        at_s, end = at_s + seconds, end + grown
        kept = remembered(kept, EndSample(at_s, end), 100)
        assert len(kept) <= MOST_LOOKS
    assert all(a.at_s < b.at_s and a.end <= b.end for a, b in pairwise(kept))
    position = 100 + int(share * (end - 100))
    first, second = lag_s(kept, position), lag_s(kept, min(end, position + 1))
    assert 0.0 <= second <= first
    assert lag_s(kept, end) == 0.0


@pytest.mark.parametrize("position", [100, 130, 199])
def test_thinned_looks_still_tell_nearly_the_same(position):
    kept = after(100, *((float(n), 100 + n) for n in range(100)))
    assert len(kept) <= MOST_LOOKS
    assert lag_s(kept, position) == pytest.approx(199.0 - position, abs=0.01)
