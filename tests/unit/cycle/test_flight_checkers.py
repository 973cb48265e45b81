"""The checkers of flights and of order catch what they are for."""

import pytest

from headrace.model.records import Deployment
from headrace.model.streams import LaneId, Order, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import WaveResult
from headrace.testing.flight_checker import FlightChecker, OrderChecker


def a_wave(name, *lanes, use_case_name="keep", bins=1):
    slices = [Slice(lane, "t", 0, 5, 1) for lane in lanes]
    parts = [Bin(tuple(slices[number::bins]), 1.0) for number in range(bins)]
    return Wave(name, use_case_name, tuple(parts), 1.0)


class Idle:
    """An engine that starts everything and gives back what it is told to."""

    slots = 2

    def __init__(self):
        self.back = []

    def take(self, _use_case, _deployment, _code=None):
        pass

    def start(self, _wave):
        pass

    def finished(self, _timeout_s):
        back, self.back = self.back, []
        return [WaveResult(wave, (), 0.0) for wave in back]


def checked(order=Order.LANE):
    checker = FlightChecker(Idle())
    checker.take(None, Deployment("keep", "m.py", "0", "{tenant}.visits", order=order))
    return checker


A0, A1 = LaneId("keep", "acme", "acme.visits[0]"), LaneId("keep", "acme", "acme.visits[1]")


def test_a_second_slice_of_a_lane_in_flight_is_caught():
    checker = checked()
    checker.start(a_wave("w1", A0))
    checker.start(a_wave("w2", A1))
    with pytest.raises(
        AssertionError, match=r"acme/keep/acme\.visits\[0\] is in flight twice.*w1.*w3"
    ):
        checker.start(a_wave("w3", A0))
    assert checker.most_waves == 2


def test_a_lane_twice_in_one_wave_is_caught():
    with pytest.raises(AssertionError, match="in flight twice"):
        checked().start(a_wave("w1", A0, A0))


def test_a_lane_may_run_again_once_its_wave_came_back():
    checker = checked()
    first = a_wave("w1", A0)
    checker.start(first)
    checker.engine.back = [first]
    checker.finished(0.0)
    checker.start(a_wave("w2", A0))


def test_another_lane_of_a_strict_stream_in_flight_is_caught():
    checker = checked(order=Order.STREAM)
    checker.start(a_wave("w1", A0))
    with pytest.raises(AssertionError, match="acme/keep is in flight twice"):
        checker.start(a_wave("w2", A1))


def test_a_strict_stream_in_two_bins_is_caught():
    checked(order=Order.STREAM).start(a_wave("w1", A0, A1))
    with pytest.raises(AssertionError, match="acme/keep is in flight twice"):
        checked(order=Order.STREAM).start(a_wave("w1", A0, A1, bins=2))


@pytest.mark.parametrize("times", [0, 2])
def test_a_wave_that_comes_back_twice_or_from_nowhere_is_caught(times):
    checker = checked()
    wave = a_wave("w1", A0)
    if times:
        checker.start(wave)
    checker.engine.back = [wave] * max(1, times)
    with pytest.raises(AssertionError, match="w1 came back and is not in flight"):
        checker.finished(0.0)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 2, 1],  # swapped
        [0, 1, 2, 3, 0, 1, 4],  # a late copy of an old slice
        [0, 1, 2, 3, 1, 3],  # stepped back, and left one out
        [5, 3],  # something older that never came before
    ],
)
def test_records_that_were_overtaken_are_caught(numbers):
    with pytest.raises(AssertionError, match="came"):
        OrderChecker().happened(A0, numbers)


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 3],
        [0, 1, 5, 9],  # gaps
        [0, 1, 2, 0, 1, 2, 3],  # a slice again
        [0, 1, 2, 2, 2, 3],
        [0, 1, 3, 4, 1, 2, 3, 4],  # a record that was left out comes in its place
    ],
)
def test_records_done_again_in_order_are_no_fault(numbers):
    checker = OrderChecker()
    checker.happened(A0, numbers)
    checker.happened(A1, [0])
    assert checker.counts(A0) == len(set(numbers))


def test_a_lane_that_was_sent_elsewhere_begins_anew():
    checker = OrderChecker()
    checker.happened(A0, [5, 6])
    checker.sent_elsewhere(A0)
    checker.happened(A0, [2, 3])
