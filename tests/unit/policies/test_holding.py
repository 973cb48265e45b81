"""One of many who holds on to something leaves enough of it to the others."""

import pytest

from headrace.policies.holding import may_hold


def held(most, tenants, piece):
    """What each holds after each, one after the other, took as many pieces as it may."""
    found = []
    for _ in range(tenants):
        own = 0
        while may_hold(most, sum(found) + own, own, piece):
            own += piece
        found.append(own)
    return found


def test_one_may_hold_a_quarter():
    assert held(100, 1, 5) == [25]


@pytest.mark.parametrize("tenants", [2, 4, 10, 30])
def test_however_many_hold_on_to_theirs_something_is_left(tenants):
    taken = sum(held(1_000_000, tenants, 10))
    assert taken < 1_000_000
    assert may_hold(1_000_000, taken, 0, 10)


def test_a_large_piece_is_let_in_for_who_holds_nothing_while_a_quarter_stays_free():
    assert may_hold(100, 0, 0, 1000)
    assert may_hold(100, 40, 0, 35)
    assert not may_hold(100, 40, 0, 36)
    assert not may_hold(100, 40, 1, 35)
    assert held(100, 20, 30)[:4] == [30, 30, 0, 0]
