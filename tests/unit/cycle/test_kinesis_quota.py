"""Use cases that read one stream share what its shards give, so none of them is refused."""

from dataclasses import dataclass

import pytest

from headrace.model.streams import State, Tenant
from headrace.testing.kinesis.service import DESCRIBED_PER_S, FakeKinesis
from headrace.testing.kinesis.state import ServiceError
from kinesis_world import KinesisWorld

SPENT = "ProvisionedThroughputExceededException"


class Counting(FakeKinesis):
    """It counts answers, and what it refuses since a shard is spent."""

    answers = refused = 0

    def get_records(self, **asked):
        try:
            told = super().get_records(**asked)
        except ServiceError as error:
            self.refused += error.response["Error"]["Code"] == SPENT
            raise
        self.answers += 1
        return told


@dataclass
class Shared(KinesisWorld):
    """Three use cases read the stream of acme."""

    guarantee: str = "at-least-once"

    def __post_init__(self):
        super().__post_init__()
        self.kinesis.__class__ = Counting
        self.use_cases += [self.make(self._keep, f"keep-{number}") for number in range(1, 3)]
        self.deploy()

    def flow(self, seconds, step_s=0.05):
        """Records come all the time, and turns; what was answered and refused meanwhile."""
        answers, refused = self.kinesis.answers, self.kinesis.refused
        for _ in range(round(seconds / step_s)):
            self.put("a")
            self.turns(1, step_s)
        return self.kinesis.answers - answers, self.kinesis.refused - refused


@pytest.fixture
def world(tmp_path):
    made = Shared(tmp_path)
    yield made
    made.log.close()
    made.store.close()


def test_three_use_cases_over_a_stream_are_refused_nothing_in_steady_state(world):
    world.begin(2)
    world.flow(10)
    answers, refused = world.flow(60)
    assert refused == 0
    assert answers >= 3 * 40  # of one shard that has records; the other one is seldom asked
    world.turns(60, 0.05)
    seen = [int(value) for _, value in world.seen]
    assert len(seen) == 3 * world.written["a"]


def test_all_use_cases_that_are_deployed_count_be_they_of_another_driver(world):
    world.begin(1)
    world.flow(5)
    world.use_cases = world.use_cases[:1]
    world.start()
    world.flow(5)
    (held,) = world.driver.board.streams.values()
    assert held.readers == 3
    answers, refused = world.flow(30)
    assert refused == 0
    assert answers <= 30


def test_a_stream_that_is_suspended_reads_nothing_and_leaves_the_others_more(world):
    world.begin(1)
    world.flow(5)
    for stream in world.store.registry.streams()[1:]:
        world.store.registry.set_stream_state(stream.id, State.SUSPENDED)
    world.flow(2)
    active = [held for held in world.driver.board.streams.values() if held.state is State.ACTIVE]
    assert [held.readers for held in active] == [1]
    answers, refused = world.flow(30)
    assert refused == 0
    assert answers >= 80


def test_an_account_that_describes_few_streams_in_a_second_holds_up_none_that_is_read(tmp_path):
    """Streams that were taken up together are looked at together, each half minute."""
    world = KinesisWorld(tmp_path, guarantee="at-least-once")
    names = [f"t{number}" for number in range(2 * DESCRIBED_PER_S)]
    for name in names:
        world.kinesis.create_stream(StreamName=f"{name}.visits")
        world.store.registry.add_tenant(Tenant(name))
    world.start()
    world.turns(20, 0.5)
    waiting = set()
    for _ in range(80):
        world.turns(1, 0.5)
        waiting |= {row.note for row in world.driver.rows() if row.state != "active"}
    assert waiting == set()
    world.log.close()
    world.store.close()
