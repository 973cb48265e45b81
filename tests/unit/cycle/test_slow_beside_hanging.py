"""One that is slow for each call, beside one that hangs: who hangs pays for its time in a slot."""

import itertools

import pytest
from timed import HANGS, TIMEOUT_S, Timed

SLOW_S = 3.0
LAG_RECORDS = 100_000
QUICK = {"quick": (0.001, 0.0005)}


@pytest.mark.parametrize("slots", [2, 3])
def test_a_slow_tenant_is_done_beside_one_that_hangs(slots):
    """It once had 33 records done in three and a half minutes."""
    timed = Timed(
        {"hang": (HANGS, 0.0), "slow": (SLOW_S, 0.0), **QUICK}, slots=slots, steady=("quick",)
    )
    timed.run(210.0)
    assert timed.done("slow") == LAG_RECORDS
    assert timed.done("quick") > 1_000


def test_a_new_tenant_does_not_wait_for_one_that_hangs():
    """With two slots it once waited for up to twice the time after which a call counts as that."""
    timed = Timed({"hang": (HANGS, 0.0), **QUICK}, steady=("quick",))
    timed.run(5.0)
    timed.add("new", (0.01, 0.0001), lag=1_000)
    timed.add("slow", (SLOW_S, 0.0), lag=10)
    timed.run(10.0)
    assert timed.clock.steady_s < TIMEOUT_S
    assert timed.done("new") == 1_000
    assert timed.held("slow").apart, "its call was ended after a moment"
    assert timed.done("quick", since_s=5.0) > 40
    timed.run(210.0)
    assert timed.done("slow") == 10


def test_new_tenants_that_all_hang_leave_the_express_to_the_quick():
    names = [f"new{number}" for number in range(20)]
    timed = Timed({"hang": (HANGS, 0.0), **QUICK}, steady=("quick",))
    timed.run(5.0)
    for name in names:
        timed.add(name, (HANGS, 0.0), lag=10)
    timed.run(60.0)
    ends_s = [at_s for name, _, at_s in timed.engine.ran if name == "quick" and at_s > 5.0]
    assert max(after - before for before, after in itertools.pairwise(ends_s)) < 2.0
    assert all(timed.held(name).apart for name in names)


def test_with_three_slots_it_waits_for_nobody_that_hung():
    timed = Timed({"hang": (HANGS, 0.0), "hang2": (HANGS, 0.0), "slow": (SLOW_S, 0.001)}, slots=3)
    timed.run(120.0)
    begun_s = timed.clock.steady_s
    timed.run(60.0)
    ends_s = [at_s for name, _, at_s in timed.engine.ran if name == "slow" and at_s > begun_s]
    pauses_s = [after - before for before, after in zip([begun_s, *ends_s], ends_s, strict=False)]
    assert ends_s
    assert max(pauses_s) < TIMEOUT_S


def test_who_hung_owes_for_all_of_it_and_waits_while_others_want_the_slot():
    timed = Timed({"hang": (HANGS, 0.0), "slow": (SLOW_S, 0.001)}, slots=2)
    timed.run(85.0)
    assert timed.held("hang").hung
    assert timed.held("hang").credit_s < -2 * TIMEOUT_S
    assert not timed.held("slow").hung
    before = len([name for name, _, _ in timed.engine.ran if name == "hang"])
    timed.run(40.0)
    assert len([name for name, _, _ in timed.engine.ran if name == "hang"]) == before


def test_who_hangs_alone_is_judged_as_soon_as_ever():
    timed = Timed({"hang": (HANGS, 0.0)}, slots=2)
    timed.run(300.0)
    assert timed.store.failures.every(only_open=True)
