"""Order ``stream`` over partitions that are told at different moments, late, or not at all.

Timestamps here grow with every record that is sent, so the one right order is that of sending.
"""

from random import Random

import pyarrow as pa
import pytest

from headrace.cycle.ends import BLIND_S
from headrace.cycle.topics import TOPICS_EVERY_S, WAITING_EVERY_S
from headrace.model.lane_names import number_of
from headrace.model.streams import Guarantee, Order
from headrace.testing.log_fake import MemoryLog, Row

TOPIC = "acme.visits"


class SlowLog(MemoryLog):
    """Brokers answer one after the other, and anything may happen between two answers."""

    def __init__(self):
        super().__init__()
        self.between = lambda: None
        self.backwards = False

    def end_offsets(self, lanes):
        found = {}
        for lane in sorted(lanes, reverse=self.backwards):
            found |= super().end_offsets([lane])
            if lane.startswith(TOPIC):
                self.between()
        return found


class Strict:
    """One tenant with several partitions, in one order."""

    def __init__(self, world, partitions, **options):
        self.world, self.sent, self.made = world, 0, []
        self.log = world.log = SlowLog()
        world.use_cases = [world.make(self.note, order=Order.STREAM, **options)]
        world.deploy()
        world.tenant("acme", 0, partitions)
        world.tenant("bolt")
        world.start()

    def note(self, table, context):
        self.made += [int(value) for value in table["value"].to_pylist()]
        return pa.table({"offset": table["offset"]})

    def send(self, *partitions, records=1):
        for partition in partitions:
            for _ in range(records):
                self.sent += 1
                row = Row(b"%d" % self.sent, timestamp_ms=1000 * self.sent)
                self.log.append(TOPIC, partition, [row])

    @property
    def done(self):
        return self.made == list(range(1, self.sent + 1))


@pytest.fixture
def strict(world):
    return lambda partitions=2, **options: Strict(world, partitions, **options)


def silent(case, partition):
    case.log.set_leader(TOPIC, partition, present=False)


def back(case, partition):
    case.log.set_leader(TOPIC, partition, present=True)


def test_a_lane_whose_broker_does_not_answer_holds_the_others(strict, world):
    case = strict()
    world.turns()
    silent(case, 0)
    case.send(0, 1)
    world.turns(20)
    assert case.made == []
    back(case, 0)
    world.turns()
    assert case.done


def test_a_lane_that_one_list_of_its_topic_is_without_is_waited_for(strict, world):
    case = strict()
    case.send(0, 1, records=2)
    world.turns()
    case.log.set_listed(TOPIC, 1, False)
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(2)
    case.send(1, 0)
    world.turns()
    case.log.set_listed(TOPIC, 1, True)
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns()
    assert case.done, case.made


def test_the_turn_in_which_the_answer_comes_plans_again(strict, world):
    case = strict()
    world.turns()
    silent(case, 0)
    case.send(0, 1)
    world.turns(20)
    back(case, 0)
    before = len(world.engine.started)
    world.turns(1)
    assert len(world.engine.started) == before + 1


def test_a_lane_that_was_never_heard_of_holds_the_others(strict, world):
    case = strict()
    world.turns()
    case.send(0, 1)
    silent(case, 0)
    world.start()
    world.turns(20)
    assert case.made == []
    back(case, 0)
    world.turns()
    assert case.done


def test_a_partition_that_was_added_and_has_no_leader_holds_the_others(strict, world):
    case = strict()
    world.turns()
    case.log.widen(TOPIC)
    silent(case, 2)
    world.turns(8, seconds=TOPICS_EVERY_S / 4)
    case.send(2, 0)
    world.turns(8)
    assert case.made == []
    assert world.row("acme").state == "waiting"
    assert "not all lanes of acme.visits have a leader" in world.row("acme").note
    back(case, 2)
    world.turns(8, seconds=WAITING_EVERY_S / 4)
    assert case.done


def test_a_stream_of_which_only_some_partitions_have_a_leader_does_not_begin(strict, world):
    case = strict(3)
    silent(case, 1)
    case.send(1, 0, 2)
    world.turns(20)
    assert case.made == []
    back(case, 1)
    world.turns(8, seconds=WAITING_EVERY_S / 4)
    assert case.done


