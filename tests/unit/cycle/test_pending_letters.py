"""A lane goes on when its dead letter is kept, however late that is, and what happens meanwhile."""

from concurrent.futures import Executor, Future

import pytest

from headrace.cycle import dead_letters
from headrace.errors import BrokerUnavailable, ConfigError, StoreUnavailable
from headrace.model.streams import DataLossPolicy, State, StreamId
from headrace.testing.dead_letters_fake import MemoryDeadLetters

ACME = StreamId("keep", "acme")
NAMES = [f"t{number}" for number in range(5)]


class Later(Executor):
    """A thread that does what it is given when the test says so."""

    def __init__(self):
        self.jobs = []

    def submit(self, fn, /, *args, **kwargs):
        self.jobs.append((Future(), lambda: fn(*args, **kwargs)))
        return self.jobs[-1][0]

    def go_on(self):
        future, call = self.jobs.pop(0)
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)


@pytest.fixture
def later(world):
    """Begins tenants whose record 1 is given up by the driver, in a thread of the test's."""

    def begin(*tenants, **terms):
        def handler(table, context):
            if 1 in table["offset"].to_pylist():
                raise ValueError("no")
            return table.select(["offset"])

        world.use_cases = [world.make(handler, bad_record="dead-letter")]
        world.deploy(retries=0, **terms)
        for name in tenants:
            world.tenant(name, 3)
        thread = Later()
        world.start()
        world.driver.failing.letters.thread = thread
        world.turns()
        return thread

    return begin


def offsets(world):
    return [
        (letter.slice.lane.tenant, letter.error.offset, letter.slice.epoch)
        for letter in world.dead_letters.letters
    ]


def at(world, lane=0):
    found = world.positions().items()
    return {tenant: offset for (tenant, number), offset in found if number == lane}


def test_a_stream_that_waits_for_its_letter_is_not_given_back_by_who_leaves(world, later):
    later("acme")
    world.tenant("bolt")
    world.turns(20)
    world.driver.drain()
    world.driver.leave()
    holders = {stream.id.tenant: stream.holder for stream in world.store.registry.streams()}
    assert holders == {"acme": "driver", "bolt": None}


def test_a_position_moves_when_its_letter_is_kept_and_not_before(world, later):
    thread = later("acme")
    world.turns(20)
    assert (at(world), len(thread.jobs)) == ({"acme": 1}, 1)
    thread.go_on()
    assert (at(world), len(offsets(world))) == ({"acme": 1}, 1)
    world.turns(1)
    assert at(world) == {"acme": 2}
    world.turns(1)
    assert at(world) == {"acme": 3}
    assert world.row("acme").dead_letters == 1
    assert world.row("acme").state == "active"


@pytest.mark.parametrize("kept", [True, False])
def test_a_letter_of_a_lane_that_is_sought_meanwhile_moves_nothing(world, later, kept):
    thread = later("acme")
    if kept:
        thread.go_on()
    world.store.progress.seek(ACME, {"acme.visits[0]": 0})
    world.turns()
    assert at(world) == {"acme": 1}
    if not kept:
        thread.go_on()
        assert offsets(world) == [], "the record is another attempt's by now"
    world.turns()
    assert at(world) == {"acme": 1}
    # It begins anew, and so does its letter.
    while thread.jobs:
        thread.go_on()
        world.turns(5, seconds=1.0)
    assert at(world) == {"acme": 3}
    *before, (_, _, epoch) = offsets(world)
    assert [letter[2] < epoch for letter in before] == [True] * kept


@pytest.mark.parametrize("trouble", [None, BrokerUnavailable("no leader")])
def test_a_loss_of_another_lane_is_passed_over_when_the_letter_is_answered(world, later, trouble):
    """It raises the epoch, and under another one nobody would heed the answer."""
    thread = later(data_loss=DataLossPolicy.SKIP)
    world.tenant("acme", 3, partitions=2)
    world.turns(3)
    assert at(world, 0) == {"acme": 1}
    world.send("acme", 9, partition=1)
    world.log.expire("acme.visits", 1, 4)
    world.turns(10, seconds=1.0)
    assert (at(world, 1), offsets(world)) == ({"acme": 0}, [])
    assert "as soon as its dead letter is kept" in world.row("acme").note
    if trouble is not None:
        world.dead_letters.fail_next(trouble)
    for _ in range(20):
        while thread.jobs:
            thread.go_on()
        world.turns(1, seconds=1.0)
    assert world.positions() == {("acme", 0): 3, ("acme", 1): 9}
    assert len(offsets(world)) == 1
    (over,) = world.store.failures.every(ACME)
    assert (over.slice.from_offset, over.slice.until_offset) == (0, 4)


