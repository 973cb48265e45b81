"""Backpressure and elasticity in the loop."""

from dataclasses import dataclass, replace

import pytest

from headrace.cycle.gates import GateId
from headrace.cycle.pacing import Pacing, keys_of
from headrace.errors import SinkUnavailable
from headrace.model.receipts import Receipt
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.policies.backpressure import PaceBounds
from headrace.policies.elasticity import SlotLimits
from headrace.ports import Connections, Server, WaveResult
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of


def result(use_case, seconds, tenants, refused=(), predicted_s=1.0):
    slices = tuple(
        Slice(
            LaneId(use_case.name, name, f"{name}.visits[0]"), f"{name}.visits", 0, 10, 1, records=10
        )
        for name in tenants
    )
    down = error_of(SinkUnavailable("down"))
    receipts = tuple(
        Receipt(piece, 0, committed=False, error=down)
        if piece.lane.tenant in refused
        else Receipt(piece, 10, committed=False, records=10, seconds=seconds / len(slices))
        for piece in slices
    )
    return WaveResult(Wave("w", use_case.name, (Bin(slices, predicted_s),), 1.0), receipts, seconds)


def paces(world, *results, windows=3, known=True):
    use_case = world.make()
    made = Pacing()
    made.poll([], {}, 0.0)
    for number in range(windows):
        for call in results:
            made.add(result(use_case, *call), use_case, known=known)
            made.sample([use_case])
        made.poll([], {use_case.name: use_case}, float(number + 1))
    return {name: pace.rate_per_s for name, pace in made.paces.items()}


def test_waves_that_meet_their_target_set_no_pace(world):
    assert set(paces(world, (1.0, "abc"), (0.2, "abc")).values()) == {None}


def test_waves_that_overrun_set_the_pace_of_their_use_case_and_their_sink(world):
    found = paces(world, (4.0, "abc"))
    assert set(found) == {GateId("use case", "keep"), GateId("sink", "ParquetFiles")}
    assert all(rate is not None for rate in found.values())


def test_a_bin_that_was_planned_for_longer_than_a_budget_is_no_overload(world):
    assert set(paces(world, (4.0, "a", (), 4.0)).values()) == {None}


def test_a_wrong_guess_is_no_overload(world):
    assert set(paces(world, (4.0, "abc"), known=False).values()) == {None}


def test_a_sink_that_refuses_most_streams_is_asked_less(world):
    found = paces(world, (0.1, "abcdef", "abcde"))
    assert all(rate is not None for rate in found.values())


@dataclass(frozen=True)
class AtCrm:
    """A sink that writes to a server with a name."""

    at: str = "crm"
    exactly_once = None


def rows_refused(use_case, offered, refused):
    made = result(use_case, 0.1, "a")
    (receipt,) = made.receipts
    return replace(made, receipts=(replace(receipt, offered=offered, refused=refused),))


def test_the_share_of_rows_that_is_refused_lowers_the_pace_of_a_single_stream(world):
    use_case, made = world.make(), Pacing()
    made.poll([], {}, 0.0)
    rates = []
    for number, refused in enumerate((5, 5, 10), 1):
        made.add(rows_refused(use_case, 10, refused), use_case, known=True)
        made.poll([], {use_case.name: use_case}, float(number))
        rates.append(made.paces[GateId("sink", "ParquetFiles")].rate_per_s)
    assert rates[1] == pytest.approx(rates[0] * 0.75)
    assert rates[2] == pytest.approx(rates[1] * 0.5)


@pytest.mark.parametrize("at", ["crm", "crm-{tenant}"])
def test_where_each_tenant_has_a_server_of_its_own_nobody_waits_for_those_of_others(world, at):
    use_case = world.make(sink=AtCrm(at))
    connections = Connections({}, "", servers={"crm": Server("redis://{tenant}.example.org")})
    made = Pacing(own_servers=connections.own_servers)
    made.poll([], {}, 0.0)
    for number in range(1, 9):
        made.add(result(use_case, 0.1, "abcdef", "abcde"), use_case, known=True)
        made.add(rows_refused(use_case, 10, 10), use_case, known=True)
        made.poll([], {use_case.name: use_case}, float(number))
    assert {pace.rate_per_s for pace in made.paces.values()} == {None}


