"""Cutting what is read into what one handler call is given."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import LeaderUnknown
from headrace.model.lane_names import number_of
from headrace.model.record_versions import MOST_DEPTH, version_of
from headrace.model.streams import LaneId, Slice
from headrace.ports import SliceBatch
from headrace.spark.lane_parts import fractions_of, tables_of
from headrace.spark.portions import (
    Portion,
    by_batch,
    by_slice,
    by_stream,
    cut_to,
    last_version,
    merge,
    rest_of,
    slice_of,
    whole_or_nothing,
)
from headrace.spark.slice_errors import error_of
from headrace.testing.records import records


def a_slice(partition=0, from_=0, until=10, *, more=False):
    return Slice(
        LaneId("score", "acme", f"acme.visits[{partition}]"), "acme.visits", from_, until, 1, more
    )


def batch(piece, first, rows, *, last):
    table = records([b"x"] * rows, partition=number_of(piece.lane.name), first_offset=first)
    return SliceBatch(piece, table, first + rows, last)


def whole(piece, timestamps_ms):
    table = records(
        [b"x"] * len(timestamps_ms),
        partition=number_of(piece.lane.name),
        first_offset=piece.from_offset,
        timestamps_ms=timestamps_ms,
    )
    return Portion((piece,), (piece,), (piece.until_offset,), table)


def test_parts_of_a_slice_follow_each_other_without_a_gap():
    piece = a_slice()
    parts = list(by_batch([batch(piece, 0, 4, last=False), batch(piece, 4, 6, last=True)]))
    assert [(part.slices[0].from_offset, part.reached[0]) for part in parts] == [(0, 4), (4, 10)]
    assert all(part.planned == (piece,) for part in parts)


def test_a_whole_slice_is_one_portion_however_it_came():
    piece = a_slice()
    (only,) = by_slice([batch(piece, 0, 4, last=False), batch(piece, 4, 6, last=True)])
    assert only.records["offset"].to_pylist() == list(range(10))
    assert only.reached == (10,)


def test_a_recorded_slice_that_could_not_be_read_to_its_end_counts_as_not_read():
    piece = a_slice()
    broken = SliceBatch(piece, records([]), 4, True, error_of(LeaderUnknown("no leader")))
    batches = [batch(piece, 0, 4, last=False), broken]
    (only,) = whole_or_nothing(by_slice(batches))
    assert (only.reached, only.records.num_rows) == ((0,), 0)
    assert only.error is not None


def test_a_stream_is_merged_only_when_all_its_slices_are_read():
    one, two = a_slice(0, 0, 2), a_slice(1, 0, 2)
    batches = [batch(one, 0, 2, last=True), batch(two, 0, 2, last=True)]
    (only,) = by_stream(batches, [one, two])
    rows = list(
        zip(*(only.records[name].to_pylist() for name in ("partition", "offset")), strict=True)
    )
    assert rows == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_what_each_lane_has_of_a_merged_portion_can_be_told_as_json():
    """NumPy's numbers look like Python's, and ended the thread that tells how a driver fares."""
    one, two = a_slice(0, 0, 3), a_slice(1, 0, 1)
    (only,) = by_stream([batch(one, 0, 3, last=True), batch(two, 0, 1, last=True)], [one, two])
    assert [type(fraction) for fraction in fractions_of(only)] == [float, float]
    assert fractions_of(only) == [0.75, 0.25]


def test_nothing_younger_than_the_last_record_of_a_lane_that_goes_on_is_taken():
    # Lane 0 goes on past its slice: its next record may be as old as 20.
    behind = whole(a_slice(0, 0, 2, more=True), [10, 20])
    ahead = whole(a_slice(1, 0, 4), [5, 15, 25, 35])
    merged = merge([behind, ahead])
    assert merged.records["timestamp"].cast(pa.int64()).to_pylist() == [5, 10, 15, 20]
    assert merged.reached == (2, 2)


def test_nothing_is_taken_beside_a_lane_that_goes_on_behind_a_gap():
    # The next record of lane 0 may be as old as any.
    gap = whole(a_slice(0, 0, 2, more=True), [])
    merged = merge([gap, whole(a_slice(1, 0, 2), [5, 15])])
    assert merged.records.num_rows == 0
    assert merged.reached == (2, 0)


def test_a_clock_that_steps_back_does_not_break_a_lanes_own_order():
    merged = merge([whole(a_slice(0, 0, 3), [30, 10, 40]), whole(a_slice(1, 0, 2), [20, 35])])
    of_lane_0 = merged.records.filter(pa.compute.equal(merged.records["partition"], 0))
    assert of_lane_0["offset"].to_pylist() == [0, 1, 2]


def test_a_lane_that_cannot_be_read_holds_back_its_whole_stream():
    broken = Portion(
        (a_slice(0),), (a_slice(0),), (0,), records([]), error_of(LeaderUnknown("no leader"))
    )
    merged = merge([broken, whole(a_slice(1, 0, 2), [1, 2])])
    assert merged.error is not None
    assert merged.reached == (0, 0)
    assert merged.records.num_rows == 0


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 20), max_size=8), st.booleans()), min_size=1, max_size=4
    )
)
def test_merging_keeps_every_lane_in_order_loses_nothing_and_makes_progress(lanes):
    portions = [
        # a lane without a record has a gap
        whole(a_slice(number, 0, max(1, len(stamps)), more=more), stamps)
        for number, (stamps, more) in enumerate(lanes)
    ]
    merged = merge(portions)
    taken = merged.records.to_pylist()
    turns = {}
    for number, planned in enumerate(merged.planned):
        offsets = [row["offset"] for row in taken if row["partition"] == number]
        assert offsets == list(range(len(offsets)))
        assert merged.reached[number] >= len(offsets)
        if merged.reached[number] < planned.until_offset:
            assert merged.reached[number] == len(offsets)
        turns[number] = offsets
    assert any(merged.reached)
    stamps = [row["timestamp"] for row in taken]
    monotone = all(sorted(lane) == lane for lane, _ in lanes)
    if monotone:
        assert all(a <= b for a, b in pairwise(stamps))


def test_a_portion_is_cut_and_continued_at_the_same_offset():
    portion = Portion((a_slice(),), (a_slice(),), (10,), records([b"x"] * 10))
    first = cut_to(portion, 3, None)
    rest = rest_of(portion, first)
    assert first.reached == (3,)
    assert rest.slices[0].from_offset == 3
    assert rest.records["offset"].to_pylist() == list(range(3, 10))
    assert rest.reached == (10,)


def of_topic(topic, timestamps_ms):
    """A whole slice of a lane of another topic of the stream, or of a lane without a number."""
    piece = Slice(LaneId("score", "acme", topic), "acme.visits", 0, len(timestamps_ms), 1)
    values = [topic.encode()] * len(timestamps_ms)
    table = records(values, topic=topic, timestamps_ms=timestamps_ms)
    return Portion((piece,), (piece,), (piece.until_offset,), table)


def test_lanes_of_one_number_are_told_apart_by_their_names():
    """Taken by numbers, a record of one lane passed for the other's, and its place for theirs."""
    lanes = ["acme.visits[10]", "acme.visits[0]", "acme.orders[0]", "shard-a", "acme.visits[2]"]
    merged = merge([of_topic(name, [5, 5]) for name in lanes])
    order = ["acme.orders[0]", "acme.visits[0]", "acme.visits[2]", "acme.visits[10]", "shard-a"]
    assert [piece.lane.name for piece in merged.planned] == order
    assert [value.decode() for value in merged.records["value"].to_pylist()] == [
        name for name in order for _ in range(2)
    ]
    assert [slice_of(merged, row).lane.name for row in range(10)] == merged.records[
        "topic"
    ].to_pylist()
    assert cut_to(merged, 3, None).reached == (2, 1, 0, 0, 0)
    assert fractions_of(cut_to(merged, 4, None)) == [0.5, 0.5, 0.0, 0.0, 0.0]
    assert [set(table["topic"].to_pylist()) for table in tables_of(merged)] == [
        {name} for name in order
    ]


def test_a_portion_is_as_new_as_its_last_record():
    piece = replace(a_slice(from_=3, until=6), depth=2)
    portion = whole(piece, [1, 2, 3])
    assert last_version(portion) == version_of(2, 5)
    assert last_version(cut_to(portion, 2, None)) == version_of(2, 4)
    assert last_version(cut_to(portion, 0, None)) is None


def test_a_portion_of_several_lanes_or_sent_back_too_often_has_no_version():
    merged = merge([whole(a_slice(0, 0, 2), [1, 2]), whole(a_slice(1, 0, 2), [1, 2])])
    assert last_version(merged) is None
    assert last_version(whole(replace(a_slice(), depth=MOST_DEPTH + 1), [1])) is None