def test_people_are_told_which_lane_a_stream_waits_for_and_no_longer_than_it_does(strict, world):
    case = strict()
    world.turns()
    silent(case, 0)
    case.send(0, 1)
    world.turns(2, seconds=0.1)
    assert world.row("acme").state == "active"
    world.turns(4, seconds=BLIND_S / 2)
    assert world.row("acme").state == "waiting"
    assert "no broker says where acme.visits[0] ends" in world.row("acme").note
    assert world.row("bolt").state == "active"
    back(case, 0)
    world.turns()
    assert (world.row("acme").state, world.row("acme").note) == ("active", "")


def test_what_the_first_answers_told_is_not_lost_when_nobody_answers_the_second_question(
    strict, world
):
    case = strict()
    three, one = ([Row(b"0", timestamp_ms=0)] * count for count in (3, 1))
    case.log.append("bolt.visits", 0, three)
    world.turns()
    assert world.positions()["bolt", 0] == 3
    case.log.delete_topic("bolt.visits")
    case.log.create_topic("bolt.visits")
    case.log.append("bolt.visits", 0, one)
    case.send(0, 1)
    case.log.backwards = True
    answers = iter(range(2))

    def the_brokers_go():
        case.log.down = next(answers, 1) > 0

    case.log.between = the_brokers_go
    world.turns(1)
    assert case.log.down
    case.log.between, case.log.down = (lambda: None), False
    case.log.append("bolt.visits", 0, three)
    world.turns()
    assert world.positions()["bolt", 0] == 3
    assert "made again" in world.row("bolt").note


def test_a_silent_lane_does_not_hold_what_was_sure_before(strict, world):
    case = strict()
    case.send(*[0, 1] * 250)
    world.turns(2)
    assert 0 < len(case.made) < 500
    silent(case, 0)
    before = len(world.engine.started)
    world.turns(3)
    assert len(world.engine.started) > before


@pytest.mark.parametrize("backwards", [False, True])
def test_records_that_come_between_the_answers_of_two_brokers_are_put_in_order(
    strict, world, backwards
):
    case = strict()
    world.turns()
    case.log.backwards = backwards
    sent = [(1, 0) if backwards else (0, 1)]
    case.log.between = lambda: case.send(*sent.pop()) if sent else None
    world.turns()
    assert case.done


@pytest.mark.parametrize("seed", range(12))
def test_whatever_answers_when_effects_are_in_the_order_of_sending(strict, world, seed):
    rng = Random(seed)
    case = strict(rng.randint(2, 4))
    world.turns()

    def anything():
        lanes = [number_of(lane) for lane in case.log.topics([TOPIC])[TOPIC].lanes]
        for _ in range(rng.randint(0, 2)):
            case.send(rng.choice(lanes), records=rng.choice([1, 1, 2, 90]))
        if rng.random() < 0.05:
            case.log.set_leader(TOPIC, rng.choice(lanes), rng.random() < 0.7)

    case.log.between = anything
    for _ in range(40):
        case.log.backwards = rng.random() < 0.5
        world.turns(1, seconds=rng.choice([0.01, 0.1, 3.0]))
        if rng.random() < 0.05:
            world.start()
    case.log.between = lambda: None
    for left in case.log.topics([TOPIC])[TOPIC].lanes:
        back(case, number_of(left))
    world.turns(80)
    assert list(dict.fromkeys(case.made)) == list(range(1, case.sent + 1))


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_what_comes_before_a_record_that_cannot_be_read_is_done_before_it_is_set_aside(
    strict, world, guarantee
):
    case = strict(guarantee=guarantee, bad_record="dead-letter")
    case.send(0, 1, 0, 1, 0)
    case.log.append(TOPIC, 0, [Row(b"unreadable", timestamp_ms=5500, readable=False)])
    case.send(1, 0, 0)
    world.turns(40, seconds=0.5)
    assert case.done
    assert [letter.error.offset for letter in world.dead_letters.letters] == [3]