@pytest.mark.parametrize("policy", DataLossPolicy)
def test_a_log_cut_right_at_a_record_that_waits_for_its_letter_costs_no_other_record(
    world, later, policy
):
    """The lane went on behind the letter, and so behind what came in the record's place."""
    thread = later(data_loss=policy)
    world.tenant("acme", 3)
    world.turns(3)
    assert at(world) == {"acme": 1}
    world.log.truncate("acme.visits", 0, 1)
    world.turns(80, seconds=1.0)
    world.send("acme", 2)
    world.turns(40, seconds=1.0)
    thread.go_on()
    world.turns(1)
    assert (at(world), len(offsets(world))) == ({"acme": 1}, 1)
    state = next(one.state for one in world.store.registry.streams() if one.id == ACME)
    assert state is (State.SUSPENDED if policy is DataLossPolicy.FAIL else State.ACTIVE)


def test_a_letter_of_a_lane_that_is_removed_meanwhile_brings_nothing_back(world, later):
    thread = later("acme", "bolt")
    world.store.registry.set_stream_state(ACME, State.REMOVED)
    world.turns()
    thread.go_on()
    world.turns()
    assert at(world) == {"acme": 2, "bolt": 3}
    world.turns()
    assert at(world) == {"acme": 2, "bolt": 3}


@pytest.mark.parametrize("kept", [True, False])
def test_a_driver_killed_over_a_letter_loses_none_and_repeats_one_at_most(world, later, kept):
    thread = later("acme")
    if kept:
        thread.go_on()
    world.dead_letters._named.clear()  # another process does not know of it
    world.start()
    world.turns()
    assert at(world) == {"acme": 3}
    assert [offset for _, offset, _ in offsets(world)] == [1] * (2 if kept else 1)


@pytest.mark.parametrize("done", [True, False])
def test_a_store_that_does_not_answer_over_a_kept_letter_is_asked_again(
    world, later, done, monkeypatch
):
    thread = later("acme", "bolt")
    advance, answers = world.store.positions.advance, [False]

    def unsteady(moves):
        if answers:
            answers.pop()
            if done:
                advance(moves)
            raise StoreUnavailable("the store does not answer")
        return advance(moves)

    thread.go_on()
    monkeypatch.setattr(world.store.positions, "advance", unsteady)
    world.turns(3)
    assert at(world) == {"acme": 3, "bolt": 3}
    assert len(offsets(world)) == 2


def test_a_letter_is_kept_when_the_store_says_that_its_lane_is_still_there(
    world, later, monkeypatch
):
    thread = later("acme")
    with monkeypatch.context() as away:
        away.setattr(world.store.positions, "stand", is_away)
        thread.go_on()
    world.turns(1)
    assert (at(world), offsets(world)) == ({"acme": 1}, [])
    while not offsets(world):
        world.turns(5, seconds=1.0)
        thread.go_on()
    world.turns(3)
    assert at(world) == {"acme": 3}


def test_the_look_before_a_letter_is_no_commit(world, later, monkeypatch):
    """It was a move to where the lane is, and so somebody had just committed it."""
    thread = later("acme")
    with monkeypatch.context() as moves:
        moves.setattr(world.store.positions, "advance", lambda _: pytest.fail("moved"))
        thread.go_on()
    assert len(offsets(world)) == 1


def test_a_lane_that_moved_meanwhile_holds_up_no_other_letter(world, later):
    """The others waited for another round."""
    thread = later(*NAMES)
    world.store.progress.seek(StreamId("keep", NAMES[0]), {f"{NAMES[0]}.visits[0]": 0})
    thread.go_on()
    assert sorted(tenant for tenant, _, _ in offsets(world)) == NAMES[1:]


def is_away(_):
    raise StoreUnavailable("the store does not answer")


def test_a_letter_that_brokers_refuse_holds_up_no_other(world, later):
    thread = later(*NAMES)
    world.dead_letters.fail_next(ConfigError("too large"))
    thread.go_on()
    world.turns(1)
    assert sorted(at(world).values()) == [1, 2, 2, 2, 2]
    (refused,) = (name for name, offset in at(world).items() if offset == 1)
    assert world.row(refused).note == (
        "partition 0: the dead letter of offset 1 is not kept: too large"
    )
    assert world.row(refused).state == "retrying"


