"""A use case that executors cannot load waits, says so, and is tried again; nobody else notices."""

import pytest

from headrace.cycle.failing import BACKOFF
from headrace.errors import CodeNotLoaded
from headrace.ports import WaveResult
from headrace.sinks import ParquetFiles
from headrace.spark.slice_errors import error_of

WHY = "package shapely is not installed on executor e1"
MINUTES = 10


class Lacking:
    """What a worker does that lacks a package of one use case, as long as it does."""

    def __init__(self, work):
        self.work, self.installed = work, False

    def __getattr__(self, name):
        return getattr(self.work, name)

    def load(self):
        if not self.installed:
            raise CodeNotLoaded(WHY)
        return self.work.load()


@pytest.fixture(params=["at-most-once", "at-least-once", "exactly-once"])
def lacking(world, request):
    """Two use cases; executors have not what ``keep`` needs."""
    sink = ParquetFiles("other")
    world.use_cases = [world.make(guarantee=request.param), world.make(name="other", sink=sink)]
    world.deploy()
    for name in "ab":
        world.tenant(name, 5)
    world.start()
    works = world.engine._works
    made = Lacking(works["keep", world.use_cases[0].terms])
    world.engine._works = {key: made if key[0] == "keep" else work for key, work in works.items()}
    return made


def test_it_is_shown_on_its_streams_and_others_go_on(world, lacking):
    world.turns(10, 1.0)
    for name in "ab":
        row = world.row(name)
        assert row.state == "retrying"
        assert WHY in row.note
        assert world.row(name, "other").state == "active"
    assert set(world.positions().values()) == {0}
    assert set(world.positions("other").values()) == {5}
    assert world.store.failures.every() == []


def test_it_is_tried_with_growing_waits_and_not_without_end(world, lacking):
    world.turns(MINUTES * 60, 1.0)
    tried = [wave for wave in world.engine.started if wave.use_case == "keep"]
    lanes = 2
    assert 3 < len(tried) < lanes * (10 + MINUTES * 60 / (BACKOFF.most_s / 2))


def test_once_executors_can_load_it_nothing_else_has_to_be_done(world, lacking):
    world.turns(60, 1.0)
    lacking.installed = True
    world.turns(60, 1.0)
    assert set(world.positions().values()) == {5}
    of_both = [(name, at) for name in "ab" for at in range(5)] * 2
    assert sorted(world.seen) == sorted(of_both)
    assert world.store.progress.pending_intents() == []


def test_a_job_that_could_not_begin_for_it_is_shown_as_well(world, monkeypatch):
    """As where executors lack Headrace itself: no task runs that could say so."""
    world.deploy()
    world.tenant("a", 5)
    world.start()
    error = error_of(CodeNotLoaded(WHY))
    monkeypatch.setattr(
        type(world.engine), "_run", lambda _, wave: WaveResult(wave, (), 0.0, error)
    )
    world.turns(3)
    row = world.row("a")
    assert row.state == "retrying"
    assert WHY in row.note
