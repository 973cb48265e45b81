"""Tenants whose own databases are locked, and how long those wait whose are not."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pytest
from timed import LOCK_S, Timed

from headrace.model.streams import StreamId
from headrace.ports import Written

NAMES = tuple(f"t{number:02}" for number in range(14))
QUICK = (0.001, 0.0005)


def longest_s(timed, tenant, since_s):
    """The longest that nothing of a tenant was done."""
    ends_s = [
        at_s for name, n, at_s in timed.engine.ran if name == tenant and n and at_s >= since_s
    ]
    whole = [since_s, *ends_s, timed.clock.steady_s]
    return max(after - before for before, after in itertools.pairwise(whole))


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("intends", [False, True])
def test_whose_database_answers_waits_a_few_seconds_however_many_are_locked(slots, intends):
    """On two slots, by intent, it once was for as long as the nine were locked."""
    timed = Timed(dict.fromkeys(NAMES, QUICK), intends=intends, slots=slots, lag=20, steady=NAMES)
    timed.run(10.0)
    timed.engine.locked |= set(NAMES[:9])
    since_s = timed.clock.steady_s
    timed.run(100.0)
    most_s = 10.0 if slots > 1 else LOCK_S + 10.0
    waits_s = {name: longest_s(timed, name, since_s) for name in NAMES[9:]}
    assert max(waits_s.values()) < most_s, waits_s
    timed.engine.locked.clear()
    timed.run(120.0)
    assert all(timed.held(name).lag_records < 10 for name in NAMES), "nobody was forgotten"
    assert not any(timed.held(name).apart for name in NAMES)


def test_a_driver_that_starts_while_many_are_locked_does_not_give_them_all_slots():
    """It does not know them; that they were written down apart says enough."""
    timed = Timed(dict.fromkeys(NAMES, QUICK), intends=True, lag=20, steady=NAMES)
    timed.run(10.0)
    timed.engine.locked |= set(NAMES[:9])
    timed.run(30.0)
    timed.start("run2")
    since_s = timed.clock.steady_s
    timed.run(120.0)
    assert max(longest_s(timed, name, since_s) for name in NAMES[9:]) < LOCK_S + 10.0


def test_none_that_is_locked_starves_beside_a_flood():
    timed = Timed(
        {**dict.fromkeys(NAMES[:4], QUICK), "flood": (0.001, 0.001)}, intends=True, lag=20
    )
    timed.run(10.0)
    timed.engine.locked |= set(NAMES[:4])
    timed.log.append("flood.visits", 0, timed.rows(1_000_000))
    for name in NAMES[:4]:
        timed.log.append(f"{name}.visits", 0, timed.rows(20))
    timed.run(5.0)
    since_s = timed.clock.steady_s
    timed.run(600.0)
    tried = [name for name, _, at_s in timed.engine.ran if at_s > since_s]
    assert min(tried.count(name) for name in NAMES[:4]) >= 2
    assert timed.done("flood", since_s) > 400_000, "half of a slot, and some of the express"
    timed.engine.locked.clear()
    timed.run(120.0)
    assert all(timed.held(name).lag_records == 0 for name in NAMES[:4])


@dataclass
class RunsOut:
    """A sink that is not in time for one tenant, as often as it is told."""

    exactly_once: str | None
    times: int = 3
    wrote: Counter = field(default_factory=Counter)

    def prepare(self, _site):
        pass

    def open(self, _site):
        return self

    def write(self, effects):
        return list(map(self._write, effects))

    def _write(self, effect):
        piece = effect.slices[0]
        if piece.lane.tenant == "acme" and self.times and effect.may_repeat:
            self.times -= 1
            return Written(untried=True)
        self.wrote[piece.lane.tenant, piece.from_offset, effect.reached[0]] += 1
        return Written()

    def close(self):
        pass


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_what_was_not_tried_comes_again_at_once_and_counts_against_nobody(world, guarantee):
    sink = RunsOut("intent" if guarantee == "exactly-once" else None)
    world.use_cases = [world.make(sink=sink, guarantee=guarantee)]
    world.deploy()
    for name in ("acme", "bolt"):
        world.tenant(name, 8)
    world.start()
    world.turns(2, seconds=0.01)
    assert sink.times < 3
    lane = world.driver.board.lane(world.lane("acme"))
    held = world.driver.board.streams[StreamId("keep", "acme")]
    assert (lane.tries, lane.attempts, lane.trouble) == (0, 0, "")
    assert (held.apart, held.most_records) == ("", None)
    world.turns(8, seconds=0.01)
    assert world.positions() == {("acme", 0): 8, ("bolt", 0): 8}
    assert sink.wrote == {("acme", 0, 8): 1, ("bolt", 0, 8): 1}
    assert world.store.progress.pending_intents() == []
