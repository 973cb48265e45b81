"""What receipts say of slices, and when their records happened."""

import time
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.places import OPEN
from headrace.model.receipts import Behind, SliceError, Writer, WrittenBy
from headrace.model.streams import LaneId, Slice
from headrace.payload.event_times import json_time
from headrace.ports import DeadLetter, Effect, Written
from headrace.ports.reading import PLACE_COLUMN
from headrace.spark.event_samples import sample_s
from headrace.spark.portions import Portion, cut_to, merge, rest_of
from headrace.spark.tally import Tally
from headrace.testing.records import records


def visits(count):
    return records([b'{"at": %d}' % (1_700_000_000 + number) for number in range(count)])


def lanes(*counts):
    """A slice for each lane, and one portion of so many records of each, merged."""
    pieces = [
        Slice(LaneId("keep", "acme", f"acme.visits[{lane}]"), "acme.visits", 0, max(count, 1), 1)
        for lane, count in enumerate(counts)
    ]
    values = [b"x" * 10 * (lane + 1) for lane in range(len(counts))]
    return pieces, merge(
        [
            Portion(
                (piece,), (piece,), (piece.until_offset,), records([value] * count, partition=lane)
            )
            for lane, (piece, value, count) in enumerate(zip(pieces, values, counts, strict=True))
        ]
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_each_lane_of_a_merged_portion_counts_its_own(counts):
    pieces, portion = lanes(*counts)
    tally = Tally(pieces, time.monotonic())
    tally.spent(portion, 6.0)
    tally.wrote(portion, Written(), 1_000)
    receipts = tally.receipts()
    assert [receipt.records for receipt in receipts] == counts
    assert sum(receipt.bytes for receipt in receipts) == portion.records.nbytes
    assert sum(receipt.output_bytes for receipt in receipts) == 1_000
    assert [len(receipt.timestamps_s) for receipt in receipts] == counts
    for one, other in combinations(receipts, 2):
        if one.records and other.records:
            assert (one.seconds > other.seconds) == (one.records > other.records)


def test_what_an_effect_took_of_the_sinks_time_is_charged_to_its_lanes_alone():
    slow, quick = (
        Slice(LaneId("keep", name, f"{name}.visits[0]"), f"{name}.visits", 0, 9, 1)
        for name in ("slow", "quick")
    )
    tally = Tally([slow, quick], time.monotonic() - 10.0)
    tally.charged(Effect((slow,), (9,), visits(0)), Written(seconds=6.0))
    tally.charged(Effect((quick,), (9,), visits(0)), Written(seconds=1.0))
    told = [receipt.seconds for receipt in tally.receipts()]
    assert told == pytest.approx([7.5, 2.5], abs=0.5), "the three that are left are everybody's"


def test_what_a_log_let_wait_for_want_of_company_is_nobodys():
    lane = LaneId("keep", "acme", "acme.visits[0]")
    piece = Slice(lane, "acme.visits", 0, OPEN, 1, records=9, most_bytes=100)
    tally = Tally([piece], time.monotonic() - 10.0)
    tally.found_nothing(
        Portion((piece,), (piece,), (0,), visits(0), behind=Behind(0.0, idle_s=9.0))
    )
    (receipt,) = tally.receipts()
    assert receipt.seconds == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize(("came", "passed"), [(None, 2), (2, 2), (7, 9)])
def test_where_another_attempt_came_it_passed_at_most_what_its_slice_has(came, passed):
    lane = LaneId("keep", "acme", "acme.visits[0]")
    piece = Slice(lane, "acme.visits", 0, OPEN, 1, records=9, most_bytes=100)
    placed = visits(2).append_column(PLACE_COLUMN, pa.array(["0", "1"]))
    tally = Tally([piece], 0.0)
    reached = None if came is None else (came,)
    tally.wrote(Portion((piece,), (piece,), (2,), placed), Written(reached=reached), 0)
    (receipt,) = tally.receipts()
    assert receipt.passed == passed


def test_a_lane_with_longer_records_has_more_bytes():
    pieces, portion = lanes(5, 5)
    tally = Tally(pieces, 0.0)
    tally.wrote(portion, Written(), 0)
    first, second = tally.receipts()
    assert second.bytes - first.bytes > 5 * 9


@pytest.mark.parametrize("step", ["wrote", "claimed"])
def test_no_slice_moves_on_from_where_it_does_not_stand(step):
    (piece,), portion = lanes(9)
    first, rest = cut_to(portion, 3, None), rest_of(portion, cut_to(portion, 4, None))
    tally = Tally([piece], 0.0)
    answer = {"wrote": (Written(), 0), "claimed": (True,)}[step]
    getattr(tally, step)(first, *answer)
    with pytest.raises(AssertionError, match="does not begin where its lane stood, at 3"):
        getattr(tally, step)(rest, *answer)
    assert tally.receipts()[0].reached == 3


def test_lanes_that_an_earlier_attempt_wrote_come_as_far_as_it_came():
    pieces, portion = lanes(5, 9)
    tally = Tally(pieces, 0.0)
    tally.wrote(portion, Written(reached=(3, 9)), 0)
    assert [receipt.reached for receipt in tally.receipts()] == [3, 9]


def test_dead_letters_count_with_the_records_that_they_are_of():
    (piece,), portion = lanes(9)
    tally = Tally([piece], 0.0)
    for offset in (1, 5):
        tally.set_aside(DeadLetter(piece, SliceError(False, "BadRecord", "no", offset=offset)))
    tally.wrote(cut_to(portion, 3, None), Written(), 0)
    (receipt,) = tally.receipts()
    assert (receipt.records, receipt.dead_letters) == (3, 1)


def test_kafka_tells_unless_the_use_case_does():
    table = visits(3)
    by_kafka = sample_s(table, 32)
    assert by_kafka != sample_s(table, 32, json_time("/at"))
    assert sample_s(table, 32, json_time("/at")) == [
        1_700_000_000.0 + second for second in range(3)
    ]


def test_only_the_records_that_are_sampled_are_asked():
    asked = []

    def counting(table: pa.Table) -> list[float]:
        asked.append(table.num_rows)
        return json_time("/at")(table)

    found = sample_s(visits(1000), 32, counting)
    assert asked == [32]
    assert (found[0], found[-1]) == (1_700_000_000.0, 1_700_000_999.0)


def test_a_record_that_does_not_tell_counts_from_kafkas_timestamp():
    table = records([b'{"at": 1700000000}', b"broken"])
    by_kafka = sample_s(table, 32)
    assert sample_s(table, 32, json_time("/at")) == [1_700_000_000.0, by_kafka[1]]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda table: [1.0],
        lambda table: [float("nan")] * table.num_rows,
        lambda table: ["soon"] * table.num_rows,
        lambda table: 1 / 0,
    ],
)
def test_a_function_that_fails_costs_the_event_time_and_not_the_slice(wrong):
    table = visits(3)
    assert sample_s(table, 32, wrong) == sample_s(table, 32)


def test_who_wrote_records_is_told_of_each_lane_and_not_of_dead_letters():
    pieces, portion = lanes(3, 5)

    def written_by(table):
        return {Writer("value", str(len(value))): 1 for value in table["value"].to_pylist()[:1]} | (
            {Writer("value", "all"): table.num_rows}
        )

    tally = Tally(pieces, 0.0, written_by=written_by)
    tally.set_aside(DeadLetter(pieces[1], SliceError(False, "BadRecord", "no", offset=2)))
    tally.wrote(portion, Written(), 0)
    assert [set(receipt.writers) for receipt in tally.receipts()] == [
        {WrittenBy(Writer("value", "10"), 1), WrittenBy(Writer("value", "all"), 3)},
        {WrittenBy(Writer("value", "20"), 1), WrittenBy(Writer("value", "all"), 4)},
    ]
