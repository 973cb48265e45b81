"""A DataFrame wave that was read otherwise the second time is tried again, or told as lost."""

import pytest

from headrace.errors import ReadOtherwise
from headrace.model.records import FailureState
from headrace.model.streams import StreamId
from headrace.ports import WaveResult
from headrace.spark.slice_errors import error_of
from headrace.spark.task import opened
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.simulation.frames import LostBlocks, run_wave
from headrace.use_cases import use_case

EACH = [(tenant, offset) for tenant in "ab" for offset in range(5)]


class AfterTwo:
    """Chance by which brokers go after two records."""

    def random(self):
        return 0.0

    def randint(self, _least, most):
        return min(2, most)


class Whole:
    """Positions in a task in which nobody dies."""

    def __init__(self, positions):
        self.whole = positions

    def __getattr__(self, name):
        return getattr(self.whole, name)

    def step(self, _where):
        pass


@pytest.fixture(params=["first", "again"])
def lost(request, monkeypatch):
    """Waves that lose what was kept of them; brokers are away at the first reading, or then."""
    left = [LostBlocks(AfterTwo(), request.param)]

    def run(engine, wave):
        work = engine._taken.pop(wave.id)
        clients = opened(work)
        object.__setattr__(clients, "positions", Whole(clients.positions))
        lost = left.pop() if left else None
        try:
            return WaveResult(wave, tuple(run_wave(work.load(), wave, clients, lost)), 0.0)
        except ReadOtherwise as error:
            return WaveResult(wave, (), 0.0, error_of(error))

    monkeypatch.setattr(InProcessEngine, "_run", run)
    return request.param


def turned(world, guarantee):
    """What the handler was given, by wave."""
    seen = {}

    def report(frame, wave):
        seen[wave.id] = [
            (piece.lane.tenant, offset)
            for piece, records in frame.parts
            for offset in records["offset"].to_pylist()
        ]

    made = use_case(topic="{tenant}.visits", form="wave", name="keep", guarantee=guarantee)
    world.use_cases = [made(report)]
    world.deploy()
    for name in "ab":
        world.tenant(name, 5)
    world.start()
    world.turns(20, 1.0)
    return sorted(row for rows in seen.values() for row in rows)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_wave_that_was_read_otherwise_is_tried_again(world, lost, guarantee):
    assert turned(world, guarantee) == EACH
    assert world.positions() == {("a", 0): 5, ("b", 0): 5}
    assert world.store.progress.pending_intents() == []


def test_at_most_once_what_was_read_otherwise_is_told_as_lost(world, lost):
    done = turned(world, "at-most-once")
    kept = [f for name in "ab" for f in world.store.failures.every(StreamId("keep", name))]
    claimed = 2 if lost == "first" else 5
    assert done == [(name, offset) for name in "ab" for offset in range(claimed, 5)]
    assert [(f.slice.from_offset, f.slice.until_offset) for f in kept] == [(0, claimed)] * 2
    assert {(f.state, f.error.code) for f in kept} == {(FailureState.SKIPPED, "ReadOtherwise")}