def test_what_brokers_do_not_take_comes_behind_all_others(world, later):
    thread = later(*NAMES)
    world.dead_letters.fail_next(BrokerUnavailable("no leader"))
    thread.go_on()
    world.turns(1)
    assert set(at(world).values()) == {1}
    (slow,) = (name for name in NAMES if world.driver.board.lane(world.lane(name)).tries)
    world.tenant("late", 3)
    world.turns(3, seconds=1.0)
    assert world.driver.board.lane(world.lane(slow)).aside == 2
    thread.go_on()
    world.turns(1)
    thread.go_on()
    assert [name for name, _, _ in offsets(world)][-1] == slow
    assert len(offsets(world)) == 6


@pytest.mark.parametrize(("limit", "most"), [("MOST_WAITING", 4), ("MOST_BYTES", 4)])
def test_what_finds_no_room_is_tried_again(world, later, monkeypatch, limit, most):
    monkeypatch.setattr(dead_letters, limit, most)
    thread = later(*NAMES)
    assert len(world.driver.failing.letters._waiting) == 3
    waiting = [name for name in NAMES if "too many wait" in world.row(name).note]
    assert len(waiting) == 2
    for _ in range(10):
        while thread.jobs:
            thread.go_on()
            world.turns(1)
        world.turns(3, seconds=1.0)
    assert set(at(world).values()) == {3}


def test_a_closed_driver_begins_no_letter_more(world, later):
    thread = later(*NAMES)
    kept = []

    def closing(some):
        world.driver.failing.letters.close(until_s=0.0)
        kept.append(some)

    world.driver.failing.letters.dead_letters = type("Closing", (), {"keep": staticmethod(closing)})
    thread.go_on()
    assert len(kept) == 1


def wide(world, name, partitions=20):
    """A tenant with a bad record in each of many partitions."""
    world.tenant(name, partitions=partitions)
    for partition in range(partitions):
        world.send(name, 3, partition)


def nobody_takes_those_of(monkeypatch, *tenants):
    """The dead letters of these tenants have no leader; return whose are tried, in their order."""
    keep, tried = MemoryDeadLetters.keep, []

    def tries(fake, some):
        tried.append(some[0].slice.lane.tenant)
        if tried[-1] in tenants:
            raise BrokerUnavailable("no leader")
        keep(fake, some)

    monkeypatch.setattr(MemoryDeadLetters, "keep", tries)
    return tried


def test_a_tenant_with_many_lanes_holds_the_letters_of_others_up_once(world, later, monkeypatch):
    thread = later()
    tried = nobody_takes_those_of(monkeypatch, "acme", "corp")
    wide(world, "acme")
    wide(world, "corp")
    world.turns(3, seconds=1.0)
    world.tenant("bolt", 3)
    world.turns(3, seconds=1.0)
    for _ in range(9):
        thread.go_on()
        world.turns()
    assert world.positions()["bolt", 0] == 3
    # Who was in trouble longest ago is next.
    assert tried[2] == "bolt"
    assert [tried.count(name) for name in ("acme", "corp", "bolt")] == [5, 4, 1]


@pytest.mark.parametrize(("limit", "most"), [("MOST_WAITING", 12), ("MOST_BYTES", 12)])
def test_a_tenant_with_many_lanes_leaves_room_for_the_letters_of_others(
    world, later, monkeypatch, limit, most
):
    monkeypatch.setattr(dead_letters, limit, most)
    thread = later()
    wide(world, "acme")
    world.turns(3, seconds=1.0)
    world.tenant("bolt", 3)
    world.turns(3, seconds=1.0)
    assert world.driver.board.lane(world.lane("bolt")).aside == 2
    for _ in range(40):
        while thread.jobs:
            thread.go_on()
            world.turns(1)
        world.turns(3, seconds=1.0)
    assert set(world.positions().values()) == {3}


def test_a_fault_of_the_dead_letters_is_their_lanes_trouble_and_passes(world, later):
    thread = later(*NAMES)
    world.dead_letters.fail_next(TypeError("odd client"))
    thread.go_on()
    world.turns(1)
    (failed,) = (name for name in NAMES if "is not kept" in world.row(name).note)
    assert world.row(failed).note == (
        "partition 0: the dead letter of offset 1 is not kept: the dead letters failed: "
        "TypeError: odd client"
    )
    while thread.jobs:
        thread.go_on()
        world.turns(5, seconds=1.0)
    assert set(at(world).values()) == {3}