def test_a_few_rows_that_are_refused_set_no_pace(world):
    use_case, made = world.make(), Pacing()
    made.poll([], {}, 0.0)
    made.add(rows_refused(use_case, 100, 5), use_case, known=True)
    made.poll([], {use_case.name: use_case}, 1.0)
    assert {pace.rate_per_s for pace in made.paces.values()} == {None}


def test_a_server_is_given_what_was_said_at_first_at_least_and_at_most(world):
    use_case = world.make(sink=AtCrm())
    gate = keys_of(use_case)[1]
    made = Pacing(bounds={"crm": PaceBounds(50.0, 20.0, 60.0)})
    made.poll([], {}, 0.0)

    def rate():
        return made.rates(use_case)[gate].records_per_s

    assert rate() == 50.0
    for number in range(1, 9):
        made.add(rows_refused(use_case, 10, 10), use_case, known=True)
        made.poll([], {use_case.name: use_case}, float(number))
    assert rate() == 20.0
    for number in range(9, 30):
        made.poll([], {use_case.name: use_case}, float(number))
    assert made.paces[gate].rate_per_s is None
    assert rate() == 60.0
    assert made.rates(world.make()) == {}


@pytest.mark.parametrize("seconds", [0.2, 4.0])
def test_of_a_use_case_that_is_gone_no_pace_is_kept_once_it_is_lifted(world, seconds):
    one, two, made = world.make(), world.make(name="two"), Pacing()
    made.poll([], {}, 0.0)
    both = {use_case.name: use_case for use_case in (one, two)}
    for now_s in range(1, 4):
        for use_case in both.values():
            made.add(result(use_case, seconds, "abc"), use_case, known=True)
        made.poll([], both, float(now_s))
    gone = GateId("use case", "two")
    made.poll([], {one.name: one}, 4.0)
    assert (gone in made.paces) == (seconds > 1.0), "one that is in force stays"
    for now_s in range(5, 15):
        made.poll([], {one.name: one}, float(now_s))
    assert set(made.paces) == set(keys_of(one))


def test_sinks_of_one_kind_at_two_servers_share_no_pace(world):
    def kept(at):
        return keys_of(world.make(sink=SqlTable("t", {"a": "text"}, at=at)))[1]

    assert kept(None) == GateId("sink", "SqlTable")
    assert kept("history") == kept("history") != kept("archive")


def test_one_tenants_own_trouble_sets_nobodys_pace(world):
    assert set(paces(world, (0.1, "a", "a"), (0.1, "ab", "a")).values()) == {None}


def test_the_overload_of_one_sink_leaves_other_use_cases_alone(world):
    class Down:
        exactly_once = None

        def prepare(self, site):
            pass

        def open(self, site):
            return self

        def write(self, effects):
            raise SinkUnavailable("down")

        def close(self):
            pass

    world.use_cases = [world.make(), world.make(name="other", sink=Down())]
    world.deploy()
    for number in range(8):
        world.tenant(f"t{number}", 50)
    world.start()
    world.turns(60)
    assert all(done == 50 for done in world.positions().values())
    assert GateId("sink", "Down") in world.driver.capacity.pacing.paces
    held = [row for row in world.driver.rows() if row.stream.use_case == "other"]
    assert all(lane.state == "retrying" for lane in held)
    tries = sum(wave.use_case == "other" for wave in world.engine.started)
    assert tries < 60, "a hot loop"


def test_slots_follow_what_waits(world):
    world.deploy()
    for number in range(4):
        world.tenant(f"t{number}")
    world.start(slot_limits=SlotLimits(1, 4, target_delay_s=0.001, down_cooldown_s=5.0))
    world.turns(3, seconds=1.0)
    assert world.driver.slots == 1
    world.engine.paused = True
    for number in range(4):
        world.send(f"t{number}", 60)
    world.turns(4, seconds=1.0)
    assert world.engine.asked_for[-1] == 4
    assert world.driver.slots == 2, "no bin waits for an executor that is still to come"
    world.engine.slots = 4
    assert world.driver.slots == 4
    world.engine.paused = False
    world.turns(80, seconds=1.0)
    assert world.driver.slots == 1
    assert world.engine.asked_for[-1] == 1
    assert set(world.positions().values()) == {60}
