"""The checkers of chains, flights, isolation and resources find what was planted."""

import pytest

from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.testing.chain_checker import OffsetChain
from headrace.testing.findings import Report
from headrace.testing.flight_checker import SingleFlight
from headrace.testing.isolation_checker import Isolation
from headrace.testing.ledger import Place
from headrace.testing.resource_checker import Leaks, Usage, usage

A0, A1 = LaneId("keep", "acme", "acme.visits[0]"), LaneId("keep", "acme", "acme.visits[1]")


def test_a_report_names_the_first_few_and_says_how_many_there_are():
    report = Report("broken chain", 70, tuple(f"lane {number}" for number in range(7)))
    assert not report.clean
    told = "7 broken chain of 70 checked (lane 0; lane 1; lane 2; lane 3; lane 4, …)"
    assert str(report) == told
    assert str(Report("leaks", 3)) == "0 leaks of 3 checked"


def test_slices_that_join_are_a_clean_chain_in_each_lane():
    chain = OffsetChain()
    for lane, start, end in ((A0, 5, 9), (A1, 0, 2), (A0, 9, 9), (A0, 9, 12), (A1, 2, 3)):
        chain.moved(lane, start, end)
    assert chain.report() == Report("broken chain", 5)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (10, 12, "gap from 9 to 10"),
        (8, 12, "8 to 12 overlaps, it was at 9"),
        (9, 7, "went from 9 to 7"),
    ],
)
def test_a_broken_chain_is_found(start, end, said):
    chain = OffsetChain()
    chain.moved(A0, 5, 9)
    chain.moved(A0, start, end)
    assert [f"acme/keep/acme.visits[0]: {said}"] == list(chain.report().findings)


def test_a_lane_that_was_sent_elsewhere_goes_on_from_there_and_from_nowhere_else():
    chain = OffsetChain()
    chain.moved(A0, 5, 9)
    chain.sent(A0, 2)
    chain.moved(A0, 2, 4)
    assert chain.report().clean
    chain.sent(A0, 7)
    chain.moved(A0, 8, 9)
    assert not chain.report().clean


def a_wave(name, *lanes, epoch=1):
    slices = tuple(Slice(lane, "acme.visits", 0, 5, epoch) for lane in lanes)
    return Wave(name, "keep", (Bin(slices, 1.0),), 1.0)


def test_a_lane_in_flight_twice_under_one_epoch_is_found():
    flights = SingleFlight()
    flights.started(a_wave("w1", A0, A1))
    flights.started(a_wave("w2", A0))
    (found,) = flights.report().findings
    assert "acme.visits[0] 0..5 under epoch 1 is in flight twice: in wave w1 and in w2" in found


def test_a_lane_twice_in_one_wave_is_found():
    flights = SingleFlight()
    flights.started(a_wave("w1", A0, A0))
    assert not flights.report().clean


def test_a_lane_may_fly_again_after_its_wave_and_beside_a_zombie_of_an_older_epoch():
    flights = SingleFlight()
    first = a_wave("w1", A0)
    flights.started(first)
    flights.ended(first)
    flights.started(a_wave("w2", A0))
    flights.started(a_wave("w3", A0, epoch=2))
    assert flights.report() == Report("double flights", 3)


def test_a_foreign_record_is_found_wherever_it_went_wrong():
    isolation = Isolation()
    for tenant in ("acme", "bolt"):
        isolation.topic(tenant, f"{tenant}.visits")
    isolation.wrote("acme", "acme", Place("acme.visits", 0, 1))
    assert isolation.report() == Report("foreign effects", 1)
    isolation.wrote("bolt", "acme", Place("acme.visits", 0, 2))
    isolation.wrote("acme", "bolt", Place("acme.visits", 0, 3))
    isolation.wrote("acme", "acme", Place("bolt.visits", 0, 4))
    isolation.wrote("acme", "acme", Place("nobody.visits", 0, 5))
    report = isolation.report()
    assert (report.checked, len(report.findings)) == (5, 4)
    assert report.findings[0] == "acme's acme.visits[0]@2 in a slice of acme, written for bolt"


def leaks_of(samples):
    """A checker that sees these (files, threads, MiB), one a second."""
    checker = Leaks(look=lambda at: Usage(at, *(float(figure) for figure in samples[int(at)])))
    for number in range(len(samples)):
        checker.sample(float(number))
    return checker


def test_a_leak_is_found_and_nothing_else_is_blamed():
    leaking = leaks_of([(10 + number, 4, 100 + number % 3) for number in range(40)])
    (found,) = leaking.report().findings
    assert found == "open_files grew by 29.0, at most 2 is allowed"


def test_a_process_that_warms_up_and_has_peaks_leaks_nothing():
    warm_up = [(number, number, 10 * number) for number in range(10)]
    steady = [(10, 9, 100 + (500 if number % 7 == 0 else 0)) for number in range(30)]
    assert leaks_of(warm_up + steady).report() == Report("leaks", 40)


def test_without_samples_nothing_is_said():
    assert Leaks().report() == Report("leaks", 0)


def test_usage_looks_at_a_real_process(tmp_path):
    before = usage(0.0)
    with (tmp_path / "open").open("w"):
        held = usage(1.0)
    assert held.open_files == before.open_files + 1
    assert held.threads >= 1
    assert held.memory_mib > 1
