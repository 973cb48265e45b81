"""A use case that executors cannot load waits, says so, and is tried again; nobody else notices."""

from dataclasses import replace

import pytest

import driver_world
from headrace.cycle.failing import BACKOFF
from headrace.errors import CodeNotLoaded
from headrace.ports import WaveResult
from headrace.sinks import ParquetFiles
from headrace.spark.slice_errors import error_of
from headrace.testing.engine_fake import InProcessEngine

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


class SlowToLoad(InProcessEngine):
    """Its workers are at an import when a wave is ended."""

    def _run(self, wave):
        result = super()._run(wave)
        return result if result.receipts else replace(result, error=error_of(CodeNotLoaded(WHY)))


@pytest.fixture
def slow(world, monkeypatch, request):
    """Two tenants whose workers import; a wave has ended for it."""
    world.use_cases = [world.make(guarantee=request.param)]
    world.deploy(retries=0)
    for name in "ab":
        world.tenant(name, 5)
    monkeypatch.setattr(driver_world, "InProcessEngine", SlowToLoad)
    world.start(load_s=100.0)
    return world


def ends_after(world, seconds):
    """Whether what runs is ended after so long."""
    world.engine.paused = True
    world.turns(2, 0.01)
    assert world.driver.board.flights
    world.turns(2, seconds)
    ended = [flight.cancelled for flight in world.driver.board.flights.values()]
    world.engine.paused = False
    return all(ended)


ALL = pytest.mark.parametrize(
    "slow", ["at-most-once", "at-least-once", "exactly-once"], indirect=True
)


@ALL
def test_a_wave_that_is_ended_while_its_worker_imports_is_nobodys_fault(slow):
    for _ in range(5):
        assert ends_after(slow, 300.0)
        slow.turns(1, 0.01)
        assert WHY in slow.row("a").note
        assert not any(held.apart for held in slow.driver.board.streams.values())
        slow.turns(1, BACKOFF.most_s)
    slow.turns(60, 1.0)
    assert set(slow.positions().values()) == {5}
    assert slow.store.failures.every() == []


@pytest.mark.parametrize("slow", ["at-least-once"], indirect=True)
def test_a_worker_has_as_long_to_load_a_version_as_the_driver_was_told(slow):
    assert not ends_after(slow, 80.0)


@pytest.mark.parametrize("slow", ["at-least-once"], indirect=True)
def test_each_worker_of_a_version_that_loads_slowly_has_that_time_however_late_it_comes(slow):
    slow.turns(4)
    for _ in range(2 * slow.engine.slots):
        slow.send("a", 1)
        slow.turns(4)
    slow.send("a", 1)
    assert ends_after(slow, 150.0), "it has the time of a warm one"
    slow.turns(10, 1.0)
    for _ in range(2 * slow.engine.slots):
        slow.send("a", 1)
        slow.turns(4)
    slow.send("a", 1)
    assert not ends_after(slow, 150.0)
