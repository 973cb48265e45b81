"""What of history becomes one, and what that one is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.statistics import Spread
from headrace.model.streams import StreamId
from headrace.telemetry.history import (
    FRESH_FOR_S,
    KEPT_FOR_S,
    OLD_SPAN_S,
    dropped_before_s,
    old_before_s,
    shortest,
    thinned,
)
from headrace.telemetry.sketches import COARSE, FINE, Sketch, merged, packed, spread_of, unpacked
from headrace.testing.statistics_contract import ACME, BOLT, HOUR_S, point_of


@given(st.floats(1e9, 2e9))
def test_only_whole_long_spans_are_old_and_none_is_fresh_for_much_longer(now_s):
    old_s = old_before_s(now_s)
    assert old_s % OLD_SPAN_S == 0
    assert now_s - FRESH_FOR_S - OLD_SPAN_S < old_s <= now_s - FRESH_FOR_S
    assert dropped_before_s(now_s) == now_s - KEPT_FOR_S


def test_points_become_one_for_each_stream_and_span():
    points = [point_of(stream, HOUR_S + 60 * n, 1.0) for n in range(20) for stream in (BOLT, ACME)]
    assert [(point.stream, point.from_s, point.records_out) for point in thinned(points)] == [
        (ACME, HOUR_S, 10),
        (ACME, HOUR_S + 600, 10),
        (BOLT, HOUR_S, 10),
        (BOLT, HOUR_S + 600, 10),
    ]


def test_to_thin_what_is_thin_changes_nothing():
    once = thinned([point_of(ACME, HOUR_S + 60 * n, n + 0.5) for n in range(10)])
    assert thinned(once) == once


def test_of_a_time_that_spans_of_two_lengths_cover_the_shorter_ones_tell():
    (long,) = thinned([point_of(ACME, HOUR_S, 1.0)])
    late, other = point_of(ACME, HOUR_S + 120, 2.0), point_of(BOLT, HOUR_S + 120, 2.0)
    assert shortest([other, long, late]) == [late, other]
    assert shortest([long, other]) == [long, other]


def test_a_spread_is_of_all_that_was_merged_with_exact_edges():
    sketches = []
    for n in range(20):
        sketches.append(Sketch(FINE))
        sketches[-1].update(np.linspace(n, n + 1, 200, dtype=np.float32))
    spread = spread_of(merged(sketches))
    assert (spread.count, spread.min_s, spread.max_s) == (4000, 0.0, 20.0)
    assert spread.p50_s == pytest.approx(10.0, abs=20 * 0.0165)
    assert spread.p99_s == pytest.approx(19.8, abs=20 * 0.0165)


def test_a_packed_sketch_is_small_and_nearly_as_good():
    sketch = Sketch(FINE)
    sketch.update(np.linspace(0, 1, 100_000, dtype=np.float32))
    data = packed(sketch)
    assert len(data) < 1_000
    assert spread_of(unpacked(data)).p95_s == pytest.approx(0.95, abs=0.048)
    assert unpacked(data).k == COARSE


def test_nothing_measured_is_no_bytes_and_rubbish_is_nothing_measured():
    assert packed(Sketch(FINE)) == b""
    for data in (b"", b"\xff" * 40, b"\x00"):
        assert spread_of(unpacked(data)) == Spread()


def test_a_stream_named_like_another_use_case_is_another_stream():
    names = [StreamId("a", "b"), StreamId("b", "a")]
    assert len(thinned([point_of(name, HOUR_S, 1.0) for name in names])) == 2
