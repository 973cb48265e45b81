"""Lanes whose log does not say where they end: each has its visit, whatever a visit costs."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from headrace.connectors.kafka import OFFSETS
from headrace.model.lane_names import named
from headrace.model.places import OPEN
from headrace.model.plans import Contrast, Cost, LaneView, Limits, Plan, Snapshot, StreamView
from headrace.model.streams import StreamId
from headrace.planning import check, plan

TOPIC = "acme.visits"
#: a visit takes so long, whatever it finds
DEAR = Cost(seconds_per_record=0.000_02, seconds_per_slice=0.05, spread=0.1, samples=9)
LIMITS = Limits(bin_budget_s=1.0)


def asked(lanes: dict[int, tuple[float, int]], slots: int = 1) -> Snapshot:
    """Of each lane since when it is due, and how much it may take."""
    views = tuple(
        LaneView(named(TOPIC, number), 0, OPEN, waits, goes_on=True, untold=True, due_s=due_s)
        for number, (due_s, waits) in lanes.items()
    )
    stream = StreamView(StreamId("score", "acme"), TOPIC, views, cost=DEAR)
    return Snapshot("turn-1", (stream,), free_slots=slots, limits=LIMITS)


def visited(snapshot: Snapshot) -> dict[int, int]:
    """Records of each lane that a plan visits."""
    made: Plan = plan(snapshot, OFFSETS)
    assert check(snapshot, made, OFFSETS) == []
    numbers = {lane.name: number for number, lane in enumerate(snapshot.streams[0].lanes)}
    return {numbers[piece.lane.name]: piece.records for wave in made.waves for piece in wave.slices}


def test_a_lane_that_is_far_behind_has_its_visit_beside_many_that_were_just_looked_at():
    """Those with a short guess were served first, and due again before the others had a turn."""
    due_s = dict.fromkeys(range(50), 0.0)
    waits = {number: 5_000 if number < 10 else 16 for number in due_s}
    seen = set()
    for turn in range(5):
        for number in visited(asked({name: (due_s[name], waits[name]) for name in due_s})):
            due_s[number] = turn + 1.0
            seen.add(number)
    assert seen == set(due_s)


def test_a_visit_that_is_not_the_last_of_its_bin_takes_all_that_it_may():
    taken = visited(asked({number: (float(number), 16) for number in range(50)}))
    assert len(taken) > 15
    assert sorted(taken) == [*range(len(taken))]
    assert sorted(taken.values())[1:] == [16] * (len(taken) - 1)


def test_whose_part_is_enough_for_all_visits_has_all_of_them():
    """One was lost to how floats are rounded, though another stream waits that can use no more."""
    snapshot = asked(dict(enumerate([(0.0, 9)] * 6 + [(0.0, 7)])))
    lane = LaneView(named("flood.visits", 0), 0, 10**6, 10**6)
    flood = StreamView(StreamId("score", "flood"), "flood.visits", (lane,), cost=DEAR)
    made = plan(replace(snapshot, streams=(*snapshot.streams, flood)), OFFSETS)
    pieces = [piece for wave in made.waves for piece in wave.slices]
    own = [piece.records for piece in pieces if piece.lane.tenant == "acme"]
    assert own == [9] * 6 + [7]


def test_who_is_due_longest_goes_first_also_where_each_lane_fills_a_bin():
    snapshot = asked({number: (due_s, 10**5) for number, due_s in enumerate([3.0, 1.0, 2.0])})
    dear = replace(DEAR, seconds_per_slice=2.0, contrast=Contrast(10**5, 4.0, 9.0))
    stream = replace(snapshot.streams[0], cost=dear)
    assert [*visited(replace(snapshot, streams=(stream,)))] == [1]


@given(
    some.lists(some.tuples(some.floats(0, 100), some.integers(1, 10**6)), min_size=1, max_size=60)
)
def test_nobody_is_visited_before_one_that_is_due_longer(lanes):
    taken = visited(asked(dict(enumerate(lanes))))
    due_s = [due_s for due_s, _ in lanes]
    left = [due_s[number] for number in range(len(lanes)) if number not in taken]
    assert taken
    assert max(due_s[number] for number in taken) <= min(left, default=100.0)


def test_who_is_due_longest_goes_first_also_with_room_for_one():
    snapshot = asked({0: (5.0, 10**6), 1: (3.0, 10**6), 2: (4.0, 16)})
    stream = replace(snapshot.streams[0], cost=replace(DEAR, seconds_per_slice=0.9))
    assert min(visited(replace(snapshot, streams=(stream,)))) == 1
