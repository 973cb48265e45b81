"""What is called typical leaves out what the demo itself made wait, and says so."""

from types import SimpleNamespace

from headrace.demo.scenario import LATE, SUSPENDED
from headrace.demo.typical import WARM_S, TypicalDelays, listen
from headrace.demo.visits import GUEST
from headrace.model.streams import LaneId, Slice


def wave(tenant, *stamps_s):
    piece = Slice(
        LaneId("score", tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 0, len(stamps_s), 1
    )
    receipt = SimpleNamespace(slice=piece, records=len(stamps_s), timestamps_s=stamps_s)
    return SimpleNamespace(receipts=[receipt])


def test_visits_that_were_made_to_wait_do_not_count():
    typical = TypicalDelays()
    typical.add(wave("shop", 91.0), now_s=100.0)
    typical.add(wave("shop", 100.0 + WARM_S - 0.1), now_s=109.0)
    for name in (SUSPENDED, LATE, GUEST):
        typical.add(wave(name, 110.0), now_s=119.0)
    typical.add(wave("shop", 110.0, 110.5), now_s=111.0)
    assert typical.delays == [1.0, 0.5]
    assert "p50 0.75 s" in typical.told
    assert f"without {' and '.join(sorted((SUSPENDED, LATE)))}" in typical.told


def test_with_too_few_visits_nothing_is_claimed():
    assert "too few" in TypicalDelays().told


def test_each_wave_is_heard_after_it_was_applied():
    heard = []
    driver = SimpleNamespace(applier=SimpleNamespace(on_result=lambda _: heard.append("applied")))
    listen(driver, heard.append)
    driver.applier.on_result("wave")
    assert heard == ["applied", "wave"]
