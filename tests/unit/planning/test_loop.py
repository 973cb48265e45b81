"""Fair in real seconds, although predictions are wrong and costs change: the loop, simulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_cases import RECORD_BYTES, Tenant, loop

from headrace.connectors.kafka import OFFSETS
from headrace.model.plans import Cost, LaneView, Snapshot, StreamView
from headrace.model.streams import Slice, StreamId
from headrace.planning import plan
from headrace.policies.cost import learn

LOOPS = settings(max_examples=8, deadline=None, derandomize=True)
TURNS = 200

factors = st.sampled_from([0.1, 0.3, 1.0, 3.0, 10.0])
#: what the planner thinks a record takes; None is a stream nobody knows
guesses_s = st.sampled_from([None, 0.000_05, 0.000_3, 0.002])


def lane(name: str, position: int, end: int) -> LaneView:
    return LaneView(name, position, end, end - position)


def known(record_s: float) -> Cost:
    return Cost(record_s, bytes_per_record=RECORD_BYTES, spread=0.2, samples=9)


def always(record_s: float) -> Callable[[int], float]:
    return lambda _: record_s


def changing(shape: str, first_s: float, then_s: float) -> Callable[[int], float]:
    """Seconds of a record by turn: steady, another from some turn on, to and fro, or a saw."""
    if shape == "steady":
        return always(first_s)
    if shape == "step":
        return lambda turn: first_s if turn < TURNS // 3 else then_s
    if shape == "to and fro":
        return lambda turn: then_s if turn // 25 % 2 else first_s
    return lambda turn: first_s * (then_s / first_s) ** (turn % 50 / 50)


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    """Streams that really cost up to ten times more or less than the planner thinks at first."""
    made = []
    for number in range(draw(st.integers(2, 6))):
        guess_s = draw(guesses_s)
        cost = known(guess_s) if guess_s else Cost(bytes_per_record=RECORD_BYTES)
        base_s = cost.seconds_per_record
        shape = draw(st.sampled_from(["steady", "step", "to and fro", "saw"]))
        record_s = changing(shape, base_s * draw(factors), base_s * draw(factors))
        made.append(Tenant(f"t{number}", record_s, float(draw(st.integers(1, 4))), cost=cost))
    return made


@given(drawn=tenants(), slots=st.integers(1, 4))
@LOOPS
def test_real_seconds_follow_weights_no_slot_is_idle_and_nobody_waits_for_long(
    drawn: list[Tenant], slots: int
) -> None:
    running = loop(*drawn, slots=slots)
    running.run(TURNS)
    assert running.worst_share(running.used()) <= 0.15
    assert running.idle == 0
    assert running.worst_wait <= 1.0


@pytest.mark.parametrize("slots", [1, 3])
def test_a_weight_that_is_changed_counts_from_the_next_turn_on(slots: int) -> None:
    light, heavy = Tenant("light", always(0.000_1)), Tenant("heavy", always(0.001), weight=4.0)
    running = loop(light, heavy, Tenant("third", always(0.000_3)), slots=slots)
    running.run(100)
    light.weight, heavy.weight = 4.0, 1.0
    before_s = running.used()
    running.run(TURNS)
    assert running.worst_share(running.used_since(before_s)) <= 0.05


def test_a_newcomer_is_probed_with_care_and_then_has_its_share() -> None:
    old = [Tenant(f"t{number}", always(0.001), cost=known(0.001)) for number in range(2)]
    running = loop(*old, slots=2)
    running.run(50)
    newcomer = Tenant("new", always(0.000_2))
    running.tenants[newcomer.stream] = newcomer
    probe: list[Slice] = []
    while not probe:
        bins = [bin_ for wave in running.step().waves for bin_ in wave.bins]
        for bin_ in bins:
            tenants = {piece.lane.tenant for piece in bin_.slices}
            assert tenants == {"new"} or "new" not in tenants
            probe += bin_.slices if tenants == {"new"} else []
    assert sum(piece.records for piece in probe) == running.limits.probe_records
    before_s = running.used()
    running.run(TURNS)
    assert running.worst_share(running.used_since(before_s)) <= 0.05


def test_who_becomes_ten_times_dearer_has_no_more_than_before() -> None:
    worse = Tenant("worse", changing("step", 0.000_3, 0.003), cost=known(0.000_3))
    running = loop(worse, Tenant("same", always(0.000_3), cost=known(0.000_3)), slots=1)
    running.run(TURNS // 3)
    before_s = running.used()
    running.run(10)
    used_s = running.used_since(before_s)
    assert used_s[worse.stream] <= 0.5 * sum(used_s.values()) + running.limits.bin_budget_s


def test_one_kind_does_not_have_more_slots_because_it_has_fewer_streams() -> None:
    """The lone one is slow, so it has a group, but not half of the slots, for itself."""
    lone = Tenant("lone", always(0.06), cost=known(0.06))
    many = [Tenant(f"t{number}", always(0.001), cost=known(0.001)) for number in range(7)]
    running = loop(lone, *many, slots=2)
    running.run(TURNS)
    assert running.worst_share(running.used()) <= 0.1


def test_a_backlog_over_a_thousand_lanes_is_soon_read_in_long_slices() -> None:
    """To visit a lane takes 5 ms, since its broker sends whole batches; a record of it 3 us."""
    lanes, records, visit_s, record_s = 1000, 1000, 0.005, 0.000_003
    costs, credit_s = [Cost()] * lanes, [0.0] * lanes
    positions, used_s, turn = [0] * lanes, 0.0, 0
    while sum(positions) < lanes * records:
        views = [
            StreamView(
                StreamId("score", f"t{number:03}"),
                f"t{number:03}.visits",
                (
                    LaneView(
                        f"t{number:03}.visits[0]",
                        positions[number],
                        records,
                        records - positions[number],
                    ),
                ),
                cost=costs[number],
                credit_s=credit_s[number],
            )
            for number in range(lanes)
            if positions[number] < records
        ]
        made = plan(Snapshot(f"turn-{turn}", tuple(views), free_slots=2), OFFSETS)
        for credit in made.credits:
            credit_s[int(credit.stream.tenant[1:])] = credit.credit_s
        for piece in (piece for wave in made.waves for piece in wave.slices):
            number = int(piece.lane.tenant[1:])
            seconds = visit_s + piece.records * record_s
            costs[number] = learn(costs[number], piece.records, piece.records * 200, seconds)
            positions[number] = piece.until_offset
            used_s += seconds
        turn += 1
    at_best_s = lanes * (visit_s + records * record_s)
    assert used_s < 4 * at_best_s
