"""Turns for quick streams alone."""

from __future__ import annotations

from planning_cases import cost, snapshot, stream

from headrace.planning import quick_only

WHALE = stream("whale", 10**6)
SLOW = stream("slow", 9, cost=cost(0.4))
SUSPECT = stream("suspect", 9, apart="p")


def test_only_quick_streams_are_left_in_their_order() -> None:
    one, two = stream("b", 9), stream("a", 50, 50)
    assert quick_only(snapshot(one, WHALE, SLOW, two, SUSPECT)).streams == (one, two)


def test_without_quick_streams_nothing_changes() -> None:
    asked = snapshot(WHALE, SLOW, SUSPECT)
    assert quick_only(asked) is asked


def test_a_quick_stream_that_may_take_nothing_now_holds_nobody_up() -> None:
    asked = snapshot(WHALE, stream("idle", 0), stream("throttled", 9, allowance_records=0))
    assert quick_only(asked) is asked
