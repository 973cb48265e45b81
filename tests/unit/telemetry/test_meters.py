"""What is counted, in windows that begin at whole half-minutes."""

from dataclasses import replace

import numpy as np
import pytest

from headrace.model.receipts import Receipt
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import WaveResult
from headrace.telemetry.meters import Meter
from headrace.telemetry.use_case_meters import UseCaseMeter

#: a whole half-minute
START_S = 1_700_000_010.0
NO_DELAYS = np.array([], np.float32)


def receipt(records=1, *stamps_s, seconds=0.1, tenant="acme", size=100):
    piece = Slice(LaneId("score", tenant, "t[0]"), "t", 0, records, 1)
    return Receipt(
        piece, records, True, records=records, bytes=size, seconds=seconds, timestamps_s=stamps_s
    )


def test_a_rate_is_over_the_time_since_there_is_anything_to_count_and_over_a_minute_at_most():
    meter = Meter()
    meter.add(receipt(10), START_S + 5)
    assert meter.rate_per_s(START_S + 10) == 2.0
    assert meter.rate_per_s(START_S + 25) == 0.5
    assert meter.rate_per_s(START_S + 35) == pytest.approx(10 / 30)
    meter.add(receipt(20), START_S + 65)
    assert meter.rate_per_s(START_S + 69) == pytest.approx(20 / 39), "the first window is over"
    assert meter.rate_per_s(START_S + 200) == 0.0


def test_delays_are_those_of_the_last_one_to_two_half_minutes():
    meter = Meter()
    meter.add(receipt(1, START_S - 5.0), START_S)
    meter.add(receipt(1, START_S + 39.0), START_S + 40)
    assert meter.quantiles_s(START_S + 50, 0.0, 1.0) == (1.0, 5.0)
    assert meter.quantiles_s(START_S + 65, 0.0, 1.0) == (1.0, 1.0)
    assert meter.quantiles_s(START_S + 95, 0.5) == (None,)


@pytest.mark.parametrize("count", [2, 20])
def test_a_timestamp_stands_for_its_share_of_the_records_and_none_is_from_the_future(count):
    meter = Meter()
    stamps = (START_S - 2.0,) * (count // 2) + (START_S + 60.0,) * (count // 2)
    delays = meter.add(receipt(10 * count, *stamps), START_S)
    assert len(delays) == 10 * count
    assert (delays.min(), delays.max(), delays.mean()) == (0.0, 2.0, 1.0)


def test_a_clock_that_was_set_back_a_little_counts_on_in_the_newest_window():
    meter = Meter()
    meter.add(receipt(1), START_S + 30)
    meter.add(receipt(2), START_S)
    assert [window.records_out for window in meter.windows] == [3]


def test_a_clock_that_was_set_back_by_an_hour_begins_anew():
    meter = Meter()
    meter.add(receipt(1000, START_S + 3600), START_S + 3600)
    meter.add(receipt(10, START_S), START_S)
    assert meter.rate_per_s(START_S + 10) == 1.0
    assert meter.quantiles_s(START_S + 10, 1.0) == (0.0,)


def test_only_so_many_windows_are_remembered():
    meter = Meter()
    for number in range(100):
        meter.add(receipt(1), START_S + 30 * number)
    assert len(meter.windows) == 4
    assert meter.records_total == 100


def wave(*tenants_of_bins):
    bins = tuple(
        Bin(tuple(Slice(LaneId("score", name, "t[0]"), "t", 0, 1, 1) for name in names), 0.1)
        for names in tenants_of_bins
    )
    return Wave("w", "score", bins, 1.0)


def test_a_wave_worked_as_long_as_its_longest_task_and_was_scheduled_the_rest():
    meter = UseCaseMeter()
    receipts = tuple(
        receipt(seconds=s, tenant=t) for t, s in (("acme", 0.2), ("bolt", 0.3), ("core", 0.4))
    )
    meter.returned(WaveResult(wave(("acme", "bolt"), ("core",)), receipts, 0.75), START_S)
    found = meter.figures("score", None, START_S + 1)
    assert found.processing.max_s == pytest.approx(0.5)
    assert found.scheduling.max_s == pytest.approx(0.25)
    assert found.waves_total == found.processing.count == 1


def test_a_wave_that_was_lost_is_counted_and_measures_nothing():
    meter = UseCaseMeter()
    meter.returned(WaveResult(wave(("acme",)), (), 9.0), START_S)
    found = meter.figures("score", 5.0, START_S + 1)
    assert (found.waves_total, found.processing.count, found.pace_per_s) == (1, 0, 5.0)


def test_a_use_case_is_told_over_the_last_minutes_and_a_quiet_one_fades():
    meter = UseCaseMeter()
    meter.add(receipt(60, size=6000), np.array([1.0] * 60, np.float32), START_S)
    found = meter.figures("score", None, START_S + 60)
    assert (found.records_per_s, found.bytes_in_per_s, found.delay.count) == (1.0, 100.0, 60)
    assert meter.figures("score", None, START_S + 200).records_per_s == pytest.approx(0.3)
    assert meter.figures("score", None, START_S + 400).delay.count == 0


def test_bytes_out_are_what_those_say_who_know():
    meter = UseCaseMeter()
    meter.add(receipt(), NO_DELAYS, START_S)
    assert meter.figures("score", None, START_S + 10).bytes_out_per_s is None
    meter.add(replace(receipt(), output_bytes=40), NO_DELAYS, START_S + 10)
    meter.add(replace(receipt(), output_bytes=60), NO_DELAYS, START_S + 10)
    assert meter.figures("score", None, START_S + 20).bytes_out_per_s == 5.0


def test_it_is_counted_how_often_state_was_found_as_it_was_left():
    meter = UseCaseMeter()
    for hits, misses in ((2, 1), (0, 4)):
        told = replace(receipt(), state_hits=hits, state_misses=misses)
        meter.add(told, np.array([], np.float32), START_S)
    found = meter.figures("score", None, START_S + 1)
    assert (found.state_hits_total, found.state_misses_total) == (2, 5)
