"""What streams may take when something limits them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.board import HeldStream, Lane
from headrace.connectors.kafka import OFFSETS
from headrace.cycle.gates import KEPT_S, GateId, GateRate, Gates, own_rates
from headrace.model.buckets import bucket_of, divided
from headrace.model.plans import Cost
from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Slice, Stream, StreamId, Tenant

DEPLOYMENT = Deployment("keep", "m.py", "0" * 64, "{tenant}.visits")
ACME = GateId("tenant", "acme")


def held(use_case, lag, tenant="acme"):
    name = StreamId(use_case, tenant)
    made = HeldStream(Stream(name, f"{tenant}.visits"), Tenant(tenant), DEPLOYMENT, 1, OFFSETS)
    made.lanes["t[0]"] = Lane(0, lag)
    made.cost = Cost(bytes_per_record=100.0)
    return made


def gates(rate, *streams):
    return Gates(lambda stream: {ACME: rate} if stream in streams else {})


def records_of(made, streams, now_s):
    allowed = made.allowances(streams, now_s)
    return [
        allowed[stream.stream.id].records if stream.stream.id in allowed else None
        for stream in streams
    ]


def piece(stream, size):
    return Slice(LaneId(*stream.stream.id, "t[0]"), "t", 0, size, 1, records=size)


def test_streams_behind_no_gate_are_not_limited():
    free = held("keep", 100)
    assert Gates(lambda _: {}).allowances([free], 0.0) == {}


def test_the_streams_of_a_tenant_share_its_tokens_by_need():
    small, large = held("keep", 3), held("other", 100)
    made = gates(GateRate(10.0, None, 1.0), small, large)
    assert records_of(made, [small, large], 0.0) == [3, 7]
    assert large.throttled
    assert not small.throttled


@pytest.mark.parametrize(
    ("lanes", "rate_per_s"),
    [
        (["t[0]", "t[1]"], 20.0),
        ([*divided("t[0]", 16), *divided("t[1]", 16)], 20.0),
        (["t[0]", *divided("t[0]", 2), *divided("t[0]", 64)], 10.0),
    ],
    ids=["partitions", "buckets", "divided otherwise meanwhile"],
)
def test_the_rate_of_a_lane_is_of_all_its_buckets_together(lanes, rate_per_s):
    one = held("keep", 100)
    one.deployment = replace(DEPLOYMENT, max_rate_per_lane=10.0)
    one.lanes = {name: Lane(0, 9, bucket=bucket_of(name)) for name in lanes}
    assert [rate.records_per_s for rate in own_rates(one).values()] == [rate_per_s]


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        (GateId("stream", "keep/acme"), "max_rate_per_lane"),
        (GateId("use case", "keep"), "the pace of its use case"),
        (GateId("sink", "SqlTable"), "the pace of its sink"),
        (ACME, ""),
    ],
)
def test_which_limit_leaves_a_stream_nothing_is_known_as_long_as_it_does(gate, told):
    one = held("keep", 100)
    made = Gates(lambda _: {gate: GateRate(10.0, None, 1.0)})
    made.allowances([one], 0.0)
    assert one.limited_by == "", "it may have ten"
    made.passed(one, piece(one, 10), 0.0)
    made.allowances([one], 0.0)
    assert one.limited_by == told
    made.allowances([one], 1.0)
    assert one.limited_by == ""


def test_what_was_taken_is_gone_until_time_gives_it_back():
    one = held("keep", 100)
    made = gates(GateRate(10.0, None, 1.0), one)
    assert records_of(made, [one], 0.0) == [10]
    made.passed(one, piece(one, 10), 0.0)
    assert records_of(made, [one], 0.0) == [0]
    assert records_of(made, [one], 0.5) == [5]


def test_what_a_slice_left_undone_is_given_back():
    one = held("keep", 100)
    made = gates(GateRate(10.0, None, 1.0), one)
    made.passed(one, piece(one, 10), 0.0).give_back(0.6, 400.0)
    assert records_of(made, [one], 0.0) == [6]


def test_bytes_are_limited_as_records_are():
    one = held("keep", 100)
    made = gates(GateRate(None, 1000.0, 1.0), one)
    allowed = made.allowances([one], 0.0)[one.stream.id]
    assert (allowed.records, allowed.bytes) == (None, 1000)
    made.passed(one, piece(one, 9), 0.0)
    assert made.allowances([one], 0.0)[one.stream.id].bytes == 100


def test_the_narrowest_gate_counts():
    one = held("keep", 100)
    made = Gates(
        lambda _: {ACME: GateRate(50.0, None, 1.0), GateId("sink", "X"): GateRate(7.0, None, 1.0)}
    )
    assert records_of(made, [one], 0.0) == [7]


def test_with_fewer_tokens_than_streams_everybody_has_a_turn():
    streams = [held(f"use{number}", 10) for number in range(4)]
    made = gates(GateRate(1.0, None, 1.0), *streams)
    served = set()
    for now_s in range(8):
        for stream, records in zip(streams, records_of(made, streams, float(now_s)), strict=True):
            if records:
                served.add(stream.stream.id)
                made.passed(stream, piece(stream, records), float(now_s))
    assert len(served) == 4


@pytest.mark.parametrize("change_s", [0.0, 0.1])
@pytest.mark.parametrize("changes", [1, 5, 20])
def test_changing_a_rate_or_its_burst_often_gives_no_burst_each_time(changes, change_s):
    one = held("keep", 10_000)
    rate = [GateRate(10.0, None, 1.0)]
    made = Gates(lambda _: {ACME: rate[0]})
    taken = 0
    for number in range(changes):
        rate[0] = GateRate(10.0 + number % 2, None, 1.0 + change_s * (number % 2))
        (records,) = records_of(made, [one], 0.0)
        made.passed(one, piece(one, records), 0.0)
        taken += records
    assert taken <= 11


def test_a_gate_that_nobody_comes_to_is_forgotten_once_it_is_full():
    one = held("keep", 100)
    made = gates(GateRate(10.0, 1000.0, 1.0), one)
    made.passed(one, piece(one, 10), 0.0)
    made.allowances([], KEPT_S - 1)
    assert ACME in made.gates
    made.allowances([], 2 * KEPT_S)
    assert made.gates == {}
    assert records_of(made, [one], 2 * KEPT_S) == [10]


@pytest.mark.parametrize(
    ("rate", "size", "pauses", "left"),
    [(GateRate(0.01, None, 1_000.0), 10, 1, 6), (GateRate(1.0, None, 1.0), 5_000, 4, 0)],
    ids=["not full", "owes"],
)
def test_one_who_goes_and_comes_again_has_no_burst_by_it(rate, size, pauses, left):
    one = held("keep", 10_000)
    made = gates(rate, one)
    made.passed(one, piece(one, size), 0.0)
    for number in range(pauses + 1):
        made.allowances([], number * KEPT_S)
    assert records_of(made, [one], pauses * KEPT_S) == [left]


@given(
    lags=st.lists(st.integers(1, 500), min_size=1, max_size=6),
    rate=st.floats(0.5, 300),
    burst_s=st.floats(0.5, 5),
    steps=st.lists(st.floats(0.01, 2), min_size=1, max_size=20),
)
def test_over_any_time_no_more_passes_than_burst_and_rate_allow(lags, rate, burst_s, steps):
    streams = [held(f"use{number}", lag) for number, lag in enumerate(lags)]
    made = gates(GateRate(rate, None, burst_s), *streams)
    now_s = taken = 0.0
    for step_s in steps:
        now_s += step_s
        allowed = records_of(made, streams, now_s)
        assert all(0 <= part <= lag for part, lag in zip(allowed, lags, strict=True))
        for stream, part in zip(streams, allowed, strict=True):
            if part:
                made.passed(stream, piece(stream, part), now_s)
                taken += part
        assert taken <= max(1.0, rate * burst_s) + rate * now_s + 1e-6
