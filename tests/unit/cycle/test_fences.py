"""Which names bins get, and who keeps them."""

import pytest

from headrace.cycle.fences import Fences
from headrace.cycle.parts import parts_of
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.ports import Written
from headrace.sinks import failed


def _wave(*fences):
    return Wave("w", "keep", tuple(Bin((), 0.0, fence) for fence in fences), 1.0)


def _fences(wave):
    return [bin_.fence for bin_ in wave.bins]


def test_no_two_bins_have_one_name():
    others = [_wave("a-0"), _wave("a-2", "b-1")]
    given = Fences("a").given(_wave("", "", ""), others, slots=1)
    assert _fences(given) == ["a-1", "a-3", "a-4"]


def test_there_are_as_many_names_as_slots_and_the_one_longest_free_is_next():
    fences, order = Fences("a"), []
    for _ in range(6):
        order += _fences(fences.given(_wave(""), [], slots=3))
    assert order == ["a-0", "a-1", "a-2"] * 2


def test_a_name_in_use_until_lately_comes_after_those_that_were_free():
    fences = Fences("a")
    waves = [fences.given(_wave(""), [], slots=3) for _ in range(3)]
    assert _fences(fences.given(_wave(""), waves[:2], slots=3)) == ["a-2"]
    assert _fences(fences.given(_wave(""), waves[1:2], slots=3)) == ["a-0"]
    assert _fences(fences.given(_wave(""), [], slots=3)) == ["a-2"]


class Moody:
    """A sink by intent that answers for some tenants as it is told, once each."""

    exactly_once = "intent"

    def __init__(self):
        #: tenant -> error of the next write
        self.errors = {}
        #: what each site was opened with
        self.sites = []
        #: effects written, as (tenant, from, reached)
        self.kept = []

    def prepare(self, _site):
        pass

    def open(self, site):
        self.sites.append((site.wave_id, site.fence))
        return self

    def write(self, effects):
        outcomes = []
        for effect in effects:
            (piece,) = effect.slices
            error = self.errors.pop(piece.lane.tenant, None)
            if error is None:
                self.kept.append((piece.lane.tenant, piece.from_offset, *effect.reached))
            outcomes.append(failed(error) if error else Written())
        return outcomes

    def close(self):
        pass


@pytest.fixture
def sink():
    return Moody()


@pytest.fixture
def moody(world, sink):
    """Two tenants whose slices share a wave of an exactly-once use case."""
    world.use_cases = [world.make(sink=sink, guarantee="exactly-once")]
    world.deploy()
    world.tenant("acme", 5)
    world.tenant("bolt", 3)
    world.start()
    return world


def test_a_recorded_wave_that_runs_again_has_its_fences_again(moody, sink):
    moody.engine.accidents = ["after"]
    moody.turns(12, seconds=5.0)
    assert sink.sites[0] == sink.sites[1]
    assert sink.sites[0][1].endswith("-0")


def test_the_next_life_of_a_driver_keeps_the_fences_it_finds(moody, sink):
    moody.driver.turn()
    (recorded,) = moody.store.progress.pending_intents()
    moody.start()
    moody.turns()
    assert (recorded.id, recorded.bins[0].fence) in sink.sites


def test_slices_whose_outcome_is_not_known_run_again_as_they_were(moody, sink):
    sink.errors = {"acme": SinkUnavailable("no answer"), "bolt": SinkUnavailable("no answer")}
    moody.turns(2)
    moody.send("acme", 7)
    moody.turns(12, seconds=5.0)
    assert {fence for _, fence in sink.sites[:3]} == {sink.sites[0][1]}
    assert sorted(sink.kept) == [("acme", 0, 5), ("acme", 5, 12), ("bolt", 0, 3)]
    assert moody.store.progress.pending_intents() == []


def test_what_is_known_of_a_wave_does_not_wait_for_the_rest(moody, sink):
    sink.errors = {"acme": SinkUnavailable("no answer", retry_after_s=60.0)}
    moody.turns(3)
    assert moody.positions() == {("acme", 0): 0, ("bolt", 0): 3}
    (owed,) = moody.store.progress.pending_intents()
    assert [str(piece.lane) for piece in owed.slices] == ["acme/keep/acme.visits[0]"]
    assert owed.bins[0].fence == sink.sites[0][1]
    moody.send("acme", 7)
    moody.send("bolt", 2)
    moody.turns(4, seconds=1.0)
    assert moody.positions()["bolt", 0] == 5
    moody.turns(12, seconds=10.0)
    assert sorted(sink.kept) == [
        ("acme", 0, 5),
        ("acme", 5, 12),
        ("bolt", 0, 3),
        ("bolt", 3, 5),
    ]


def test_what_is_owed_is_found_by_the_next_life_of_the_driver(moody, sink):
    sink.errors = {"acme": SinkUnavailable("no answer")}
    moody.turns(2)
    moody.send("acme", 7)
    moody.start()
    moody.turns()
    assert ("acme", 0, 5) in sink.kept
    assert ("acme", 5, 12) in sink.kept


def test_a_part_of_a_wave_keeps_the_fence_of_each_bin():
    lanes = [LaneId("keep", name, f"{name}.visits[0]") for name in ("acme", "bolt", "cove")]
    slices = [Slice(lane, "t", 0, 1, 1) for lane in lanes]
    wave = Wave("w", "keep", (Bin(tuple(slices[:2]), 2.0, "a-0"), Bin((slices[2],), 1.0, "a-1")), 1)
    labels = {lane.stream: "" if lane.tenant == "acme" else "rest" for lane in lanes}
    part = parts_of(wave, labels)[1]
    assert part.id.startswith("w.")
    assert part.bins == (Bin((slices[1],), 1.0, "a-0"), Bin((slices[2],), 1.0, "a-1"))
